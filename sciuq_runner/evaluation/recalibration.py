"""Calibration of a result by the observations that were held out for it, or by those of training."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Literal

from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.evaluation.results import Result
from sciuq_runner.seeds import stream

log = logging.getLogger(__name__)


def calibrate_result(
    name: str,
    result: Result,
    calibrators: Mapping[str, Calibrator],
    seed: int,
    data: Literal["calibration", "train"] = "calibration",
    n: int | None = None,
) -> Result:
    """Fit calibrators to ``n`` observations, all unless given; they are drawn once per seed, so that fewer are a part
    of more.

    Raises ``ValueError`` with a sentence where that cannot be.
    """
    held = result.train if data == "train" else result.calibration
    z, unit = held.residuals, "functions" if held.random else "readings"
    if not calibrators or not len(z):
        return result.calibrate({}, z)  # a quantity without observations stays as it is
    used = n or len(z)
    if used > len(z):
        raise ValueError(f"calibration.n={used} is more than the {len(z)} {unit} of {name} that there are.")
    for calibrator in calibrators.values():
        if caution := calibrator.caution(used, unit):
            log.warning(caution)
    order = stream(seed, "calibration").permutation(len(z))
    return result.calibrate(calibrators, z[order[:used]])
