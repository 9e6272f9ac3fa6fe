"""Convolutions over a rectangular grid, batched over members."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import torch
from torch import Generator, Tensor

from sciuq_runner.networks.activations import Activation
from sciuq_runner.networks.base import Drop
from sciuq_runner.networks.layered import Init, Layered
from sciuq_runner.networks.mlp import affine

KERNEL, CONVOLUTION_STRIDE = 3, 2


class CNN(Layered):
    """Convolutions that halve the grid each, then fully connected layers; the input is the grid's values in a row.

    Members are groups of channels of one convolution.
    """

    def __init__(
        self,
        grid: tuple[int, int],
        n_outputs: int,
        channels: Sequence[int] = (16, 32, 64),
        hidden: Sequence[int] = (128,),
        activation: Activation = "relu",
        init: Init = "xavier_normal",
        prior_scale: float = 1.0,
    ) -> None:
        self.grid, self.channels = grid, (1, *channels)
        self.n_inputs, self.n_outputs = prod(grid), n_outputs
        rows, columns = grid
        for _ in channels:
            rows, columns = -(-rows // CONVOLUTION_STRIDE), -(-columns // CONVOLUTION_STRIDE)
        convolutions = [(KERNEL**2 * a, b) for a, b in pairwise(self.channels)]
        dense = pairwise((self.channels[-1] * rows * columns, *hidden, n_outputs))
        super().__init__([*convolutions, *dense], activation, init, prior_scale)

    def __call__(self, theta: Tensor, x: Tensor) -> Tensor:
        layers, members = self.layers(theta), len(theta)
        maps = x.unflatten(-1, self.grid)
        maps = maps[:, None] if x.dim() == 2 else maps.transpose(0, 1)  # one channel, or one of every member
        groups = maps.shape[1]
        n_convolutions = len(self.channels) - 1
        for channels, (weight, bias) in zip(self.channels, layers[:n_convolutions], strict=False):
            kernel = weight.transpose(1, 2).reshape(-1, channels, KERNEL, KERNEL)
            maps = torch.nn.functional.conv2d(
                maps, kernel, bias.flatten(), CONVOLUTION_STRIDE, KERNEL // 2, groups=groups
            )
            maps, groups = self.activate(maps), members
        values = maps.unflatten(1, (members, -1)).transpose(0, 1).flatten(2)
        *hidden, last = layers[n_convolutions:]
        for weight, bias in hidden:
            values = self.activate(affine(values, weight, bias))
        return affine(values, *last)

    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor:
        """Units of a convolution are its channels: what leads away from one is dropped at all places of the kernel."""
        masks = super().dropout_masks(n, rate, kind, generator)
        if kind == "units":
            for weight, _ in self.layers(masks)[: len(self.channels) - 1]:
                kernels = weight.unflatten(1, (-1, KERNEL**2))
                kernels[:] = kernels[:, :, :1]
        return masks
