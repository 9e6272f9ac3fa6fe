"""What networks made of layers share: how theta is cut into matrices, started and dropped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Generator, Tensor

from sciuq_runner.networks.activations import ACTIVATIONS, SIREN_FREQUENCY, Activation
from sciuq_runner.networks.base import Drop, Network, keep

Init = Literal["xavier_normal", "xavier_uniform", "he_normal", "siren", "prior"]


class Layered(Network):
    """A network whose ``theta`` holds, layer by layer, a matrix ``W_l`` row-major, then ``b_l``."""

    def __init__(
        self,
        shapes: Sequence[tuple[int, int]],
        activation: Activation = "tanh",
        init: Init = "xavier_normal",
        prior_scale: float = 1.0,
    ) -> None:
        self.shapes = list(shapes)
        self.n_params = sum(fan_in * fan_out + fan_out for fan_in, fan_out in self.shapes)
        self.activation = ACTIVATIONS[activation]
        self.init_kind, self.prior_scale = init, prior_scale

    def activate(self, values: Tensor) -> Tensor:
        (found,) = self.activation(values, 0)
        assert found is not None
        return found

    def layers(self, theta: Tensor) -> list[tuple[Tensor, Tensor]]:
        """View flat ``theta`` as weights ``[M, fan_in, fan_out]`` and biases ``[M, 1, fan_out]``."""
        sizes = [size for fan_in, fan_out in self.shapes for size in (fan_in * fan_out, fan_out)]
        parts = iter(theta.split(sizes, dim=1))  # one split: its gradient is one concatenation
        return [
            (next(parts).unflatten(1, (fan_in, fan_out)), next(parts).unflatten(1, (1, fan_out)))
            for fan_in, fan_out in self.shapes
        ]

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
