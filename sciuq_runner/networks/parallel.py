"""Several networks as one: theta holds their weights one after another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from sciuq_runner.networks.base import Drop, Network
from sciuq_runner.physics.taylor import Order


class Joined:
    """What does not depend on how the networks work together."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self.networks = list(networks)
        self.sizes = [network.n_params for network in self.networks]
        self.n_params = sum(self.sizes)

    def split(self, theta: Tensor) -> tuple[Tensor, ...]:
        return torch.split(theta, self.sizes, dim=1)

    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor:
        return torch.cat([network.dropout_masks(n, rate, kind, generator) for network in self.networks], dim=1)

    def last_layer(self) -> Tensor:
        return torch.cat([network.last_layer() for network in self.networks])

    def blocks(self) -> list[tuple[int, int]]:
        return [block for network in self.networks for block in network.blocks()]

    def init(self, n_members: int, generator: Generator) -> Tensor:
        return torch.cat([network.init(n_members, generator) for network in self.networks], dim=1)


class Parallel(Joined, Network):
    """The outputs of several networks of the same input side by side."""

    def __init__(self, networks: Sequence[Network]) -> None:
        super().__init__(networks)
        self.n_inputs = self.networks[0].n_inputs
        self.n_outputs = sum(network.n_outputs for network in self.networks)

    def __call__(self, theta: Tensor, x: Tensor) -> Tensor:
        parts = zip(self.networks, self.split(theta), strict=True)
        return torch.cat([network(part, x) for network, part in parts], dim=-1)

    def derivatives(self, theta: Tensor, x: Tensor, orders: Sequence[Order]) -> list[Tensor]:
        parts = zip(self.networks, self.split(theta), strict=True)
        found = [network.derivatives(part, x, orders) for network, part in parts]
        return [torch.cat(values, dim=-1) for values in zip(*found, strict=True)]
