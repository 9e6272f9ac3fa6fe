"""Values in units that suit a network, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from scipy.interpolate import NearestNDInterpolator, RegularGridInterpolator
from torch import Tensor

from sciuq_runner.physics.problem import Array


def axes_of(x: Array) -> list[Array] | None:
    """The axes of a rectangular grid whose points ``x[S, D]`` are listed with the last coordinate running fastest."""
    axes = [np.unique(column) for column in x.T]
    if np.prod([len(axis) for axis in axes]) != len(x):
        return None
    grid = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)
    return axes if np.array_equal(grid, x) else None


def axes_of_plane(x: Array) -> tuple[Array, Array]:
    """Both axes of a rectangular grid in two dimensions; raises ``ValueError`` with what is missing."""
    axes = axes_of(x)
    if axes is not None and len(axes) == 2:
        return axes[0], axes[1]
    if x.shape[1] == 2 and axes_of(x[np.lexsort(x.T[::-1])]) is not None:
        raise ValueError(
            "the nodes of a grid listed in ascending order, the last coordinate running fastest: sort the sensors, "
            "and the columns of inputs with them"
        )
    raise ValueError("functions on a rectangular grid in two dimensions")


@dataclass(frozen=True)
class Standardisation:
    r"""Values less their mean over their standard deviation, :math:`z = (y - \mu(x)) / \sigma(x)`, both functions of
    the place that are known at ``x[S, D]``; of :math:`\log y` in place of y where ``log`` is set.

    Between these places they are interpolated linearly on a rectangular grid and taken from the nearest place
    otherwise, as they are beyond the outermost ones.
    """

    x: Array
    centre: Array
    scale: Array
    log: bool = False

    @classmethod
    def fit(cls, x: Array, y: Array, log: bool = False, shared: bool = False) -> Standardisation:
        """From realisations ``y[S, R]``; one mean and one deviation for all places if ``shared``."""
        values = np.log(y) if log else y
        axis = None if shared else 1
        centre, scale = values.mean(axis), values.std(axis)
        ones, rounding = np.ones(len(x)), 1e-12 * np.abs(values).max(axis)
        return cls(x, centre * ones, np.where(scale > rounding, scale, 1.0) * ones, log)

    def at(self, x: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at ``x[N, D]``, ``[N, 1]`` each."""
        both = np.stack([self.centre, self.scale], axis=1)
        if x.shape != self.x.shape or not np.array_equal(x, self.x):
            both = self.interpolated(both, x)
        return both[:, :1], both[:, 1:]

    def interpolated(self, values: Array, x: Array) -> Array:
        axes = axes_of(self.x)
        if axes is None or any(len(axis) < 2 for axis in axes):
            found: Array = NearestNDInterpolator(self.x, values)(x)
            return found
        inside = np.clip(x, [axis[0] for axis in axes], [axis[-1] for axis in axes])
        grid = values.reshape(*(len(axis) for axis in axes), -1)
        found = RegularGridInterpolator(axes, grid)(inside)
        return found

    def apply(self, y: Array, x: Array) -> Array:
        """Standardised values of ``y[N, R]`` at ``x[N, D]``."""
        centre, scale = self.at(x)
        found: Array = ((np.log(y) if self.log else y) - centre) / scale
        return found

    def undo(self, z: Tensor, x: Array, variance: Tensor | float = 0.0) -> tuple[Tensor, Tensor]:
        """Mean and variance of the values where ``z[..., N, R]`` has a Gaussian distribution of this ``variance``."""
        centre, scale = (torch.tensor(part).to(z) for part in self.at(x))
        mean, spread = centre + scale * z, scale**2 * variance
        if not self.log:
            return mean, spread.expand(mean.shape)
        level = torch.exp(mean + 0.5 * spread)
        return level, level**2 * torch.expm1(spread)

    def tensors(self) -> dict[str, Tensor]:
        """What a file keeps."""
        parts = {"x": self.x, "centre": self.centre, "scale": self.scale, "log": np.array(float(self.log))}
        return {name: torch.tensor(part, dtype=torch.float64) for name, part in parts.items()}


class Units:
    """Mean and standard deviation of a standardisation for places in tensors, within compiled code too."""

    def __init__(self, known: Standardisation) -> None:
        axes = axes_of(known.x)
        self.known = known
        self.places, self.values = torch.tensor(known.x), torch.tensor(np.stack([known.centre, known.scale], axis=1))
        self.axes = None if axes is None or any(len(axis) < 2 for axis in axes) else [torch.tensor(a) for a in axes]

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`Standardisation.at`."""
        if self.axes is None:
            offsets = x[:, None] - self.places.to(x)  # not cdist, whose products of large numbers cancel
            found = self.values.to(x)[offsets.square().sum(-1).argmin(1)]
        else:
            found = multilinear([axis.to(x) for axis in self.axes], self.values.to(x), x)
        return found[:, :1], found[:, 1:]


def multilinear(axes: Sequence[Tensor], values: Tensor, x: Tensor) -> Tensor:
    """Interpolate ``values[S, C]`` on a rectangular grid at ``x[N, D]``; beyond it they stay as at its edge."""
    cells = [torch.searchsorted(axis, x[:, i].contiguous()).clamp(1, len(axis) - 1) for i, axis in enumerate(axes)]
    shares = [
        ((x[:, i] - axis[cell - 1]) / (axis[cell] - axis[cell - 1])).clamp(0, 1)
        for i, (axis, cell) in enumerate(zip(axes, cells, strict=True))
    ]
    grid, found = values.reshape(*(len(axis) for axis in axes), -1), x.new_zeros(len(x), values.shape[1])
    for upper in product((False, True), repeat=len(axes)):
        weight = torch.stack([a if up else 1 - a for a, up in zip(shares, upper, strict=True)]).prod(0)
        found = found + weight[:, None] * grid[tuple(c if up else c - 1 for c, up in zip(cells, upper, strict=True))]
    return found


Transforms = Mapping[str, Standardisation]
"""By the name of the quantity, or of the input function of an operator."""

PREFIX = "transform."


def pack(transforms: Transforms) -> dict[str, Tensor]:
    """Transformations as named tensors."""
    return {
        f"{PREFIX}{name}.{part}": value for name, item in transforms.items() for part, value in item.tensors().items()
    }


def unpack(tensors: Mapping[str, Tensor]) -> tuple[Transforms, dict[str, Tensor]]:
    """Take transformations out of named tensors; the others are left."""
    found: dict[str, dict[str, Array]] = {}
    left = {}
    for key, value in tensors.items():
        if key.startswith(PREFIX):
            name, _, part = key.removeprefix(PREFIX).rpartition(".")
            found.setdefault(name, {})[part] = np.asarray(value.double())
        else:
            left[key] = value
    made = {
        name: Standardisation(parts["x"], parts["centre"], parts["scale"], bool(parts["log"]))
        for name, parts in found.items()
    }
    return made, left


def mean_rl2e(mean: Array, y: Array) -> float:
    """The mean over columns of the relative error of each."""
    return float(np.mean(np.linalg.norm(mean - y, axis=0) / np.linalg.norm(y, axis=0)))
