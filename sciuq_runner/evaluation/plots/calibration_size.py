"""Calibration error against the number of observations that calibrators were fitted to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from sciuq_runner.evaluation import metrics
from sciuq_runner.evaluation.calibration_size import can_be_studied, rmsce_by_size
from sciuq_runner.evaluation.plots.registry import Draw, Drawing, figure_kind
from sciuq_runner.evaluation.plots.style import EXACT, SPLIT_NAMES, canvas, lines
from sciuq_runner.evaluation.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_kind(by_calibrator=("calibration_size",))
def calibration_size(drawing: Drawing) -> Iterator[tuple[str, Draw]]:
    """Of every quantity, where there are calibrators and observations for them."""
    for name, result in drawing.results.items():
        if drawing.calibrators and not result.statistic_of and can_be_studied(result):
            yield f"{name}_calibration_size", partial(draw_calibration_size, name, result, drawing)


def draw_calibration_size(name: str, found: Result, drawing: Drawing) -> Figure:
    """RMSCE: mean over subsets of observations, with one standard deviation.

    The subsets are of one set that was held out, and become more alike as they come near to all of it.
    """
    split, mask = next(iter(found.known_splits.items()))
    figure = canvas(5.0, 3.4)
    axes = figure.add_subplot()
    before = metrics.rmsce(found.mean[mask], found.std[mask], found.test_y[mask])
    axes.axhline(before, color=EXACT, lw=1.2, ls="--", label="uncalibrated")
    sizes, errors = rmsce_by_size(found, drawing.calibrators, drawing.seed)
    for (kind, values), (color, style) in zip(errors.items(), lines(start=1), strict=False):
        mean, spread = values.mean(1), values.std(1)
        axes.plot(sizes, mean, color=color, ls=style, lw=1.5, marker="o", ms=3, label=kind)
        axes.fill_between(sizes, mean - spread, mean + spread, color=color, alpha=0.12, lw=0)
    counted = "left-out realisations" if found.calibration.random else "calibration readings"
    axes.set(xlabel=counted, ylabel=f"RMSCE of {name}, {SPLIT_NAMES.get(split, split)}", title=drawing.title)
    worst = max([before, *(float(values.mean(1).max()) for values in errors.values())])
    axes.set(xlim=(0, sizes[-1] + 2), ylim=(0, 0.35 if worst < 0.33 else 0.6))
    axes.legend(fontsize=7.5, ncols=3)
    return figure
