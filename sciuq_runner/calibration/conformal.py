"""Split conformal prediction with normalised residuals (Papadopoulos et al. 2002; Lei et al. 2018), of whole functions
too (Lee, Barber and Willett 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.calibration.residuals import in_order, pool
from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.piecewise import Piecewise
from sciuq_runner.predict.scaled_residual import LEVEL, TIE_RESOLUTION


@dataclass(frozen=True)
class Conformal(Calibrator):
    r"""Intervals :math:`\bar\mu(x) \pm \bar\sigma(x)\, r_{(k)}`, :math:`k = \lceil (n+1)\,\text{level} \rceil`.

    The scores :math:`r_i = |z_i|` in ascending order. If calibration and new data are exchangeable, whatever their
    distribution, the interval covers a new reading with a probability of at least ``level``, and without ties of at
    most :math:`\text{level} + 1/(n+1)`. For :math:`k > n` there is no such interval (:func:`points_needed`), and the
    tail of the distribution stands in.

    Rows of residuals are what is exchangeable: single readings, or n functions with m correlated values each. The
    latter count as n, however many values they have: among all of their scores :math:`k = \lceil (n+1)\,m\,
    \text{level} \rceil`, and a new function is covered at an expected share of its places of at least ``level``.

    That distribution is symmetric, :math:`F(z) = \frac12 + \frac{\operatorname{sign} z}{2} G(|z|)`, with :math:`G`
    linear through :math:`(0, 0)` and :math:`(r_{(k)}, \frac{k}{(n+1)\,m})` and the tails of N(0, 1) beyond. Ties count
    at their highest rank and numbers are rounded up, which keeps the promise.
    """

    def fit(self, z: Array) -> Piecewise:
        scores, counts = pool(np.abs(in_order(z)), np.ceil)
        scores = np.maximum(scores, TIE_RESOLUTION / 2)
        shares = np.cumsum(counts) / (z.size + z.size // len(z))  # one more row, of scores that may be anything
        knots = np.concatenate([-scores[::-1], scores])
        levels = 0.5 + np.concatenate([-shares[::-1], shares]) / 2
        return Piecewise(knots, levels, straight=True, outward=True)

    def caution(self, n: int, unit: str) -> str | None:
        if n >= points_needed(LEVEL):
            return None
        return f"From {n} {unit}, conformal intervals carry no guarantee at 95 %: that takes {points_needed(LEVEL)}."


def points_needed(level: float) -> int:
    r"""The fewest readings, or functions, with :math:`\lceil (n+1)\,\text{level} \rceil \le n`: 19 for 95 %."""
    exact = Fraction(str(level))  # the decimal number that was meant, not the binary one next to it
    return math.ceil(exact / (1 - exact))
