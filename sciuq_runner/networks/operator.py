"""Operators: networks of a function, given by its values at fixed sensors, and a point."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Generator, Tensor

from sciuq_runner.networks.base import Drop, Network
from sciuq_runner.networks.parallel import Joined
from sciuq_runner.networks.scaled import Scaled
from sciuq_runner.physics.problem import Array, Unit


class OperatorNetwork(ABC):
    r"""A function :math:`u_\theta(x; \lambda)` of points and of functions :math:`\lambda`, for many theta at once.

    Shapes:
        ``theta`` is ``[M, K]`` with one member per row; ``x`` is ``[N, D]``, shared by all; ``inputs`` are the values
        of R functions at the sensors, ``[R, S]`` (shared by all members) or ``[M, R, S]``; the value is ``[M, N, R]``.
    """

    n_params: int

    @abstractmethod
    def __call__(self, theta: Tensor, x: Tensor, inputs: Tensor) -> Tensor: ...

    @abstractmethod
    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor:
        """As of :class:`Network`."""

    @abstractmethod
    def last_layer(self) -> Tensor:
        """As of :class:`Network`."""

    @abstractmethod
    def blocks(self) -> list[tuple[int, int]]:
        """As of :class:`Network`."""

    @abstractmethod
    def init(self, n_members: int, generator: Generator) -> Tensor:
        """As of :class:`Network`."""


def in_box(network: Network, low: Array, high: Array) -> Network:
    """The network with coordinates that run from -1 at one corner of a box to 1 at the other."""
    span = np.where(high > low, high - low, 1.0)
    units = [
        Unit(scale, offset) for scale, offset in zip((span / 2).tolist(), ((low + high) / 2).tolist(), strict=True)
    ]
    return Scaled(network, units, Unit(), network.n_outputs)


class BranchTrunkNetwork(Joined, OperatorNetwork):
    r"""Two networks that meet in an inner product (Lu et al. 2021),

    .. math:: u(x; \lambda) = \frac{1}{\sqrt p} \sum_{k=1}^p b_k(\lambda)\, t_k(x) + b_{p+1}(\lambda).

    The branch sees every function once and the trunk every point once, however many pairs of both there are. ``branch``
    has one output more than ``trunk``.
    """

    def __init__(self, branch: Network, trunk: Network) -> None:
        assert branch.n_outputs == trunk.n_outputs + 1
        super().__init__([branch, trunk])
        self.branch, self.trunk = branch, trunk

    def __call__(self, theta: Tensor, x: Tensor, inputs: Tensor) -> Tensor:
        first, second = self.split(theta)
        weights, modes = self.branch(first, inputs), self.trunk(second, x)
        offset = weights[..., -1:].transpose(1, 2)
        scaled = weights[..., :-1].transpose(1, 2) / math.sqrt(modes.shape[-1])
        return torch.baddbmm(offset, modes, scaled)

    def last_layer(self) -> Tensor:
        """Of the branch: given all other weights, the operator is linear in it."""
        return torch.cat([self.branch.last_layer(), torch.zeros(self.trunk.n_params, dtype=torch.bool)])
