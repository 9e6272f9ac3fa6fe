"""Operators that are known, for tests of what is learned of them."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from sciuq_runner.networks.base import Drop
from sciuq_runner.networks.operator import OperatorNetwork


class OneWeight(OperatorNetwork):
    """Linear in its only weight."""

    n_params = 1

    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor:
        return torch.ones(n, 1)

    def last_layer(self) -> Tensor:
        return torch.ones(1, dtype=torch.bool)

    def blocks(self) -> list[tuple[int, int]]:
        return [(1, 1)]

    def init(self, n_members: int, generator: Generator) -> Tensor:
        return torch.ones(n_members, 1, dtype=torch.float64)
