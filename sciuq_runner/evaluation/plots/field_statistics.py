"""Statistics of random fields: mean and standard deviation along a coordinate, and eigenvalues of the covariance."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sciuq_runner.evaluation import metrics
from sciuq_runner.evaluation.plots.registry import Draw, Drawing, figure_kind
from sciuq_runner.evaluation.plots.style import DATA, EXACT, MEAN, TOTAL, canvas, padded
from sciuq_runner.evaluation.results import Result
from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.scaled_residual import LEVEL, UNCALIBRATED

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_kind()
def field_statistics(drawing: Drawing) -> Iterator[tuple[str, Draw]]:
    """Of every statistic, by its own name."""
    for name, result in drawing.results.items():
        if not result.statistic_of:
            continue
        field = drawing.results[result.statistic_of]
        if result.coordinates == field.coordinates:
            yield name, partial(draw_statistic, name, result, field.train.x, drawing.title)
        else:
            yield name, partial(draw_spectrum, result, drawing.title)


def draw_statistic(name: str, found: Result, sensors: Array, title: str) -> Figure:
    """A statistic of a random field as a function of one coordinate, with its error beside; sensors as dotted lines."""
    figure = canvas(6.8, 3.2)
    left, right = figure.subplots(1, 2)
    x, mean, exact = found.x[:, 0], found.mean[:, 0], found.reference[:, 0]
    spread = UNCALIBRATED.interval(LEVEL)[1] * found.epistemic_std[:, 0]
    left.fill_between(x, mean - spread, mean + spread, color=TOTAL, alpha=0.5, lw=0, label="95 % epistemic")
    left.plot(x, exact, color=EXACT, lw=1.2, ls="--", label="unseen realisations")
    left.plot(x, mean, color=MEAN, lw=1.5, label="predicted")
    left.set(xlabel=found.coordinates[0], ylabel=name.replace("_", ", "), ylim=padded(exact))
    right.fill_between(x, 0, spread, color=TOTAL, alpha=0.5, lw=0)
    error = np.abs(mean - exact)
    right.plot(x, error, color=DATA, lw=1.5, label="absolute error")
    right.set(xlabel=found.coordinates[0], title=f"RL2E {metrics.rl2e(found.mean, found.reference):.3g}")
    right.set_ylim(0, 1.3 * max(float(error.max()), float(np.median(spread)), 1e-9))
    for axes in (left, right):
        for point in sensors[:, 0]:
            axes.axvline(point, color=EXACT, lw=0.5, ls=":", alpha=0.6)
        axes.margins(x=0.01)
    figure.legend(loc="outside lower center", ncols=4, fontsize=7.5)
    figure.suptitle(title, fontsize=9)
    return figure


def draw_spectrum(found: Result, title: str) -> Figure:
    """Leading eigenvalues of the covariance of a random field, with 95 % epistemic intervals."""
    figure = canvas(4.4, 3.4)
    axes = figure.add_subplot()
    number, mean, exact = found.x[:, 0], found.mean[:, 0], found.reference[:, 0]
    spread = UNCALIBRATED.interval(LEVEL)[1] * found.epistemic_std[:, 0]
    floor = 0.1 * float(exact[exact > 0].min())
    lower = mean - np.maximum(mean - spread, np.minimum(floor, mean))  # an interval down to zero ends at the frame
    axes.plot(number, exact, "s", color=EXACT, ms=6, mfc="none", label="unseen realisations")
    axes.errorbar(
        number, mean, [lower, spread], fmt="o", color=MEAN, ms=3.5, capsize=3, label="predicted, 95 % epistemic"
    )
    axes.set(xlabel="number", ylabel=f"eigenvalue of the covariance of {found.statistic_of}", title=title, yscale="log")
    axes.set_ylim(bottom=floor)
    axes.set_xticks(number)
    axes.legend(fontsize=7.5)
    return figure
