"""The predicted noise over one coordinate, where it varies, with its own 95 % epistemic band, and the true one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sciuq_runner.evaluation.plots.registry import Draw, Drawing, figure_kind
from sciuq_runner.evaluation.plots.style import DATA, EPISTEMIC, EXACT, MEAN, canvas
from sciuq_runner.evaluation.results import Result
from sciuq_runner.evaluation.sections import sections
from sciuq_runner.predict.scaled_residual import LEVEL, UNCALIBRATED

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_kind()
def noise(drawing: Drawing) -> Iterator[tuple[str, Draw]]:
    """Of every line of a field with noise that varies along it."""
    for name, result in drawing.results.items():
        if result.statistic_of or result.inputs is not None or result.train.random:
            continue
        for suffix, label, line in sections(result, 1):
            if np.ptp(line.noise_mean) > 1e-6 * np.max(line.noise_mean):
                yield f"{name}{suffix}_noise", partial(draw_noise, name, line, f"{drawing.title}{label}")


def draw_noise(name: str, found: Result, title: str) -> Figure:
    """Standard deviation of the noise along a line."""
    figure = canvas(5.0, 3.0)
    axes = figure.add_subplot()
    x, mean, spread = found.x[:, 0], found.noise_mean[:, 0], UNCALIBRATED.interval(LEVEL)[1] * found.noise_spread[:, 0]
    lower = np.maximum(mean - spread, 0)
    axes.fill_between(x, lower, mean + spread, color=EPISTEMIC, alpha=0.35, lw=0, label="95 % epistemic")
    axes.plot(x, mean, color=MEAN, lw=1.5, label="predicted")
    if found.noise_reference is not None:
        axes.plot(x, found.noise_reference[:, 0], color=EXACT, lw=1.2, ls="--", label="true")
    train = found.train.x[:, 0]
    axes.plot(train, np.zeros_like(train), "|", color=DATA, ms=8, label="training data")
    known = mean if found.noise_reference is None else found.noise_reference
    top = (np.quantile(known, 0.98) or 1.0) * 2
    axes.set(xlabel=found.coordinates[0], ylabel=f"noise of {name} (std)", title=title, ylim=(-0.03 * top, top))
    axes.margins(x=0)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7.5)
    return figure
