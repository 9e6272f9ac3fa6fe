"""CDF modification by an auxiliary model (Appendix C.2.1 of the paper; Kuleshov et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.calibration.residuals import in_order, pool
from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.piecewise import Piecewise


@dataclass(frozen=True)
class CDF(Calibrator):
    r"""The predicted distribution function followed by one that corrects its levels, :math:`F(z) = R(\Phi(z))`.

    :math:`R` is isotonic regression on the points :math:`(\Phi(z_{(i)}), \frac{i}{n+1})`, linear between them, with
    :math:`R(0) = 0` and :math:`R(1) = 1`. The points ascend already, so that all there is to regress is the mean
    level of ties; this needs no solver, and keeps residuals apart where :math:`\Phi` rounds to one. Mean and variance
    are the integrals of the appendix, which this piecewise form gives in closed form.
    """

    def fit(self, z: Array) -> Piecewise:
        values, counts = pool(in_order(z))
        last = np.cumsum(counts)
        return Piecewise(values, (last - (counts - 1) / 2) / (last[-1] + 1), straight=False)
