"""The metrics of a result, split by split, before and after calibration."""

from __future__ import annotations

import numpy as np

from sciuq_runner.evaluation.metrics import SplitArrays, evaluate
from sciuq_runner.evaluation.results import Result
from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.scaled_residual import UNCALIBRATED, Standard

Gold = tuple[Array, Array]
"""Mean and total standard deviation of a gold standard on the test grid."""


def evaluate_splits(result: Result, gold: Gold | None = None) -> dict[str, dict[str, float]]:
    """Metrics of every split before calibration (``id``) and after (``cal_id``; ``cal_var_id`` if by several)."""
    splits = result.known_splits
    found = {split: evaluate(split_arrays(result, mask, gold=gold)) for split, mask in splits.items()}
    for prefix, standard in result.calibrated.items():
        found |= {f"{prefix}{split}": evaluate(split_arrays(result, mask, standard)) for split, mask in splits.items()}
    return found


def split_arrays(
    result: Result, mask: Array, standard: Standard | None = None, gold: Gold | None = None
) -> SplitArrays:
    """What metrics can ask for under the mask of a split: points ``[N]``, or points of functions ``[N, R]``."""
    reference = result.reference[mask]
    scale = None if result.units is None else np.broadcast_to(result.units[:, 1:], result.mean.shape)[mask]
    gold_mean, gold_std = (None, None) if gold is None else (part[mask] for part in gold)
    by = standard or UNCALIBRATED
    return SplitArrays(
        result.mean[mask],
        result.std[mask],
        result.test_y[mask],
        by,
        reference if np.isfinite(reference).all() else None,
        result.clean_rl2e,
        whole_functions(result, mask, by) if mask.ndim == 2 else None,
        standardised(result, mask, by),
        scale,
        result.epistemic_std[mask] if standard is None else None,
        gold_mean,
        gold_std,
    )


def whole_functions(result: Result, mask: Array, standard: Standard) -> tuple[Array, Array]:
    """Mean after calibration and truth of the functions of a split, in columns; all columns for a split of points."""
    truth = result.reference if result.clean_rl2e else result.test_y
    columns = mask.any(0) if mask.ndim == 2 else np.ones(truth.shape[1], dtype=bool)
    return (result.mean + result.std * standard.mean)[:, columns], truth[:, columns]


def standardised(result: Result, mask: Array, standard: Standard) -> tuple[Array, Array] | None:
    """The same in units of the training values; None where these are not standardised, or the truth is not known."""
    truth = result.reference if result.clean_rl2e else result.test_y
    if result.units is None or not np.isfinite(truth).all():
        return None
    centre, scale = result.units[:, :1], result.units[:, 1:]
    mean, values = whole_functions(result, mask, standard)
    return (mean - centre) / scale, (values - centre) / scale
