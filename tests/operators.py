"""Operators that are known or small, for tests of what is learned of them, and what watches their learning."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from sciuq_runner.models.deeponet import DeepONet
from sciuq_runner.networks.base import Drop
from sciuq_runner.networks.operator import OperatorNetwork
from sciuq_runner.training.loop import Loop, Silent


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


TINY = DeepONet(branch="mlp", width=32, depth=1, activation="tanh", trunk_width=32, trunk_depth=2, n_modes=16)


class Counting(Silent):
    """Counts the strides of every stage, and asks to stop in one of them."""

    def __init__(self, stop_in: str = "") -> None:
        self.stop_in, self.made = stop_in, dict[str, int]()
        self.loop: Loop | None = None

    def start(self, name: str, total: int) -> None:
        self.stage = name

    def update(self, done: int, numbers: dict[str, float]) -> None:
        self.made[self.stage] = self.made.get(self.stage, 0) + 1
        if self.loop is not None and self.stage == self.stop_in:
            self.loop.request_stop()
