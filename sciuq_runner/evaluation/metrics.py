r"""Evaluation metrics of Section 5 of the paper and proper scoring rules: arrays in, numbers out.

A prediction is the distribution of :math:`\bar\mu + \bar\sigma Z`: ``mean`` and ``std`` are those of the Gaussian
prediction, and ``standard`` is the distribution of the scaled residual :math:`Z`, N(0, 1) unless calibrated.

A metric is a function with the decorator :func:`metric`, which says what the number means and which direction is
better; ``metrics.json``, the terminal and the report then have it. Its parameters say what it needs by the names of
:class:`SplitArrays`: where one of these is missing, so is the metric.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from sciuq_runner.physics.problem import Array
from sciuq_runner.physics.standardisation import mean_rl2e
from sciuq_runner.predict.scaled_residual import LEVEL, N_LEVELS, UNCALIBRATED, Standard


@dataclass(frozen=True)
class SplitArrays:
    """What a metric can ask for: one split of one quantity, before or after calibration; None where there is no such
    thing.

    Shapes:
        ``[n, D_q]`` for a split of points, ``[n]`` for a split of functions; ``functions`` and ``standardised`` are
        ``[N, R]``, whole functions in columns.
    """

    mean: Array
    std: Array
    y: Array
    standard: Standard = UNCALIBRATED
    reference: Array | None = None
    clean: bool = True  # whether errors are those against the reference, not against the noisy observations
    functions: tuple[Array, Array] | None = None  # mean after calibration and truth, for the outputs of an operator
    standardised: tuple[Array, Array] | None = None  # the same in the units of the training values
    unit_scale: Array | None = None  # standard deviation of the training values
    epistemic_std: Array | None = None  # before calibration, as are those of the gold standard
    gold_mean: Array | None = None
    gold_std: Array | None = None

    @property
    def location(self) -> Array:
        """The mean after calibration."""
        found: Array = self.mean + self.std * self.standard.mean
        return found

    @property
    def truth(self) -> Array:
        """What errors are measured against."""
        return self.reference if self.reference is not None and self.clean else self.y


@dataclass(frozen=True)
class Measure:
    """What a number says, which direction is better, if any, and the heading of its column in the terminal; without a
    heading, it is not shown there."""

    meaning: str
    better: Literal["lower", "higher"] | None = None
    heading: str | None = None


@dataclass(frozen=True, kw_only=True)
class Metric(Measure):
    """A measure of predictions, and the function that gives it."""

    function: Callable[..., float | None]
    needs: tuple[str, ...]  # parameters that are attributes of a split
    optional: frozenset[str]  # those that may be missing

    def measure(self, split: SplitArrays) -> float | None:
        """The value for a split; None where something is missing, or the metric is not defined."""
        given = {name: getattr(split, name) for name in self.needs}
        missing = {name for name, value in given.items() if value is None}
        return None if missing - self.optional else self.function(**given)


KNOWN_METRICS: dict[str, Metric] = {}
"""All metrics by name, in the order of ``metrics.json``, of the terminal and of the report."""

MetricFunction = TypeVar("MetricFunction", bound=Callable[..., float | None])


def metric(
    meaning: str,
    better: Literal["lower", "higher"] | None = None,
    name: str = "",
    heading: str | None = "",
) -> Callable[[MetricFunction], MetricFunction]:
    """Register a function as a metric, by its own name unless another is given."""

    def register(function: MetricFunction) -> MetricFunction:
        parameters: dict[str, Any] = dict(inspect.signature(function).parameters)
        own = name or function.__name__
        needs = tuple(key for key in parameters if hasattr(SplitArrays, key) or key in SplitArrays.__annotations__)
        unknown = [key for key, item in parameters.items() if key not in needs and item.default is item.empty]
        if unknown:
            raise TypeError(f"The metric {own} needs {unknown[0]}, which no split has.")
        optional = frozenset(key for key in needs if parameters[key].default is not inspect.Parameter.empty)
        shown = own if heading == "" else heading
        KNOWN_METRICS[own] = Metric(meaning, better, shown, function=function, needs=needs, optional=optional)
        return function

    return register


def evaluate(split: SplitArrays) -> dict[str, float]:
    """All metrics that a split has what they need for."""
    found = {name: item.measure(split) for name, item in KNOWN_METRICS.items()}
    return {name: value for name, value in found.items() if value is not None}


def rl2e(mean: Array, y: Array) -> float:
    r"""Relative :math:`\ell_2` error of the mean, :math:`\sqrt{\sum(\bar\mu - u)^2 / \sum u^2}`."""
    return float(np.sqrt(np.sum((mean - y) ** 2) / np.sum(y**2)))


@metric("relative error of the mean", "lower", name="rl2e")
def relative_error(location: Array, truth: Array, functions: tuple[Array, Array] | None = None) -> float | None:
    """RL2E of the mean after calibration, of functions the mean over them; none relative to zero."""
    if functions is not None:
        return mean_rl2e(*functions)
    return rl2e(location, truth) if np.any(truth) else None


@metric("mean predictive likelihood", "higher")
def mpl(mean: Array, std: Array, y: Array, standard: Standard = UNCALIBRATED) -> float:
    """Mean predictive likelihood: the average density of the readings."""
    return float(np.mean(standard.density((y - mean) / std) / std))


def observed_proportions(mean: Array, std: Array, y: Array, levels: Array, standard: Standard = UNCALIBRATED) -> Array:
    r"""Fraction of readings at or below the predicted quantile of every level: the calibration curve."""
    z = np.sort((y - mean) / std, axis=None)
    return np.searchsorted(z, standard.quantile(levels), side="right") / z.size


@metric("calibration error", "lower")
def rmsce(mean: Array, std: Array, y: Array, standard: Standard = UNCALIBRATED) -> float:
    r"""Root mean squared calibration error over quantile levels in [0, 1]."""
    levels = np.linspace(0, 1, N_LEVELS)
    return float(np.sqrt(np.mean((levels - observed_proportions(mean, std, y, levels, standard)) ** 2)))


@metric("width of the 95 % interval")
def piw(std: Array, level: float = LEVEL, standard: Standard = UNCALIBRATED) -> float:
    """Mean width of the central prediction interval."""
    lower, upper = standard.interval(level)
    return float((upper - lower) * np.mean(std))


@metric("variation of the predicted standard deviation")
def sdcv(std: Array) -> float:
    """Coefficient of variation of the predicted standard deviation over the points; no calibration changes it."""
    return float(np.std(std) / np.mean(std))


@metric("negative log-likelihood", "lower")
def nll(mean: Array, std: Array, y: Array, standard: Standard = UNCALIBRATED) -> float:
    """Mean negative log-likelihood of the readings."""
    return float(np.mean(np.log(std) - standard.log_density((y - mean) / std)))


@metric("continuous ranked probability score", "lower")
def crps(mean: Array, std: Array, y: Array, standard: Standard = UNCALIBRATED) -> float:
    r"""Mean continuous ranked probability score, :math:`\int (F(u) - 1\{u \ge y\})^2 du`, in units of the quantity."""
    return float(np.mean(std * standard.crps((y - mean) / std)))


@metric("score of the 95 % interval", "lower", heading="interval")
def interval_score(mean: Array, std: Array, y: Array, level: float = LEVEL, standard: Standard = UNCALIBRATED) -> float:
    r"""Mean over the readings of :math:`(h - l) + \frac{2}{\alpha}[(l - y)_+ + (y - h)_+]` (Gneiting and Raftery 2007).

    The central interval from l to h leaves :math:`\alpha = 1 - \text{level}` outside.
    """
    z = (y - mean) / std
    lower, upper = standard.interval(level)
    outside = np.maximum(lower - z, 0) + np.maximum(z - upper, 0)
    return float(np.mean(std * (upper - lower + 2 / (1 - level) * outside)))


@metric("root mean predicted variance")
def sharpness(std: Array, standard: Standard = UNCALIBRATED) -> float:
    """Root mean square of the predicted standard deviation."""
    return float(np.sqrt(np.vdot(std, std) / std.size) * standard.std)


@metric("part of the truth inside the 95 % interval")
def coverage(
    mean: Array, std: Array, reference: Array, level: float = LEVEL, standard: Standard = UNCALIBRATED
) -> float:
    """Fraction of points at which the central interval holds the truth."""
    lower, upper = standard.interval(level)
    return float(np.mean((reference >= mean + lower * std) & (reference <= mean + upper * std)))


@metric("relative error of the mean of standardised values", "lower")
def rl2e_standardised(standardised: tuple[Array, Array]) -> float:
    """Mean over functions of RL2E in the units of the training values."""
    return mean_rl2e(*standardised)


@metric("mean predictive likelihood of standardised values", "higher")
def mpl_standardised(mean: Array, std: Array, y: Array, unit_scale: Array, standard: Standard = UNCALIBRATED) -> float:
    """MPL of standardised values: a density depends on the units, unlike relative and calibration errors."""
    return mpl(mean / unit_scale, std / unit_scale, y / unit_scale, standard)


@metric("root mean square epistemic standard deviation", name="epistemic_std")
def epistemic_spread(epistemic_std: Array) -> float:
    """Root mean square of the epistemic standard deviation."""
    return float(np.sqrt(np.mean(np.square(epistemic_std))))


@metric("part of the truth inside the 95 % epistemic band", heading=None)
def epistemic_coverage(mean: Array, epistemic_std: Array, reference: Array) -> float | None:
    """Coverage by epistemic intervals, which are about one truth: realisations of a random field have none."""
    return coverage(mean, epistemic_std, reference) if reference.shape == mean.shape else None


@metric("agreement of the variances with the gold standard", "higher")
def nip_g(gold_std: Array, std: Array) -> float:
    r"""Normalised inner product of the predicted variances with those of a gold standard, between 0 and 1."""
    gold, ours = gold_std.ravel() ** 2, std.ravel() ** 2
    return float(gold @ ours / np.sqrt((gold @ gold) * (ours @ ours)))


@metric("divergence from the gold standard", "lower")
def kl_g(gold_mean: Array, gold_std: Array, mean: Array, std: Array) -> float:
    r"""Mean over the points of :math:`\mathrm{KL}(p_G \| p)` between Gaussian predictive distributions."""
    ratio = gold_std / std
    return float(np.mean(0.5 * (ratio**2 + ((mean - gold_mean) / std) ** 2 - 1) - np.log(ratio)))
