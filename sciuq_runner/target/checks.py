"""Whether the numbers of a problem can be used at all, before any training: an equation that is 1/0 at a point of the
data, observations that single precision cannot tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from sciuq_runner.errors import ConfigError
from sciuq_runner.physics.expressions import REWRITE
from sciuq_runner.physics.problem import Array, Dataset, QuantityData
from sciuq_runner.target.density import Target

N_NETWORKS, PERTURBATION = 4, 0.3
"""Initial networks, and as many perturbed ones: initial networks are zero at some points. Where none of them gives a
value, the equation has none; what only some lack is left to training."""

POINTS_AT_ONCE = 4_000

LEAST_RESOLUTION = 1e-4
"""The share of a range that must be more than the rounding of its numbers."""


def refuse_unusable(target: Target, dataset: Dataset, numbers: Iterable[str] = ()) -> None:
    """Raise :class:`ConfigError` for what no training can mend; ``numbers`` are the unknown ones of the problem."""
    fields = {name: data for name, data in dataset.items() if not data.test.columns_are_functions}
    refuse_lost_precision(target, fields)
    equations = {name: data for name, data in fields.items() if not target.model.is_direct(name)}
    if equations and target.operator is None and not target.model.pretraining():
        refuse_undefined_equations(target, equations, numbers)


def refuse_undefined_equations(target: Target, equations: Dataset, numbers: Iterable[str]) -> None:
    """Raise with the first point at which an equation has no value, whatever the networks are."""
    theta = perturbed_networks(target)
    for name, data in equations.items():
        for part, points in points_asked(data).items():
            lost = undefined_points(target, theta, name, points)
            if not lost.any():
                continue
            if lost.all() and tuple(numbers):
                raise ConfigError(
                    f"problem: the equation of {name} has no value with unknown numbers such as they start from: say "
                    f"where to begin with problem.parameters.{next(iter(numbers))}.start, or {REWRITE}"
                )
            place = ", ".join(
                f"{coordinate} = {value:.6g}"
                for coordinate, value in zip(data.coordinates, points[np.argmax(lost)], strict=False)
            )
            raise ConfigError(
                f"problem: the equation of {name} has no value at {place}, one of its {part}: leave out such points, "
                f"by a domain that begins beyond them for instance, or {REWRITE}"
            )


def points_asked(data: QuantityData) -> Mapping[str, Array]:
    """All points at which a quantity is asked for, by what they are."""
    return {
        "readings": data.train.x,
        "readings for calibration": data.calibration.x,
        "readings for validation": data.validation.x,
        "points of prediction": data.test.x,
    }


def perturbed_networks(target: Target) -> Tensor:
    """Weights of initial networks, and of perturbed ones."""
    generator = torch.Generator().manual_seed(0)
    start = target.model.init(N_NETWORKS, generator)
    moved = start + PERTURBATION * torch.randn(start.shape, generator=generator, dtype=torch.float64)
    return target.tensor(torch.cat([start, moved]))


@torch.no_grad()
def undefined_points(target: Target, theta: Tensor, name: str, points: Array) -> Array:
    """Where no network gives a number, a mask of ``points[N, D]``."""
    found = [
        torch.isfinite(target.model.observe(theta, name, target.tensor(points[begin : begin + POINTS_AT_ONCE])))
        for begin in range(0, len(points), POINTS_AT_ONCE)
    ]
    return np.concatenate([~part.any(0).all(-1).cpu().numpy() for part in found] or [np.zeros(0, dtype=bool)])


def refuse_lost_precision(target: Target, dataset: Dataset) -> None:
    """Raise where coordinates, or observations of a field, are so far from zero beside their range that rounding takes
    it away."""
    rounding = torch.finfo(target.dtype).eps
    for name, data in dataset.items():
        columns = dict(zip(data.coordinates, data.train.x.T, strict=False))
        if target.model.is_direct(name):
            columns[name] = data.train.y
        for column, values in columns.items():
            extent = float(np.ptp(values)) if len(values) else 0.0
            if extent and rounding * float(np.abs(values).max()) > LEAST_RESOLUTION * extent:
                raise ConfigError(
                    f"problem: {column} is read between {values.min():.10g} and {values.max():.10g}, which "
                    f"{str(target.dtype).removeprefix('torch.')} does not tell apart well enough: subtract where it "
                    "begins, in the data and in the equations, or use dtype=float64."
                )
