"""The Fourier neural operator on a regular grid, hand-batched over members."""

from __future__ import annotations

import math
from itertools import chain

import torch
from torch import Generator, Tensor

from sciuq_runner.networks.activations import ACTIVATIONS, Activation
from sciuq_runner.networks.base import Drop, keep
from sciuq_runner.networks.operator import OperatorNetwork

PADDING = 8
"""One node of zeros is added for so many of a side, since fields are not periodic."""

Weights = tuple[Tensor, list[tuple[Tensor, Tensor]], Tensor, Tensor]


class FourierNetwork(OperatorNetwork):
    r"""Convolutions with kernels given by their Fourier coefficients (Li et al. 2021),

    .. math:: v_{l+1} = \phi\bigl(v_l W_l + b_l + \mathcal F^{-1}(\mathcal F(v_l)\, S_l)\bigr),

    between a linear map of the input's value and both coordinates to ``width`` channels and a perceptron with one
    hidden layer at every node; the last of the ``depth`` layers has no activation. :math:`S_l` is a complex matrix for
    each of the frequencies ``-modes, ..., modes - 1`` along the first coordinate and ``0, ..., modes - 1`` along the
    second, and zero for all others. Between the nodes the field is bilinear, beyond the outermost ones constant.

    The sensors are the nodes of ``grid``, the first coordinate running slowest, and ``bounds`` its first and last node
    along each coordinate. So few frequencies are faster found by matrix products along either side than by fast
    transforms, and need no complex numbers, which the compiler has no code for.

    ``theta`` holds matrices row-major, each with its bias as one more row: of the lift, of every layer (followed by its
    :math:`S_l`, frequency by frequency, the real part to the left of the imaginary one) and of the perceptron.
    """

    def __init__(
        self,
        grid: tuple[int, int],
        bounds: tuple[tuple[float, float], tuple[float, float]],
        width: int = 16,
        modes: int = 8,
        depth: int = 4,
        hidden: int = 64,
        activation: Activation = "gelu",
    ) -> None:
        rows, columns = (n + -(-n // PADDING) for n in grid)
        if 2 * modes > min(rows, columns):
            raise ValueError(f"modes={modes} is too many for this grid: use at most {min(rows, columns) // 2}.")
        self.grid, self.bounds, self.padded = grid, bounds, (rows, columns)
        self.width, self.activation = width, ACTIVATIONS[activation]
        layer = [(width + 1, width), (2 * modes**2, width, 2 * width)]
        self.shapes: list[tuple[int, ...]] = [(4, width), *layer * depth, (width + 1, hidden), (hidden + 1, 1)]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.n_params = sum(self.sizes)
        self.coordinates = pad(torch.stack([*coordinates(grid), torch.ones(grid, dtype=torch.float64)]), self.padded)
        self.first, self.second = transforms(self.padded, modes)

    def weights(self, theta: Tensor) -> Weights:
        """View flat ``theta`` as the lift, pairs ``W_l[M, width + 1, width]`` and ``S_l[M, modes, width, 2 width]``,
        and both matrices of the perceptron."""
        parts = theta.split(self.sizes, dim=1)  # one split: its gradient is one concatenation
        lift, *layers, hidden, last = (part.unflatten(1, shape) for part, shape in zip(parts, self.shapes, strict=True))
        return lift, list(zip(layers[::2], layers[1::2], strict=True)), hidden, last

    def activate(self, values: Tensor) -> Tensor:
        (found,) = self.activation(values, 0)
        assert found is not None
        return found

    def __call__(self, theta: Tensor, x: Tensor, inputs: Tensor) -> Tensor:
        lift, layers, hidden, last = self.weights(theta)
        channels = self.channels(inputs).expand(len(theta), -1, -1, -1, -1)
        fields = torch.bmm(channels.flatten(1, 3), lift).unflatten(1, channels.shape[1:4])
        for pointwise, spectral in layers[:-1]:
            fields = self.activate(self.convolve(fields, pointwise, spectral, self.padded))
        fields = self.convolve(fields, *layers[-1], self.grid)
        values = fields.flatten(1, 3).transpose(1, 2)  # nodes last: a product with one column has no fast kernel
        values = transposed(self.activate(transposed(values, hidden)), last)
        return self.interpolate(values.unflatten(2, (-1, math.prod(self.grid)))[:, 0], x)

    def channels(self, inputs: Tensor) -> Tensor:
        """What is lifted, ``[M or 1, R, rows, columns, 4]``: values, both coordinates and one, or zero where padded."""
        values = pad(inputs.unflatten(-1, self.grid), self.padded)
        values = values if inputs.dim() == 3 else values[None]
        others = self.coordinates.to(inputs)
        return torch.stack([values, *(part.expand_as(values) for part in others)], dim=-1)

    def convolve(self, fields: Tensor, pointwise: Tensor, spectral: Tensor, shape: tuple[int, int]) -> Tensor:
        """One layer before its activation, at the leading nodes of this ``shape``; fields are ``[M, R, *padded, C]``.

        Expanded matrices rather than broadcast products, which would reorder the fields.
        """
        members, functions, rows, _, width = fields.shape
        pairs = members * functions
        first, second = self.first.to(fields), self.second.to(fields)
        waves = torch.bmm(second.expand(pairs * rows, -1, -1), fields.flatten(0, 2))
        waves = torch.bmm(first.expand(pairs, -1, -1), waves.reshape(pairs, 2 * rows, -1))
        waves = waves.reshape(members, functions, 2, -1, width).permute(0, 3, 2, 1, 4)
        products = torch.matmul(waves.flatten(2, 3), spectral).reshape(members, -1, 2, functions, 2, width)
        (a, b), (c, d) = (part.unbind(3) for part in products.unbind(2))
        waves = torch.stack([a - d, b + c]).permute(1, 3, 0, 2, 4).reshape(pairs, len(first), -1)

        rows, columns = shape
        first, second = first[:, : 2 * rows].T, second[:, :columns].T
        waves = torch.bmm(first.expand(pairs, -1, -1), waves).reshape(pairs * rows, -1, width)
        weight, bias = pointwise.split([width, 1], dim=1)
        local = torch.baddbmm(bias, fields[:, :, :rows, :columns].flatten(1, 3), weight)
        found = torch.baddbmm(local.reshape(-1, columns, width), second.expand(pairs * rows, -1, -1), waves)
        return found.reshape(members, functions, rows, columns, width)

    def interpolate(self, values: Tensor, x: Tensor) -> Tensor:
        """The fields ``values[M, R, S]`` on the grid at points, ``[M, N, R]``."""
        columns = self.grid[1]
        (row, down), (column, right) = (
            locate(x[:, i], n, *ends) for i, (n, ends) in enumerate(zip(self.grid, self.bounds, strict=True))
        )
        corner = row * columns + column
        corners = torch.stack([corner, corner + 1, corner + columns, corner + columns + 1])
        shares = torch.stack([(1 - down) * (1 - right), (1 - down) * right, down * (1 - right), down * right])
        nodes = values.permute(2, 0, 1).flatten(1)  # nodes first: each is one row to fetch
        found = (nodes[corners] * shares[:, :, None]).sum(0)
        return torch.unflatten(found, 1, values.shape[:2]).transpose(0, 1)

    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor:
        """Units are channels: what leads away from one is dropped at all frequencies together."""
        masks = torch.ones(n, self.n_params, dtype=torch.float64)
        lift, layers, hidden, last = self.weights(masks)
        if kind == "weights":
            for part in (lift, *chain(*layers), hidden, last):
                kept = part if part.dim() == 4 else part[:, :-1]
                kept[:] = keep(tuple(kept.shape), rate, generator)
            return masks
        for pointwise, spectral in layers:
            units = keep((n, self.width, 1), rate, generator)
            pointwise[:, :-1] *= units
            spectral *= units[:, None]
        for part in (hidden, last):
            part[:, :-1] *= keep((n, part.shape[1] - 1, 1), rate, generator)
        return masks

    def last_layer(self) -> Tensor:
        return torch.arange(self.n_params) >= self.n_params - self.sizes[-1]

    def blocks(self) -> list[tuple[int, int]]:
        """A matrix of its own for every frequency."""
        found: list[tuple[int, int]] = []
        for *repeats, fan_in, fan_out in self.shapes:
            found += [(fan_in, fan_out)] * math.prod(repeats)
        return found

    def init(self, n_members: int, generator: Generator) -> Tensor:
        r"""Xavier normal matrices, biases zero; real and imaginary parts of :math:`S_l` of variance 1 / width.

        A sum of ``width`` complex products then doubles the mean square of the frequencies it is taken over, to which
        the pointwise matrix adds that of all. Of three times the mean square of a smooth field, gelu leaves about a
        third (a quarter of small values, half of large ones), so that fields of many layers neither fade nor grow.
        """
        theta = torch.zeros(n_members, self.n_params, dtype=torch.float64)
        lift, layers, hidden, last = self.weights(theta)
        for part in (lift, *chain(*layers), hidden, last):
            drawn = part if part.dim() == 4 else part[:, :-1]
            variance = 1 / self.width if part.dim() == 4 else 2 / sum(drawn.shape[1:])
            drawn[:] = math.sqrt(variance) * torch.randn(drawn.shape, generator=generator, dtype=torch.float64)
        return theta


def transposed(values: Tensor, matrix: Tensor) -> Tensor:
    """An affine map of columns, ``[M, fan_in, N]`` to ``[M, fan_out, N]``."""
    weight, bias = matrix.transpose(1, 2).split([matrix.shape[1] - 1, 1], dim=2)
    return torch.baddbmm(bias, weight, values)


def coordinates(grid: tuple[int, int]) -> tuple[Tensor, ...]:
    """Both coordinates of every node, each from -1 to 1."""
    return torch.meshgrid(*(torch.linspace(-1, 1, n, dtype=torch.float64) for n in grid), indexing="ij")


def pad(fields: Tensor, shape: tuple[int, int]) -> Tensor:
    """Zeros behind the last row and column."""
    rows, columns = (new - old for new, old in zip(shape, fields.shape[-2:], strict=True))
    return torch.nn.functional.pad(fields, (0, columns, 0, rows))


def transforms(shape: tuple[int, int], modes: int) -> tuple[Tensor, Tensor]:
    r"""Real matrices of the Fourier transform along the first and the second coordinate at the frequencies kept.

    The second comes first: it takes ``columns`` values to ``(part, modes)`` with the real part before the imaginary
    one; what is then found in ``(rows, part)`` the other takes to ``(part, 2 modes)``. Frequencies of a real field come
    in conjugate pairs, of which one is kept unless it is zero along the second coordinate, hence the factor
    :math:`\sqrt 2`: with it, the inverse is the transpose of both.
    """
    rows, columns = shape
    second = angles(torch.arange(modes), columns)
    second = torch.stack([second.cos(), -second.sin()]) * math.sqrt(2 / columns)
    second[:, 0] /= math.sqrt(2)
    first = angles(torch.cat([torch.arange(modes), torch.arange(-modes, 0)]), rows)
    cos, sin = first.cos() / math.sqrt(rows), first.sin() / math.sqrt(rows)
    turned = torch.stack([torch.stack([cos, sin], dim=-1), torch.stack([-sin, cos], dim=-1)])
    return turned.reshape(4 * modes, 2 * rows), second.flatten(0, 1)


def angles(frequencies: Tensor, n: int) -> Tensor:
    """Of every frequency at ``n`` nodes that are one period."""
    return 2 * math.pi / n * (frequencies[:, None] * torch.arange(n) % n).double()


def locate(x: Tensor, n: int, first: float, last: float) -> tuple[Tensor, Tensor]:
    """The node before every ``x``, as a number, and the share of the way to the next one."""
    position = ((x - first) * ((n - 1) / (last - first))).clamp(0, n - 1)
    before = position.floor().clamp(max=n - 2)
    return before.long(), position - before
