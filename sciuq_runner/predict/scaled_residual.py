r"""The distribution of the scaled residual :math:`Z`, which makes :math:`\bar\mu(x) + \bar\sigma(x)\, Z` the predictive
distribution of a quantity with mean :math:`\bar\mu` and standard deviation :math:`\bar\sigma`: N(0, 1) before
calibration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from scipy.special import erf, ndtr, ndtri

from sciuq_runner.physics.problem import Array

LEVEL = 0.95  # of the central intervals that are drawn, measured and predicted
N_LEVELS = 100  # quantile levels between 0 and 1 that calibration errors are taken at
TIE_RESOLUTION = 2.0**-40  # scaled residuals that agree to this part of the larger of 1 and themselves are tied
LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)


class Standard(ABC):
    """A distribution of the scaled residual; subclasses are frozen dataclasses of numbers, flags and arrays.

    All functions take arrays of any shape.
    """

    kind: ClassVar[str]

    @abstractmethod
    def cdf(self, z: Array) -> Array:
        """Probability of a scaled residual of at most ``z``."""

    @abstractmethod
    def quantile(self, p: Array) -> Array:
        """The inverse of :meth:`cdf`."""

    @abstractmethod
    def log_density(self, z: Array) -> Array:
        """Logarithm of the derivative of :meth:`cdf`; finite far out where the density itself underflows."""

    @abstractmethod
    def crps(self, z: Array) -> Array:
        r"""Continuous ranked probability score :math:`\int (F(t) - 1\{t \ge z\})^2 dt` of a scaled residual."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """Expectation, by which the prediction moves, in units of its standard deviation."""

    @property
    @abstractmethod
    def std(self) -> float:
        """Standard deviation, by which the predicted one is multiplied."""

    def density(self, z: Array) -> Array:
        """The derivative of :meth:`cdf`."""
        found: Array = np.exp(self.log_density(z))
        return found

    def interval(self, level: float) -> tuple[float, float]:
        """The central interval of probability ``level``."""
        lower, upper = self.quantile(np.array([0.5 - level / 2, 0.5 + level / 2]))
        return float(lower), float(upper)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file, which :mod:`sciuq_runner.predict.calibrated_distributions` reads back."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        plain = {name: value.tolist() if isinstance(value, Array) else value for name, value in values.items()}
        return {"kind": self.kind, **plain}


@dataclass(frozen=True)
class Normal(Standard):
    r"""The Gaussian :math:`\mathcal N(0, s^2)` with ``scale`` s."""

    scale: float = 1.0
    kind: ClassVar[str] = "normal"

    def __post_init__(self) -> None:
        if not 0 < self.scale < np.inf:
            raise ValueError(f"The scale of a normal distribution should be positive and finite, not {self.scale}.")

    def cdf(self, z: Array) -> Array:
        found: Array = ndtr(z / self.scale)
        return found

    def quantile(self, p: Array) -> Array:
        found: Array = self.scale * ndtri(p)
        return found

    def log_density(self, z: Array) -> Array:
        found: Array = -0.5 * (z / self.scale) ** 2 - LOG_SQRT_2PI - np.log(self.scale)
        return found

    def crps(self, z: Array) -> Array:
        r""":math:`s\,[w (2\Phi(w) - 1) + 2\phi(w) - \pi^{-1/2}]` with :math:`w = z/s` (Gneiting and Raftery 2007)."""
        w = z / self.scale
        peak = np.exp(-0.5 * w**2) * np.sqrt(2 / np.pi)
        found: Array = self.scale * (w * erf(w / np.sqrt(2)) + peak - 1 / np.sqrt(np.pi))
        return found

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def std(self) -> float:
        return self.scale


UNCALIBRATED = Normal()
