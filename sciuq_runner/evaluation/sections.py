"""Parts of a result that figures show: lines, planes and single functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sciuq_runner.evaluation.results import PredictedObservations, Result
from sciuq_runner.physics.observations import Array, PointObservations

SAME_POINT = 1e-9  # distance, relative to the extent of the grid


def typical_function(result: Result, split: str) -> Result:
    """The function of a split whose relative error is the median, as a result of its own."""
    columns = np.flatnonzero(result.splits[split].any(0))
    truth = result.reference[:, columns]
    errors = np.linalg.norm(result.mean[:, columns] - truth, axis=0) / np.linalg.norm(truth, axis=0)
    return one_function(result, int(columns[np.argsort(errors)[len(columns) // 2]]))


def one_function(result: Result, column: int) -> Result:
    """One of the functions that an operator was applied to, as a result of its own."""
    kept = slice(column, column + 1)
    names = ("mean", "aleatoric_std", "epistemic_std", "noise_mean", "noise_spread", "reference", "test_y")
    nothing = PredictedObservations.none(result.x.shape[1])
    return replace(
        result,
        **{name: getattr(result, name)[:, kept] for name in names},
        splits={"id": np.ones(len(result.x), dtype=bool)},
        train=nothing,
        calibration=nothing,
        inputs=None if result.inputs is None else result.inputs[kept],
    )


def sections(result: Result, dimensions: int) -> Iterator[tuple[str, str, Result]]:
    """What can be drawn over so many coordinates: the whole, or those splits that fix the others; with a suffix and a
    label."""
    if len(result.coordinates) == dimensions:
        yield "", "", result
        return
    for split, mask in result.splits.items():
        part = section(result, mask, dimensions)
        if part is not None:
            point = result.x[mask][0]
            fixed = [i for i, c in enumerate(result.coordinates) if c not in part.coordinates]
            yield f"_{split}", "".join(f", {result.coordinates[i]} = {point[i]:g}" for i in fixed), part


def section(result: Result, mask: Array, dimensions: int) -> Result | None:
    """The part of the test grid under a mask as a result over the coordinates that vary there, if so many do: a line
    along one, a plane along two."""
    if mask.ndim == 2 or not mask.any():
        return None
    along = [i for i in range(len(result.coordinates)) if np.ptp(result.x[mask][:, i]) > 0]
    if len(along) != dimensions:
        return None
    fixed = [i for i in range(len(result.coordinates)) if i not in along]
    point, extent = result.x[mask][0, fixed], np.ptp(result.x[:, fixed], axis=0)

    def within(part: PredictedObservations) -> PredictedObservations:
        here = (np.abs(part.x[:, fixed] - point) <= SAME_POINT * extent).all(1)
        seen = PointObservations(part.x[here][:, along], part.y[here])
        return PredictedObservations(seen, part.mean[here], part.std[here])

    names = ("mean", "aleatoric_std", "epistemic_std", "noise_mean", "noise_spread", "reference", "test_y")
    return replace(
        result,
        **{name: getattr(result, name)[mask] for name in names},
        coordinates=tuple(result.coordinates[i] for i in along),
        x=result.x[mask][:, along],
        noise_reference=None if result.noise_reference is None else result.noise_reference[mask],
        splits={"id": np.ones(int(mask.sum()), dtype=bool)},
        train=within(result.train),
        calibration=within(result.calibration),
    )
