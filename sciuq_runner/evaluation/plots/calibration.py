"""Observed against expected proportion of observations below each predicted quantile, before and after calibration."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sciuq_runner.evaluation import metrics
from sciuq_runner.evaluation.plots.registry import Draw, Drawing, figure_kind
from sciuq_runner.evaluation.plots.style import EXACT, SPLIT_NAMES, canvas, lines
from sciuq_runner.evaluation.results import Result
from sciuq_runner.predict.scaled_residual import N_LEVELS, UNCALIBRATED

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_kind()
def calibration(drawing: Drawing) -> Iterator[tuple[str, Draw]]:
    """Of every quantity that can be compared with something."""
    for name, result in drawing.results.items():
        if result.known_splits and not result.statistic_of:
            yield f"{name}_calibration", partial(draw_calibration, name, result, drawing.title)


def draw_calibration(name: str, found: Result, title: str) -> Figure:
    """One panel for every split."""
    standards = {"": UNCALIBRATED, **found.standards}
    splits = found.known_splits
    figure = canvas(3.6 * len(splits) if len(splits) < 3 else 2.6 * len(splits), 3.9)
    levels = np.linspace(0, 1, N_LEVELS)
    for axes, (split, mask) in zip(figure.subplots(1, len(splits), squeeze=False)[0], splits.items(), strict=True):
        axes.plot([0, 1], [0, 1], color=EXACT, lw=1, ls="--", label="ideal")
        for (kind, standard), (color, style) in zip(standards.items(), lines(), strict=False):
            arguments = found.mean[mask], found.std[mask], found.test_y[mask]
            observed = metrics.observed_proportions(*arguments, levels, standard)
            label = f"{kind or 'uncalibrated'} (RMSCE {metrics.rmsce(*arguments, standard):.3f})"
            axes.plot(levels, observed, color=color, ls=style, lw=1.5, label=label)
        axes.set(xlabel="expected proportion", title=SPLIT_NAMES.get(split, split))
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.legend(fontsize=6.5, loc="lower right")
    figure.axes[0].set_ylabel("observed proportion")
    figure.suptitle(f"{title}: {name}", fontsize=9)
    return figure
