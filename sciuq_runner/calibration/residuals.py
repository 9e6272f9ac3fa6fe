"""Scaled residuals as calibrators see them: sorted, and tied where they differ by rounding alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.scaled_residual import TIE_RESOLUTION


def in_order(z: Array) -> Array:
    """Scaled residuals in ascending order; raises ``ValueError`` where there is nothing to learn from them."""
    ordered = np.sort(z, axis=None)
    if not ordered.size:
        raise ValueError("Calibration needs at least one reading.")
    if not np.isfinite(ordered).all():
        raise ValueError("Calibration needs finite residuals: a prediction or its standard deviation is not.")
    return ordered


def spacing(z: Array) -> Array:
    """The resolution at ``z``, a power of two."""
    found: Array = np.ldexp(TIE_RESOLUTION, np.maximum(np.frexp(z)[1], 0))
    return found


def pool(z: Array, rounding: Callable[[Array], Array] = np.round) -> tuple[Array, Array]:
    """Distinct values in ascending order and how often each occurs, rounded to the resolution."""
    values, counts = np.unique(rounding(z / spacing(z)) * spacing(z), return_counts=True)
    return values, counts
