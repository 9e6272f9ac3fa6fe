r"""What every calibrator offers.

A calibrator turns the Gaussian predictive distribution of a quantity into that of

.. math:: \bar\mu(x) + \bar\sigma(x)\, Z

with one distribution :math:`Z` for all :math:`x`, fitted to the scaled residuals
:math:`z_i = (u_i - \bar\mu(x_i)) / \bar\sigma(x_i)` of the calibration data. Uncalibrated, :math:`Z` is N(0, 1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.scaled_residual import Standard


class Calibrator(ABC):
    """The settings ``calibration.by.*`` and the algorithm; subclasses are frozen dataclasses."""

    @abstractmethod
    def fit(self, z: Array) -> Standard:
        """The distribution of scaled residuals, from those of the calibration data: one row for every observation or
        function."""

    def caution(self, n: int, unit: str) -> str | None:
        """A sentence for the person where ``n`` residuals (``unit`` says of what) are too few for what is promised."""
        return None
