"""Whether equations have a value at all points of the data: what is 1/0 there is so before any training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from sciuq_runner.errors import ConfigError
from sciuq_runner.problem import Array, Dataset, QuantityData
from sciuq_runner.target import REWRITE, Target

N_DRAWS, SPREAD = 8, 0.3
"""Networks that are asked, and how far their weights are from where methods start: there they are zero at some points.
Where none of them has a value, it is the equation that has none; what only some lack is left to training."""

POINTS = 4_000  # that are asked at once


def refuse_undefined(target: Target, dataset: Dataset) -> None:
    """Raise :class:`ConfigError` with the first point at which an equation has no value, whatever the networks are."""
    if target.operator is not None or target.model.pretraining():
        return
    for name, data in dataset.items():
        if target.model.is_direct(name) or data.test.random or data.test.inputs is not None:
            continue
        for part, points in parts(data).items():
            index = first_undefined(target, name, points)
            if index is not None:
                place = ", ".join(f"{c} = {v:.6g}" for c, v in zip(data.coordinates, points[index], strict=False))
                raise ConfigError(
                    f"problem: the equation of {name} has no value at {place}, one of its {part}: leave out such "
                    f"points, by a domain that begins beyond them for instance, or {REWRITE}"
                )


def parts(data: QuantityData) -> Mapping[str, Array]:
    """All points at which a quantity is asked for, by what they are."""
    return {
        "readings": data.train.x,
        "readings for calibration": data.calibration.x,
        "readings for validation": data.validation.x,
        "points of prediction": data.test.x,
    }


@torch.no_grad()
def first_undefined(target: Target, name: str, points: Array) -> int | None:
    """The first of ``points[N, D]`` where no draw of the networks gives a number; None if there is no such point."""
    generator = torch.Generator().manual_seed(0)
    start = target.model.init(N_DRAWS, generator)
    theta = target.tensor(start + SPREAD * torch.randn(start.shape, generator=generator, dtype=torch.float64))
    for start in range(0, len(points), POINTS):
        values = target.model.observe(theta, name, target.tensor(points[start : start + POINTS]))
        lost = ~torch.isfinite(values).any(0).all(-1).cpu().numpy()
        if lost.any():
            return start + int(np.argmax(lost))
    return None
