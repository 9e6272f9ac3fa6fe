"""Mean with 95 % bands, training data and exact function over one coordinate, before and after calibration."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sciuq_runner.evaluation.plots.registry import Draw, Drawing, figure_kind
from sciuq_runner.evaluation.plots.style import DATA, EPISTEMIC, EXACT, MEAN, SPLIT_NAMES, TOTAL, canvas, frame
from sciuq_runner.evaluation.results import Result
from sciuq_runner.evaluation.sections import sections, typical_function
from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.scaled_residual import LEVEL, UNCALIBRATED, Standard

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_SHOWN_REALISATIONS = 20


@figure_kind(by_calibrator=("bands_*", "*_bands_*"))
def bands(drawing: Drawing) -> Iterator[tuple[str, Draw]]:
    """Of every field and line of a field before and after calibration; of an operator the typical function."""
    for name, result in drawing.results.items():
        if result.statistic_of:
            continue
        if result.inputs is not None:
            for split in result.splits if len(result.coordinates) == 1 else ():
                heading = f"{drawing.title}, {SPLIT_NAMES.get(split, split)}"
                yield f"{name}_{split}_bands", partial(draw_bands, name, typical_function(result, split), heading)
            continue
        for suffix, label, line in sections(result, 1):
            heading = f"{drawing.title}{label}"
            yield f"{name}{suffix}_bands", partial(draw_bands, name, line, heading)
            for kind, standard in result.standards.items():
                yield f"{name}{suffix}_bands_{kind}", partial(draw_bands, name, line, f"{heading}, {kind}", standard)


def draw_bands(name: str, found: Result, title: str, standard: Standard | None = None) -> Figure:
    """Before calibration the bands are total and epistemic, after it the calibrated one and, as a line, what it was."""
    figure = canvas(5.0, 3.6)
    axes = figure.add_subplot()
    mean = found.mean[:, 0]
    if standard is None:
        draw_uncalibrated(axes, found)
    else:
        draw_calibrated(axes, found, standard)
        mean = mean + standard.mean * found.std[:, 0]
    if found.train.random:
        draw_realisations(axes, found)
    else:
        draw_known(axes, found)
    axes.plot(found.x[:, 0], mean, color=MEAN, lw=1.5, label="mean")
    axes.set(xlabel=found.coordinates[0], ylabel=name, title=title, ylim=frame(found))
    axes.margins(x=0)
    ncols = 3 if found.train.random else 5
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=ncols, fontsize=7.5)
    return figure


def draw_uncalibrated(axes: Any, found: Result) -> None:
    """Total and epistemic bands."""
    lower, upper = UNCALIBRATED.interval(LEVEL)
    x, mean = found.x[:, 0], found.mean[:, 0]
    parts = ((found.std, TOTAL, 0.35, "total"), (found.epistemic_std, EPISTEMIC, 0.45, "epistemic"))
    for spread, color, alpha, label in parts:
        low, high = mean + lower * spread[:, 0], mean + upper * spread[:, 0]
        axes.fill_between(x, low, high, color=color, alpha=alpha, lw=0, label=f"95 % {label}")


def draw_calibrated(axes: Any, found: Result, standard: Standard) -> None:
    """The calibrated band, and the ends of the total one before."""
    x, mean, std = found.x[:, 0], found.mean[:, 0], found.std[:, 0]
    for bound, label in zip(UNCALIBRATED.interval(LEVEL), ("95 % before", None), strict=True):
        axes.plot(x, mean + bound * std, color=EPISTEMIC, lw=0.9, ls=":", label=label)
    lower, upper = standard.interval(LEVEL)
    axes.fill_between(x, mean + lower * std, mean + upper * std, color=TOTAL, alpha=0.35, lw=0, label="95 % calibrated")


def draw_realisations(axes: Any, found: Result) -> None:
    """Some realisations of a random field: unseen ones, and training data."""
    every = axes.plot(found.x[:, 0], found.reference[:, :N_SHOWN_REALISATIONS], color=EXACT, lw=0.4, alpha=0.6)
    every[0].set_label("unseen realisations")
    every = axes.plot(found.train.x[:, 0], found.train.y[:, :N_SHOWN_REALISATIONS], ".", color=DATA, ms=3)
    every[0].set_label("training data")


def draw_known(axes: Any, found: Result) -> None:
    """The exact function where it is known, and training data where there are any."""
    if np.isfinite(found.reference).all():
        for i, part in enumerate(segments(found.reference[:, 0])):
            label = None if i else "exact"
            axes.plot(found.x[part, 0], found.reference[part, 0], color=EXACT, lw=1.2, ls="--", label=label)
    if len(found.train):
        axes.plot(found.train.x[:, 0], found.train.y[:, 0], "o", color=DATA, ms=3.5, label="training data")


def segments(values: Array) -> list[slice]:
    """Split a sampled function at its jumps, so that no line is drawn across a discontinuity."""
    steps = np.abs(np.diff(values))
    typical = np.quantile(steps, 0.99) if len(steps) else 0.0
    jumps = np.flatnonzero(steps > 10 * typical + 1e-12) + 1
    edges = [0, *jumps.tolist(), len(values)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]
