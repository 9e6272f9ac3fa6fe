"""Evaluation metrics of Section 5 of the paper: arrays in, numbers out."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from sciuq_runner.problem import Array

N_LEVELS = 100


def rl2e(mean: Array, y: Array) -> float:
    r"""Relative :math:`\ell_2` error of the mean, :math:`\sqrt{\sum(\bar\mu - u)^2 / \sum u^2}`."""
    return float(np.sqrt(np.sum((mean - y) ** 2) / np.sum(y**2)))


def mpl(mean: Array, std: Array, y: Array) -> float:
    """Mean predictive likelihood: the average Gaussian density of the readings."""
    z = (y - mean) / std
    return float(np.mean(np.exp(-0.5 * z**2) / (std * np.sqrt(2 * np.pi))))


def observed_proportions(mean: Array, std: Array, y: Array, levels: Array) -> Array:
    r"""Fraction of readings at or below the predicted quantile of every level: the calibration curve."""
    ranks = np.sort(ndtr((y - mean) / std), axis=None)
    return np.searchsorted(ranks, levels, side="right") / ranks.size


def rmsce(mean: Array, std: Array, y: Array) -> float:
    r"""Root mean squared calibration error over quantile levels in [0, 1]."""
    levels = np.linspace(0, 1, N_LEVELS)
    return float(np.sqrt(np.mean((levels - observed_proportions(mean, std, y, levels)) ** 2)))


def piw(std: Array, level: float = 0.95) -> float:
    """Mean width of the central prediction interval."""
    return float(2 * ndtri(0.5 + level / 2) * np.mean(std))


def sdcv(std: Array) -> float:
    """Coefficient of variation of the predicted standard deviation over the points."""
    return float(np.std(std) / np.mean(std))


def nip_g(gold_std: Array, std: Array) -> float:
    r"""Normalised inner product of the predicted variances with those of a gold standard, between 0 and 1."""
    gold, ours = gold_std.ravel() ** 2, std.ravel() ** 2
    return float(gold @ ours / np.sqrt((gold @ gold) * (ours @ ours)))


def kl_g(gold_mean: Array, gold_std: Array, mean: Array, std: Array) -> float:
    r"""Mean over the points of :math:`\mathrm{KL}(p_G \| p)` between Gaussian predictive distributions."""
    ratio = gold_std / std
    return float(np.mean(0.5 * (ratio**2 + ((mean - gold_mean) / std) ** 2 - 1) - np.log(ratio)))


def evaluate(mean: Array, std: Array, y: Array, reference: Array | None = None) -> dict[str, float]:
    """All metrics of one split; ``rl2e`` is taken against ``reference`` where one is given."""
    return {
        "rl2e": rl2e(mean, y if reference is None else reference),
        "mpl": mpl(mean, std, y),
        "rmsce": rmsce(mean, std, y),
        "piw": piw(std),
        "sdcv": sdcv(std),
    }
