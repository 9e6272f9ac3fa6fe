"""How many observations calibration needs: its error by calibrator and number of observations (Section 6.1)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.calibration.var import Var
from sciuq_runner.evaluation import metrics
from sciuq_runner.evaluation.results import Result
from sciuq_runner.physics.problem import Array
from sciuq_runner.seeds import stream

CALIBRATION_SIZES, N_SUBSETS = (2, 5, 10, 20, 30, 40, 50), 20
"""Numbers of observations that are tried, and how many subsets of each."""


def study_calibrations(
    results: Mapping[str, Result], calibrators: Mapping[str, Calibrator], seed: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Calibration error by quantity, calibrator and number of observations, where there is anything to calibrate
    with."""
    return {
        name: study_calibration(item, calibrators, seed)
        for name, item in results.items()
        if calibrators and can_be_studied(item)
    }


def can_be_studied(result: Result) -> bool:
    """Whether calibrators can be fitted to fewer of the held-out observations, and judged."""
    z = result.calibration.residuals if len(result.calibration) else np.empty(0)
    return bool(result.known_splits) and len(z) > 1 and bool(np.isfinite(z).all())


def study_calibration(result: Result, calibrators: Mapping[str, Calibrator], seed: int) -> dict[str, dict[str, float]]:
    """RMSCE on the first split by calibrator and number of observations that it was fitted to, mean over subsets.

    ``none`` is before calibration, ``train`` one factor fitted to the observations of training, as none should be.
    """
    mask = next(iter(result.known_splits.values()))
    test = result.mean[mask], result.std[mask], result.test_y[mask]
    sizes, errors = rmsce_by_size(result, calibrators, seed)
    names = [str(n) for n in sizes]
    found = {"none": {"0": metrics.rmsce(*test)}}
    found |= {kind: dict(zip(names, values.mean(1).tolist(), strict=True)) for kind, values in errors.items()}
    z = result.train.residuals
    fits = len(z) > 1 and np.isfinite(z).all()
    return found | ({"train": {str(len(z)): metrics.rmsce(*test, Var().fit(z))}} if fits else {})


def rmsce_by_size(
    result: Result, calibrators: Mapping[str, Calibrator], seed: int
) -> tuple[list[int], dict[str, Array]]:
    """RMSCE on the first split after calibration with few observations: sizes, and ``[size, subset]`` by calibrator.

    Each size is tried with several subsets of the observations that were held out.
    """
    rng = stream(seed, "calibration size")
    z, mask = result.calibration.residuals, next(iter(result.known_splits.values()))
    sizes = [n for n in CALIBRATION_SIZES if n <= len(z)]
    chosen = [[rng.permutation(len(z))[:n] for _ in range(N_SUBSETS)] for n in sizes]
    test = result.mean[mask], result.std[mask], result.test_y[mask]
    found = {
        name: np.array([[metrics.rmsce(*test, calibrator.fit(z[part])) for part in parts] for parts in chosen])
        for name, calibrator in calibrators.items()
    }
    return sizes, found
