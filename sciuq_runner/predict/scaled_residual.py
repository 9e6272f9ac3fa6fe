"""Distributions of the scaled residual, which turn a mean and a standard deviation into a predictive distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.special import erf, erfcx, ndtr, ndtri, ndtri_exp

from sciuq_runner import files
from sciuq_runner.errors import ConfigError, first_line, nearest
from sciuq_runner.physics.problem import Array

RESOLUTION = 2.0**-40  # scaled residuals that agree to this part of the larger of 1 and themselves are tied


LEVEL = 0.95  # of the central intervals that are drawn, measured and predicted


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
        return np.exp(self.log_density(z))

    def interval(self, level: float) -> tuple[float, float]:
        """The central interval of probability ``level``."""
        lower, upper = self.quantile(np.array([0.5 - level / 2, 0.5 + level / 2]))
        return float(lower), float(upper)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file; :func:`read_standard` is the way back."""
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
        return ndtr(z / self.scale)

    def quantile(self, p: Array) -> Array:
        return self.scale * ndtri(p)

    def log_density(self, z: Array) -> Array:
        return -0.5 * (z / self.scale) ** 2 - LOG_SQRT_2PI - np.log(self.scale)

    def crps(self, z: Array) -> Array:
        r""":math:`s\,[w (2\Phi(w) - 1) + 2\phi(w) - \pi^{-1/2}]` with :math:`w = z/s` (Gneiting and Raftery 2007)."""
        w = z / self.scale
        peak = np.exp(-0.5 * w**2) * np.sqrt(2 / np.pi)
        return self.scale * (w * erf(w / np.sqrt(2)) + peak - 1 / np.sqrt(np.pi))

    @property
    def mean(self) -> float:
        return 0.0

    @property
    def std(self) -> float:
        return self.scale


UNCALIBRATED = Normal()


@dataclass(frozen=True, eq=False)
class Piecewise(Standard):
    r"""A continuous distribution function through the points (``knots``, ``levels``).

    Between neighbouring knots it is linear in :math:`z` (``straight``) or in :math:`\Phi(z)`: the conditional
    distribution there is uniform, or that of N(0, 1) confined to the piece. Beyond the first and the last knot it is
    always the latter, so that the density is positive everywhere. With ``outward`` a central interval ends at knots:
    the nearest that hold at least half its level on either side of the median, where there are such.

    All is closed form on pieces :math:`a \le |z| \le b` on either side of zero. With the Mills ratio
    :math:`M(s) = \Phi(-s)/\phi(s)` and :math:`e(s) = \phi(s)/\phi(a)`, the share of a piece beyond :math:`s` is

    .. math:: v(s) = \frac{t(s) - t(b)}{t(a) - t(b)}, \qquad t(s) = M(s)\, e(s) \ \text{ or }\ {-s},

    which does not underflow, however far out the piece may be.
    """

    knots: Array
    levels: Array
    straight: bool
    outward: bool = False
    kind: ClassVar[str] = "piecewise"

    def __post_init__(self) -> None:
        for name in ("knots", "levels"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))
        same = self.knots.ndim == 1 and self.knots.shape == self.levels.shape and self.knots.size > 0
        steps = np.diff(self.knots), np.diff(self.levels, prepend=0, append=1)
        if not (same and np.isfinite(self.knots).all() and all((step > 0).all() for step in steps)):
            raise ValueError("A piecewise distribution needs ascending knots, each with its level between 0 and 1.")

    def cdf(self, z: Array) -> Array:
        pieces, k = self._pieces, self._find(z)
        return pieces.outer_level[k] - pieces.side[k] * pieces.mass[k] * pieces.beyond(k, np.abs(z))

    def quantile(self, p: Array) -> Array:
        pieces = self._pieces
        k = np.searchsorted(pieces.level, p, side="right")
        beyond = pieces.side[k] * (pieces.outer_level[k] - p) / pieces.mass[k]
        return pieces.side[k] * pieces.at_share(k, np.clip(beyond, 0, 1))

    def log_density(self, z: Array) -> Array:
        pieces, k = self._pieces, self._find(z)
        fall = np.where(pieces.straight[k], 0, pieces.fall(k, np.abs(z)))
        return np.log(pieces.mass[k] / pieces.norm[k]) - fall

    def crps(self, z: Array) -> Array:
        r""":math:`E|Z - z| - \tfrac12 E|Z - Z'|`: prefix sums over all other pieces, a closed form within that of z."""
        pieces, k, s = self._pieces, self._find(z), np.abs(z)
        below = np.concatenate([[0.0], np.cumsum(pieces.mass * pieces.side * pieces.mean)])
        mass_below = np.concatenate([[0.0], pieces.level, [1.0]])
        others = z * (mass_below[k] + mass_below[k + 1] - 1) + self.mean - below[k] - below[k + 1]
        own = s * (1 - 2 * pieces.beyond(k, s)) + pieces.mean[k] - 2 * pieces.partial_mean(k, s)
        return others + pieces.mass[k] * own - self._half_mean_difference

    @property
    def mean(self) -> float:
        pieces = self._pieces
        return float(np.sum(pieces.mass * pieces.side * pieces.mean))

    @property
    def std(self) -> float:
        pieces = self._pieces
        return float(np.sqrt(np.sum(pieces.mass * (pieces.var + (pieces.side * pieces.mean - self.mean) ** 2))))

    def interval(self, level: float) -> tuple[float, float]:
        first = np.searchsorted(self.levels, 0.5 - level / 2 + RESOLUTION) - 1
        last = np.searchsorted(self.levels, 0.5 + level / 2 - RESOLUTION)
        if self.outward and first >= 0 and last < self.knots.size:
            return float(self.knots[first]), float(self.knots[last])
        return super().interval(level)

    def _find(self, z: Array) -> Array:
        """The piece that every ``z`` falls into."""
        return np.searchsorted(self._pieces.edge, z, side="right")

    @property
    def _half_mean_difference(self) -> float:
        r""":math:`\tfrac12 E|Z - Z'| = 2 E[Z F(Z)] - E[Z]`."""
        pieces = self._pieces
        mean = pieces.side * pieces.mean
        start = np.concatenate([[0.0], pieces.level])
        return float(2 * np.sum(pieces.mass * (start * mean + pieces.mass * (mean / 2 + pieces.cov))) - self.mean)

    @cached_property
    def _pieces(self) -> Pieces:
        """The pieces, the one around zero divided there."""
        edge = np.concatenate([[-np.inf], self.knots, [np.inf]])
        level = np.concatenate([[0.0], self.levels, [1.0]])
        mass = np.diff(level)
        straight = np.full(mass.shape, self.straight)
        straight[[0, -1]] = False
        if 0 not in self.knots:
            k = int(np.searchsorted(edge, 0)) - 1
            a, b = edge[k : k + 2]
            share = a / (a - b) if straight[k] else (0.5 - ndtr(a)) / (ndtr(b) - ndtr(a))
            parts = mass[k] * np.array([share, 1 - share])
            edge, level = np.insert(edge, k + 1, 0.0), np.insert(level, k + 1, level[k] + parts[0])
            mass, straight = np.concatenate([mass[:k], parts, mass[k + 1 :]]), np.insert(straight, k, straight[k])
        return Pieces(edge, level, mass, straight)


class Pieces:
    r"""Neighbouring pieces of a distribution, none across zero, each seen in :math:`s = |z|` from ``near`` to ``far``.

    ``edge`` and ``level`` are the points between them; ``outer_level`` is the level at the end away from zero.
    ``mean``, ``var`` and ``cov`` are those of :math:`s` within a piece, the last with the distribution function there.
    """

    def __init__(self, edge: Array, level: Array, mass: Array, straight: Array) -> None:
        self.edge, self.level, self.mass, self.straight = edge[1:-1], level[1:-1], mass, straight
        self.side = np.where(edge[1:] > 0, 1.0, -1.0)
        self.near = np.minimum(np.abs(edge[:-1]), np.abs(edge[1:]))
        self.far = np.maximum(np.abs(edge[:-1]), np.abs(edge[1:]))
        self.outer_level = np.where(self.side > 0, level[1:], level[:-1])
        every = np.arange(mass.size)
        self.tail_far = self.tail(every, self.far)
        self.norm = self.tail(every, self.near) - self.tail_far
        self.mean = np.clip(self.partial_mean(every, self.far), self.near, self.far)
        self.var, self.cov = self._second_moments()

    def fall(self, k: Array, s: Array) -> Array:
        r""":math:`-\log e(s) = (s^2 - a^2)/2`."""
        return 0.5 * (s - self.near[k]) * (s + self.near[k])

    def tail(self, k: Array, s: Array) -> Array:
        """The function t of :class:`Piecewise`."""
        return np.where(self.straight[k], -s, mills(s) * np.exp(-self.fall(k, s)))

    def beyond(self, k: Array, s: Array) -> Array:
        """Share of the mass of piece ``k`` farther from zero than ``s``."""
        return np.clip((self.tail(k, s) - self.tail_far[k]) / self.norm[k], 0, 1)

    def at_share(self, k: Array, beyond: Array) -> Array:
        r"""The inverse of :meth:`beyond`, through :math:`\log\Phi(-s) = \log t + \log\phi(a)`."""
        tail = self.tail_far[k] + beyond * self.norm[k]
        with np.errstate(divide="ignore", invalid="ignore"):
            gaussian = -ndtri_exp(np.log(tail) - 0.5 * self.near[k] ** 2 - LOG_SQRT_2PI)
        return np.clip(np.where(self.straight[k], -tail, gaussian), self.near[k], self.far[k])

    def partial_mean(self, k: Array, s: Array) -> Array:
        r"""Contribution to the mean of piece ``k`` of what lies nearer to zero than ``s``."""
        fall = self.fall(k, s)
        return np.where(self.straight[k], fall, -np.expm1(-fall)) / self.norm[k]

    def _second_moments(self) -> tuple[Array, Array]:
        r"""Of a uniform piece :math:`(b-a)^2/12` and :math:`(b-a)/12`; of a Gaussian one integrals by parts.

        With :math:`E = e(b)` and :math:`n = t(a) - t(b)` they are :math:`1 + (a - bE)/n - \mu^2` and
        :math:`\mu/2 - [J - t(b)(1 - E)]/n^2` where
        :math:`J = M(a) - M(b)E^2 - [M(\sqrt2 a) - M(\sqrt2 b)E^2]/\sqrt2`. The bounds, which hold for every
        confined Gaussian, keep rounding errors of short and of distant pieces small.
        """
        a, b, n = self.near, self.far, self.norm
        end = np.exp(-self.fall(np.arange(a.size), b))
        var = 1 + (a - np.where(np.isinf(b), 0, b) * end) / n - self.mean**2
        var = np.where(self.straight, n**2 / 12, np.clip(var, 0, np.minimum(1, (b - a) ** 2 / 4)))
        root = np.sqrt(2)
        j = mills(a) - mills(b) * end**2 - (mills(root * a) - mills(root * b) * end**2) / root
        cov = self.mean / 2 - (j - self.tail_far * (1 - end)) / n**2
        return var, np.where(self.straight, n / 12, np.clip(cov, 0, np.sqrt(var / 12)))


def mills(s: Array) -> Array:
    r"""The Mills ratio :math:`\Phi(-s)/\phi(s)`."""
    return np.sqrt(np.pi / 2) * erfcx(s / np.sqrt(2))


KINDS: Mapping[str, type[Standard]] = {cls.kind: cls for cls in (Normal, Piecewise)}


def read_standard(values: Mapping[str, Any]) -> Standard:
    """The distribution that :meth:`Standard.to_dict` wrote; nothing in ``values`` is executed."""
    settings = dict(values)
    kind = str(settings.pop("kind", ""))
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not a kind of calibrated distribution: {nearest(kind, KINDS)}")
    cls = KINDS[kind]
    if set(settings) != {field.name for field in fields(cls)}:  # type: ignore[arg-type]
        raise ValueError(f"A calibrated distribution of kind {kind!r} cannot have the values {sorted(settings)}.")
    return cls(**settings)


def read_calibrations(path: Path) -> dict[str, dict[str, Standard]]:
    """Calibrated distributions of a run; empty where it has none."""
    if not path.is_file():
        return {}
    try:
        return {
            name: {kind: read_standard(values) for kind, values in kinds.items()}
            for name, kinds in files.read_json(path).items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} holds no calibrated distributions ({first_line(error)}).") from error


N_LEVELS = 100
