"""The fully connected network on a hand-batched fast path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Generator, Tensor

from sciuq_runner.networks.activations import ACTIVATIONS, SIREN_FREQUENCY, Activation
from sciuq_runner.networks.base import Drop, Network, keep
from sciuq_runner.networks.taylor import Index, closure, compose, factorial

Init = Literal["xavier_normal", "xavier_uniform", "he_normal", "siren", "prior"]


class MLP(Network):
    r"""Multi-layer perceptron :math:`h_{l+1} = \phi(h_l W_l + b_l)`, the last layer linear.

    All members advance in one batched matrix product per layer, which is where ensembles, chains and
    Monte Carlo draws get their speed. ``theta`` holds, layer by layer, ``W_l`` row-major then ``b_l``.
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
        self.n_inputs, self.n_outputs = n_inputs, n_outputs
        self.shapes = list(pairwise((n_inputs, *hidden, n_outputs)))
        self.n_params = sum(fan_in * fan_out + fan_out for fan_in, fan_out in self.shapes)
        self.activation = ACTIVATIONS[activation]
        self.init_kind, self.prior_scale = init, prior_scale

    def layers(self, theta: Tensor) -> list[tuple[Tensor, Tensor]]:
        """View flat ``theta`` as weights ``[M, fan_in, fan_out]`` and biases ``[M, 1, fan_out]``."""
        sizes = [size for fan_in, fan_out in self.shapes for size in (fan_in * fan_out, fan_out)]
        parts = iter(theta.split(sizes, dim=1))  # one split: its gradient is one concatenation
        return [
            (next(parts).unflatten(1, (fan_in, fan_out)), next(parts).unflatten(1, (1, fan_out)))
            for fan_in, fan_out in self.shapes
        ]

    def __call__(self, theta: Tensor, x: Tensor) -> Tensor:
        *hidden, last = self.layers(theta)
        for weight, bias in hidden:
            (value,) = self.activation(affine(x, weight, bias), 0)
            assert value is not None
            x = value
        return affine(x, *last)

    def derivatives(self, theta: Tensor, x: Tensor, orders: Sequence[Index]) -> list[Tensor]:
        """Taylor series pass through the layers: one matrix product each for the value and all derivatives."""
        (weight, bias), *following = self.layers(theta)
        needed = closure(tuple(orders))
        series = {needed[0]: affine(x, weight, bias)}  # x itself: its first derivatives are unit vectors
        series |= unit_steps(weight, needed)
        return self.sweep(series, following, orders)

    def sweep(
        self, series: dict[Index, Tensor], following: Sequence[tuple[Tensor, Tensor]], orders: Sequence[Index]
    ) -> list[Tensor]:
        """Derivatives of the output from the Taylor series ``[M, N, H]`` behind the first layer."""
        needed = closure(tuple(orders))
        zero, highest = needed[0], max(sum(index) for index in needed)
        shape = (*series[zero].shape[:-1], self.n_outputs)
        zeros = series[zero].new_zeros(())
        for layer, (weight, bias) in enumerate(following):
            wanted = needed if layer < len(following) - 1 else tuple(dict.fromkeys(orders))
            series = compose(self.activation(series[zero], highest), series, wanted)
            series = propagate(series, weight, bias)
        values = [series.get(index, zeros).expand(shape) for index in orders]
        return [v if factorial(i) == 1 else factorial(i) * v for v, i in zip(values, orders, strict=True)]

    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor:
        parts = []
        for layer, (fan_in, fan_out) in enumerate(self.shapes):
            mask = torch.ones(n, fan_in, fan_out, dtype=torch.float64)
            if kind == "weights":
                mask = keep((n, fan_in, fan_out), rate, generator)
            elif layer > 0:
                mask = mask * keep((n, fan_in, 1), rate, generator)
            parts += [mask.flatten(1), torch.ones(n, fan_out, dtype=torch.float64)]
        return torch.cat(parts, dim=1)

    def last_layer(self) -> Tensor:
        fan_in, fan_out = self.shapes[-1]
        size = fan_in * fan_out + fan_out
        return torch.arange(self.n_params) >= self.n_params - size

    def blocks(self) -> list[tuple[int, int]]:
        return [(fan_in + 1, fan_out) for fan_in, fan_out in self.shapes]  # the bias is one more row

    def init(self, n_members: int, generator: Generator) -> Tensor:
        parts = []
        for layer, (fan_in, fan_out) in enumerate(self.shapes):
            draw = torch.randn(n_members, fan_in * fan_out, generator=generator, dtype=torch.float64)
            bias = torch.zeros(n_members, fan_out, dtype=torch.float64)
            match self.init_kind:
                case "xavier_normal":
                    weight = draw * math.sqrt(2.0 / (fan_in + fan_out))
                case "xavier_uniform":
                    uniform = torch.rand(draw.shape, generator=generator, dtype=torch.float64)
                    weight = (2 * uniform - 1) * math.sqrt(6.0 / (fan_in + fan_out))
                case "he_normal":
                    weight = draw * math.sqrt(2.0 / fan_in)
                case "siren":
                    bound = 1 / fan_in if layer == 0 else math.sqrt(6 / fan_in) / SIREN_FREQUENCY
                    uniform = torch.rand(draw.shape, generator=generator, dtype=torch.float64)
                    weight = (2 * uniform - 1) * bound
                case "prior":
                    weight = self.prior_scale * draw
                    bias = self.prior_scale * torch.randn(bias.shape, generator=generator, dtype=torch.float64)
            parts += [weight, bias]
        return torch.cat(parts, dim=1)


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


def unit_steps(weight: Tensor, needed: Sequence[Index]) -> dict[Index, Tensor]:
    """First derivatives of ``x W``: a row of the matrix for every coordinate, the same at all points."""
    n_inputs = len(needed[0])
    rows = {tuple(int(i == j) for j in range(n_inputs)): weight[:, i, None] for i in range(n_inputs)}
    return {index: rows[index] for index in needed if index in rows}


def propagate(series: dict[Index, Tensor], weight: Tensor, bias: Tensor) -> dict[Index, Tensor]:
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
    return {index: part if any(index) else part + bias for index, part in parts.items()}
