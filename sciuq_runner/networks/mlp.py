"""The fully connected network on a hand-batched fast path."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from sciuq_runner.networks.activations import Activation
from sciuq_runner.networks.layered import Init, Layered
from sciuq_runner.physics.taylor import Order, closure, collapsed, compose, degree, factorial, gather, terms_of


class MLP(Layered):
    r"""Multi-layer perceptron :math:`h_{l+1} = \phi(h_l W_l + b_l)`, the last layer linear.

    All members advance in one batched matrix product per layer, which is where ensembles, chains and
    Monte Carlo draws get their speed.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        hidden: Sequence[int] = (50, 50),
        activation: Activation = "tanh",
        init: Init = "xavier_normal",
        prior_scale: float = 1.0,
    ) -> None:
        super().__init__(list(pairwise((n_inputs, *hidden, n_outputs))), activation, init, prior_scale)
        self.n_inputs, self.n_outputs = n_inputs, n_outputs

    def __call__(self, theta: Tensor, x: Tensor) -> Tensor:
        *hidden, last = self.layers(theta)
        for weight, bias in hidden:
            x = self.activate(affine(x, weight, bias))
        return affine(x, *last)

    def derivatives(self, theta: Tensor, x: Tensor, orders: Sequence[Order]) -> list[Tensor]:
        """Taylor series pass through the layers: one matrix product each for the value and all derivatives."""
        (weight, bias), *following = self.layers(theta)
        return self.sweep(affine(x, weight, bias), weight, following, orders)

    def sweep(
        self, value: Tensor, first: Tensor, following: Sequence[tuple[Tensor, Tensor]], orders: Sequence[Order]
    ) -> list[Tensor]:
        """Derivatives of the output by what the matrix ``first`` is applied to, from the ``value[M, N, H]`` behind."""
        kept = collapsed(tuple(orders))
        needed = closure(kept)
        zero, highest = needed[0], max(degree(order) for order in needed)
        series: dict[Order, Tensor] = {zero: value, **unit_steps(first, needed)}
        shape = (*series[zero].shape[:-1], self.n_outputs)
        zeros = series[zero].new_zeros(())
        for layer, (weight, bias) in enumerate(following):
            wanted = needed if layer < len(following) - 1 else kept
            series = compose(self.activation(series[zero], highest), series, wanted)
            series = propagate(series, weight, bias)
        values = {order: series.get(order, zeros).expand(shape) for order in kept}
        return gather(orders, {o: v if factorial(o) == 1 else factorial(o) * v for o, v in values.items()})


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Batched ``x W + b``; products with one row or column skip the matrix kernel, which is slower there."""
    fan_in, fan_out = weight.shape[-2:]
    if fan_in == 1:
        return x * weight + bias
    if x.dim() == 2:
        return torch.matmul(x, weight) + bias
    if fan_out == 1:
        return (x * weight.transpose(1, 2)).sum(-1, keepdim=True) + bias
    return torch.baddbmm(bias, x, weight)


def unit_steps(weight: Tensor, needed: Sequence[Order]) -> dict[Order, Tensor]:
    """First derivatives of ``x W``: a row of the matrix for every coordinate, the same at all points."""
    n_inputs = len(needed[0])
    rows = {tuple(int(i == j) for j in range(n_inputs)): weight[:, i, None] for i in range(n_inputs)}
    found: dict[Order, Tensor] = {}
    for order in needed:
        first = [
            rows[index] if factor == 1 else factor * rows[index] for index, factor in terms_of(order) if index in rows
        ]
        if first:
            found[order] = sum(first[1:], first[0])
    return found


def propagate(series: dict[Order, Tensor], weight: Tensor, bias: Tensor) -> dict[Order, Tensor]:
    """A linear layer of a Taylor series; the bias belongs to the value alone."""
    if not series:  # all that is wanted is zero: second derivatives of a piecewise linear network
        return {}
    count = next(iter(series.values())).shape[-2]
    stacked = torch.cat([part.expand(*part.shape[:-2], count, -1) for part in series.values()], dim=-2)
    if weight.shape[-1] == 1:
        images = (stacked * weight.transpose(1, 2)).sum(-1, keepdim=True)
    else:
        images = torch.bmm(stacked, weight)
    parts = dict(zip(series, images.unflatten(-2, (len(series), count)).unbind(-3), strict=True))
    return {order: part if any(order) else part + bias for order, part in parts.items()}
