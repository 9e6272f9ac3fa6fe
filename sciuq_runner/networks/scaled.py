"""A network in units in which what it sees and what it gives are of the order of one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from sciuq_runner.networks.base import Drop, Network
from sciuq_runner.physics.problem import Unit
from sciuq_runner.physics.taylor import Index, Order, is_sum, terms_of


class Scaled(Network):
    r"""The function :math:`a + b\, u_\theta\big((x - c)/d\big)`, its derivatives by the chain rule:
    :math:`b\, d^{-\alpha}\, \partial^\alpha u_\theta`.

    ``output`` is the unit (b, a) of the first ``n_scaled`` outputs, ``inputs`` are those (d, c) of all inputs.
    """

    def __init__(self, network: Network, inputs: Sequence[Unit], output: Unit, n_scaled: int) -> None:
        assert len(inputs) == network.n_inputs
        self.network, self.inputs, self.output, self.n_scaled = network, tuple(inputs), output, n_scaled
        self.n_inputs, self.n_outputs, self.n_params = network.n_inputs, network.n_outputs, network.n_params

    def points(self, x: Tensor) -> Tensor:
        """What the network sees of points."""
        columns = [(x[..., i] - unit.offset) / unit.scale for i, unit in enumerate(self.inputs)]
        return torch.stack(columns, dim=-1)

    def scaled(self, values: Tensor, factor: float, offset: float) -> Tensor:
        """Outputs in their unit; those that have none as they are."""
        if (factor, offset) == (1.0, 0.0):
            return values
        if self.n_scaled == self.n_outputs:
            return offset + factor * values
        return torch.cat([offset + factor * values[..., : self.n_scaled], values[..., self.n_scaled :]], dim=-1)

    def factor(self, index: Index) -> float:
        """What a derivative with respect to what the network sees is to be multiplied by."""
        return math.prod(unit.scale**-n for unit, n in zip(self.inputs, index, strict=True))

    def __call__(self, theta: Tensor, x: Tensor) -> Tensor:
        return self.scaled(self.network(theta, self.points(x)), self.output.scale, self.output.offset)

    def derivatives(self, theta: Tensor, x: Tensor, orders: Sequence[Order]) -> list[Tensor]:
        inner: list[Order] = []
        factors = []
        for order in orders:
            if is_sum(order):
                inner.append(tuple((index, weight * self.factor(index)) for index, weight in terms_of(order)))
                factors.append(1.0)
            else:
                inner.append(order)
                factors.append(self.factor(terms_of(order)[0][0]))
        found = self.network.derivatives(theta, self.points(x), inner)
        return [
            self.scaled(value, self.output.scale * factor, 0.0 if is_sum(order) or any(order) else self.output.offset)
            for value, factor, order in zip(found, factors, orders, strict=True)
        ]

    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor:
        return self.network.dropout_masks(n, rate, kind, generator)

    def last_layer(self) -> Tensor:
        return self.network.last_layer()

    def blocks(self) -> list[tuple[int, int]]:
        return self.network.blocks()

    def init(self, n_members: int, generator: Generator) -> Tensor:
        return self.network.init(n_members, generator)
