r"""What every calibrator offers, and the distributions of the scaled residual that they return.

A calibrator turns the Gaussian predictive distribution of a quantity into that of

.. math:: \bar\mu(x) + \bar\sigma(x)\, Z

with one distribution :math:`Z` for all :math:`x`, fitted to the scaled residuals
:math:`z_i = (u_i - \bar\mu(x_i)) / \bar\sigma(x_i)` of the calibration data. Uncalibrated, :math:`Z` is N(0, 1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.scaled_residual import RESOLUTION, Standard


class Calibrator(ABC):
    """The settings ``calibration.*`` and the algorithm; subclasses are frozen dataclasses."""

    @abstractmethod
    def fit(self, z: Array) -> Standard:
        """The distribution of scaled residuals, from those of the calibration data: one row for every reading or
        function."""


def residuals(z: Array) -> Array:
    """Scaled residuals in ascending order, or one sentence on why there is nothing to learn from them."""
    ordered = np.sort(z, axis=None)
    if not ordered.size:
        raise ValueError("Calibration needs at least one reading.")
    if not np.isfinite(ordered).all():
        raise ValueError("Calibration needs finite residuals: a prediction or its standard deviation is not.")
    return ordered


def spacing(z: Array) -> Array:
    """The resolution at ``z``, a power of two."""
    return np.ldexp(RESOLUTION, np.maximum(np.frexp(z)[1], 0))


def pool(z: Array, rounding: Callable[[Array], Array] = np.round) -> tuple[Array, Array]:
    """Distinct values in ascending order and how often each occurs, rounded to the resolution."""
    values, counts = np.unique(rounding(z / spacing(z)) * spacing(z), return_counts=True)
    return values, counts
