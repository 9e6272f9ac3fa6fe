"""CRUDE, an empirical distribution of scaled residuals (Appendix C.2.2 of the paper; Zelikman et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.calibration.residuals import in_order, pool, spacing
from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.piecewise import Piecewise


@dataclass(frozen=True)
class Crude(Calibrator):
    r"""The sorted residuals :math:`E_u` as quantiles, :math:`\hat u(x)_p = \bar\mu(x) + \bar\sigma(x)\,E_u[p]`.

    The paper takes the residual at the nearest whole rank, ``E_u[int(p n)]``: a step function, which has no density
    and nothing beyond the extremes. Here the residual of rank :math:`i` has the level :math:`i/(n+1)`, its
    expectation whatever the distribution; between ranks the quantile is linear, within one rank of the paper's; and
    below the first and above the last residual the tails of N(0, 1) carry the remaining :math:`1/(n+1)` each. So the
    mean and variance differ from those of the sample, which the paper takes, by a part of the order 1/n. Ties share
    a width at the resolution of the numbers.
    """

    def fit(self, z: Array) -> Piecewise:
        values, counts = pool(in_order(z))
        last = np.cumsum(counts)
        tied = counts > 1
        half = tied * spacing(values) / 4
        knots = np.sort(np.concatenate([values - half, (values + half)[tied]]))
        ranks = np.sort(np.concatenate([last - counts + 1, last[tied]]))
        return Piecewise(knots, ranks / (last[-1] + 1), straight=True)
