"""What is observed of one quantity: at points, repeatedly, of random realisations, or of what an operator gives.

All kinds know how many observations they hold, which scaled residuals they give to calibrators, and whether they have
noise; so nobody else has to ask which kind they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray

CONSTANT_SPREAD = 1e-9
"""Spread of residuals over realisations, relative to the largest at other points, below which they are constant."""


@dataclass(frozen=True)
class Observations(ABC):
    """Values ``y[N, D_q]`` of one quantity, observed at the points ``x[N, D]``."""

    x: Array
    y: Array

    columns_are_functions: ClassVar[bool] = False
    """Whether every column of y is a function of its own; otherwise columns are the components of one."""

    def __len__(self) -> int:
        return len(self.x)

    @property
    def count(self) -> int:
        """How many observations there are, each with all of its columns."""
        return len(self.x)

    @property
    def n_residuals(self) -> int:
        """How many residuals there are to calibrate with."""
        return self.count

    @property
    def is_clean(self) -> bool:
        """Whether they are without noise, so that predictions of them leave it out."""
        return False

    @abstractmethod
    def scaled_residuals(self, mean: Array, std: Array) -> Array:
        """Residuals over the predicted standard deviation, one row for each of :attr:`n_residuals`."""

    def compared(self, values: Array) -> Array:
        """What the observations are compared with, ``[..., count, D_q]``, of values ``[..., N, D_q]`` at the points."""
        return values

    def reduced(self, n_functions: int) -> Observations:
        """What is kept of them beside predictions: all, but for the many functions of an operator."""
        return self

    def stored(self) -> dict[str, Array]:
        """Arrays that :func:`read_stored` takes."""
        return {"x": self.x, "y": self.y, "copies": np.array(1), "random": np.array(self.columns_are_functions)}


@dataclass(frozen=True)
class PointObservations(Observations):
    """One observation at each point."""

    def scaled_residuals(self, mean: Array, std: Array) -> Array:
        rows: Array = (self.y - mean) / std
        return rows


@dataclass(frozen=True)
class RepeatedObservations(Observations):
    """Observations that hold at several points, as those of a steady source hold at several times.

    Each is listed once for every point: all first ``copies``, then all second ones. It is compared with the mean of the
    quantity over its copies, as the one observation that it is; and that the quantity is the same at all of them is a
    condition, met up to a standard deviation ``drift``.
    """

    copies: int = 1
    drift: float = 0.05

    @property
    def count(self) -> int:
        return len(self.x) // self.copies

    def scaled_residuals(self, mean: Array, std: Array) -> Array:
        """The mean over the copies of an observation counts."""
        return self.compared((self.y - mean) / std)

    def compared(self, values: Array) -> Array:
        """The mean over the copies of an observation."""
        means: Array = values.reshape(*values.shape[:-2], self.copies, -1, values.shape[-1]).mean(-3)
        return means

    def stored(self) -> dict[str, Array]:
        return {**super().stored(), "copies": np.array(self.copies)}


@dataclass(frozen=True)
class FunctionObservations(Observations):
    """Many functions, observed at the same points: one column of y for each. They have noise if ``noisy``."""

    noisy: bool = field(default=False, kw_only=True)

    columns_are_functions: ClassVar[bool] = True

    @property
    def n_residuals(self) -> int:
        return self.y.shape[1] if len(self.x) else 0

    @property
    def is_clean(self) -> bool:
        return not self.noisy

    def scaled_residuals(self, mean: Array, std: Array) -> Array:
        """One row for every function.

        Where a random field is known, as at a boundary, all realisations have the same residual: one number over and
        over, which calibrators would take for a part of the distribution. Such points are left out.
        """
        rows: Array = (self.y - mean) / std
        varying: Array = rows[varies(rows)].T
        return varying


@dataclass(frozen=True)
class Realisations(FunctionObservations):
    """Realisations of a random field."""


@dataclass(frozen=True)
class OperatorPairs(FunctionObservations):
    """Functions, and what an operator made of each: the rows of ``inputs[R, S]`` are the values of the functions at the
    sensors, the columns of y what became of them.

    Of these, R / ``positions`` are functions of their own; the same ones in their other positions follow, in the same
    order.
    """

    inputs: Array
    positions: int = field(default=1, kw_only=True)

    @classmethod
    def none(cls, n_coordinates: int) -> Self:
        """No functions at no points."""
        return cls(np.empty((0, n_coordinates)), np.empty((0, 1)), np.empty((0, 0)))

    def reduced(self, n_functions: int) -> OperatorPairs:
        """The first of the functions."""
        return replace(self, y=self.y[:, :n_functions], inputs=self.inputs[:n_functions], positions=1)


def no_observations(n_coordinates: int) -> PointObservations:
    """Observations at no points."""
    return PointObservations(np.empty((0, n_coordinates)), np.empty((0, 1)))


def observations_at(x: Array, y: Array, copies: int, drift: float) -> PointObservations | RepeatedObservations:
    """Observations that hold at ``copies`` points each; plain ones where that is one."""
    return PointObservations(x, y) if copies == 1 else RepeatedObservations(x, y, copies, drift)


def read_stored(arrays: Mapping[str, Array], prefix: str = "") -> Observations:
    """What :meth:`Observations.stored` gave, as far as residuals need it, from arrays whose names begin with a prefix.

    Files of early versions do not say of which kind observations are.
    """
    x, y = arrays[f"{prefix}x"], arrays[f"{prefix}y"]
    if bool(arrays.get(f"{prefix}random", False)):
        return Realisations(x, y)
    copies = int(arrays.get(f"{prefix}copies", 1))
    return PointObservations(x, y) if copies == 1 else RepeatedObservations(x, y, copies)


def varies(rows: Array) -> Array:
    """Which of the rows ``[N, R]`` differ between columns, beyond rounding; all where there are none to compare."""
    if rows.shape[1] < 2:
        return np.ones(len(rows), dtype=bool)
    spread = np.ptp(rows, axis=1)
    kept: Array = ~(spread < CONSTANT_SPREAD * spread.max(initial=0.0))  # NaN stays, and is complained of
    return kept
