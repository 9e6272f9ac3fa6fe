"""A distribution of the scaled residual in pieces, each uniform or Gaussian, all of it in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import erfcx, ndtr, ndtri_exp

from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.scaled_residual import LOG_SQRT_2PI, TIE_RESOLUTION, Standard


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
        found: Array = pieces.outer_level[k] - pieces.side[k] * pieces.mass[k] * pieces.beyond(k, np.abs(z))
        return found

    def quantile(self, p: Array) -> Array:
        pieces = self._pieces
        k = np.searchsorted(pieces.level, p, side="right")
        beyond = pieces.side[k] * (pieces.outer_level[k] - p) / pieces.mass[k]
        found: Array = pieces.side[k] * pieces.at_share(k, np.clip(beyond, 0, 1))
        return found

    def log_density(self, z: Array) -> Array:
        pieces, k = self._pieces, self._find(z)
        fall = np.where(pieces.straight[k], 0, pieces.fall(k, np.abs(z)))
        found: Array = np.log(pieces.mass[k] / pieces.norm[k]) - fall
        return found

    def crps(self, z: Array) -> Array:
        r""":math:`E|Z - z| - \tfrac12 E|Z - Z'|`: prefix sums over all other pieces, a closed form within that of z."""
        pieces, k, s = self._pieces, self._find(z), np.abs(z)
        below = np.concatenate([[0.0], np.cumsum(pieces.mass * pieces.side * pieces.mean)])
        mass_below = np.concatenate([[0.0], pieces.level, [1.0]])
        others = z * (mass_below[k] + mass_below[k + 1] - 1) + self.mean - below[k] - below[k + 1]
        own = s * (1 - 2 * pieces.beyond(k, s)) + pieces.mean[k] - 2 * pieces.partial_mean(k, s)
        found: Array = others + pieces.mass[k] * own - self._half_mean_difference
        return found

    @property
    def mean(self) -> float:
        pieces = self._pieces
        return float(np.sum(pieces.mass * pieces.side * pieces.mean))

    @property
    def std(self) -> float:
        pieces = self._pieces
        return float(np.sqrt(np.sum(pieces.mass * (pieces.var + (pieces.side * pieces.mean - self.mean) ** 2))))

    def interval(self, level: float) -> tuple[float, float]:
        first = np.searchsorted(self.levels, 0.5 - level / 2 + TIE_RESOLUTION) - 1
        last = np.searchsorted(self.levels, 0.5 + level / 2 - TIE_RESOLUTION)
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
        found: Array = 0.5 * (s - self.near[k]) * (s + self.near[k])
        return found

    def tail(self, k: Array, s: Array) -> Array:
        """The function t of :class:`Piecewise`."""
        return np.where(self.straight[k], -s, mills(s) * np.exp(-self.fall(k, s)))

    def beyond(self, k: Array, s: Array) -> Array:
        """Share of the mass of piece ``k`` farther from zero than ``s``."""
        found: Array = np.clip((self.tail(k, s) - self.tail_far[k]) / self.norm[k], 0, 1)
        return found

    def at_share(self, k: Array, beyond: Array) -> Array:
        r"""The inverse of :meth:`beyond`, through :math:`\log\Phi(-s) = \log t + \log\phi(a)`."""
        tail = self.tail_far[k] + beyond * self.norm[k]
        with np.errstate(divide="ignore", invalid="ignore"):
            gaussian = -ndtri_exp(np.log(tail) - 0.5 * self.near[k] ** 2 - LOG_SQRT_2PI)
        found: Array = np.clip(np.where(self.straight[k], -tail, gaussian), self.near[k], self.far[k])
        return found

    def partial_mean(self, k: Array, s: Array) -> Array:
        r"""Contribution to the mean of piece ``k`` of what lies nearer to zero than ``s``."""
        fall = self.fall(k, s)
        found: Array = np.where(self.straight[k], fall, -np.expm1(-fall)) / self.norm[k]
        return found

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
    found: Array = np.sqrt(np.pi / 2) * erfcx(s / np.sqrt(2))
    return found
