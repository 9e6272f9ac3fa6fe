r"""Evaluation metrics of Section 5 of the paper and proper scoring rules: arrays in, numbers out.

A prediction is the distribution of :math:`\bar\mu + \bar\sigma Z`: ``mean`` and ``std`` are those of the Gaussian
prediction, and ``standard`` is the distribution of the scaled residual :math:`Z`, N(0, 1) unless calibrated.
"""

from __future__ import annotations

import numpy as np

from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.scaled_residual import LEVEL, N_LEVELS, UNCALIBRATED, Standard


def rl2e(mean: Array, y: Array) -> float:
    r"""Relative :math:`\ell_2` error of the mean, :math:`\sqrt{\sum(\bar\mu - u)^2 / \sum u^2}`."""
    return float(np.sqrt(np.sum((mean - y) ** 2) / np.sum(y**2)))


def mpl(mean: Array, std: Array, y: Array, standard: Standard = UNCALIBRATED) -> float:
    """Mean predictive likelihood: the average density of the readings."""
    return float(np.mean(standard.density((y - mean) / std) / std))


def observed_proportions(mean: Array, std: Array, y: Array, levels: Array, standard: Standard = UNCALIBRATED) -> Array:
    r"""Fraction of readings at or below the predicted quantile of every level: the calibration curve."""
    z = np.sort((y - mean) / std, axis=None)
    return np.searchsorted(z, standard.quantile(levels), side="right") / z.size


def rmsce(mean: Array, std: Array, y: Array, standard: Standard = UNCALIBRATED) -> float:
    r"""Root mean squared calibration error over quantile levels in [0, 1]."""
    levels = np.linspace(0, 1, N_LEVELS)
    return float(np.sqrt(np.mean((levels - observed_proportions(mean, std, y, levels, standard)) ** 2)))


def piw(std: Array, level: float = LEVEL, standard: Standard = UNCALIBRATED) -> float:
    """Mean width of the central prediction interval."""
    lower, upper = standard.interval(level)
    return float((upper - lower) * np.mean(std))


def sdcv(std: Array) -> float:
    """Coefficient of variation of the predicted standard deviation over the points; no calibration changes it."""
    return float(np.std(std) / np.mean(std))


def nll(mean: Array, std: Array, y: Array, standard: Standard = UNCALIBRATED) -> float:
    """Mean negative log-likelihood of the readings."""
    return float(np.mean(np.log(std) - standard.log_density((y - mean) / std)))


def crps(mean: Array, std: Array, y: Array, standard: Standard = UNCALIBRATED) -> float:
    r"""Mean continuous ranked probability score, :math:`\int (F(u) - 1\{u \ge y\})^2 du`, in units of the quantity."""
    return float(np.mean(std * standard.crps((y - mean) / std)))


def interval_score(mean: Array, std: Array, y: Array, level: float = LEVEL, standard: Standard = UNCALIBRATED) -> float:
    r"""Mean over the readings of :math:`(h - l) + \frac{2}{\alpha}[(l - y)_+ + (y - h)_+]` (Gneiting and Raftery 2007).

    The central interval from l to h leaves :math:`\alpha = 1 - \text{level}` outside.
    """
    z = (y - mean) / std
    lower, upper = standard.interval(level)
    outside = np.maximum(lower - z, 0) + np.maximum(z - upper, 0)
    return float(np.mean(std * (upper - lower + 2 / (1 - level) * outside)))


def sharpness(std: Array, standard: Standard = UNCALIBRATED) -> float:
    """Root mean square of the predicted standard deviation."""
    return float(np.sqrt(np.vdot(std, std) / std.size) * standard.std)


def coverage(mean: Array, std: Array, truth: Array, level: float = 0.95, standard: Standard = UNCALIBRATED) -> float:
    """Fraction of points at which the central interval holds the truth."""
    lower, upper = standard.interval(level)
    return float(np.mean((truth >= mean + lower * std) & (truth <= mean + upper * std)))


def nip_g(gold_std: Array, std: Array) -> float:
    r"""Normalised inner product of the predicted variances with those of a gold standard, between 0 and 1."""
    gold, ours = gold_std.ravel() ** 2, std.ravel() ** 2
    return float(gold @ ours / np.sqrt((gold @ gold) * (ours @ ours)))


def kl_g(gold_mean: Array, gold_std: Array, mean: Array, std: Array) -> float:
    r"""Mean over the points of :math:`\mathrm{KL}(p_G \| p)` between Gaussian predictive distributions."""
    ratio = gold_std / std
    return float(np.mean(0.5 * (ratio**2 + ((mean - gold_mean) / std) ** 2 - 1) - np.log(ratio)))


def evaluate(
    mean: Array,
    std: Array,
    y: Array,
    reference: Array | None = None,
    standard: Standard = UNCALIBRATED,
    clean: bool = True,
) -> dict[str, float]:
    """All metrics of one split; with a ``reference`` also its coverage, and ``rl2e`` against it where ``clean``."""
    truth = y if reference is None or not clean else reference
    found = {
        **({"rl2e": rl2e(mean + std * standard.mean, truth)} if np.any(truth) else {}),  # none relative to zero
        "mpl": mpl(mean, std, y, standard),
        "rmsce": rmsce(mean, std, y, standard),
        "piw": piw(std, standard=standard),
        "sdcv": sdcv(std),
        "nll": nll(mean, std, y, standard),
        "crps": crps(mean, std, y, standard),
        "interval_score": interval_score(mean, std, y, standard=standard),
        "sharpness": sharpness(std, standard),
    }
    return found if reference is None else {**found, "coverage": coverage(mean, std, reference, standard=standard)}
