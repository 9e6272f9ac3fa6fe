"""Variance re-weighting (Section 5.2 of the paper; Levi et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri

from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.calibration.residuals import in_order
from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.scaled_residual import N_LEVELS, TIE_RESOLUTION, Normal


@dataclass(frozen=True)
class Var(Calibrator):
    r"""All predicted standard deviations times one factor :math:`s`: :math:`\mathcal N(\bar\mu, s^2 \bar\sigma^2)`.

    The factor minimises the negative log-likelihood of the calibration data, :math:`s^2 = \frac1n \sum_i z_i^2`, or
    their RMSCE. Residuals that are all zero would ask for zero, which no density allows: the factor has a floor.
    """

    criterion: Literal["nll", "rmsce"] = "nll"

    def fit(self, z: Array) -> Normal:
        ordered = in_order(z)
        scale = np.sqrt(np.mean(ordered**2)) if self.criterion == "nll" else least_rmsce(ordered)
        return Normal(max(float(scale), TIE_RESOLUTION))


def least_rmsce(z: Array) -> float:
    r"""The scale of least RMSCE for the residuals ``z``, exactly.

    The error is constant between the scales :math:`z_i / \Phi^{-1}(p_j)`. There the j-th count of residuals below the
    predicted quantile goes from :math:`c` to :math:`c + 1`, and the sum of squares changes by
    :math:`(p_j - \frac{c+1}{n})^2 - (p_j - \frac{c}{n})^2`; levels below one half are the upper ones of :math:`-z`.
    The search ends where all residuals are in the central half of the distribution: those of one sign would ask for
    ever larger scales, to come closer to the median.
    """
    levels = np.linspace(0, 1, N_LEVELS)[1:-1]  # at 0 and 1 every scale is right
    upper = levels[levels > 0.5]
    steps, changes = [], []
    for side in (np.sort(z), np.sort(-z)):
        count = np.flatnonzero(side > 0)[:, None]
        steps.append(side[count] / ndtri(upper))
        changes.append((2 * count + 1) / z.size - 2 * upper)
    scale, change = (np.concatenate(parts, axis=None) for parts in (steps, changes))
    limit = np.abs(z).max() / ndtri(0.75)
    order = np.argsort(scale)
    start = scale[order][scale[order] < limit]
    if not start.size:
        return 0.0
    end = np.append(start[1:], limit)
    error = np.cumsum(change[order])[: start.size]
    best = np.argmin(np.where(end > start, error, np.inf))
    return float(np.sqrt(start[best]) * np.sqrt(end[best]))
