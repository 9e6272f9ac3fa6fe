"""Figures of a run, as in Section 6 of the paper. Drawn from arrays alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtri
from scipy.stats import gaussian_kde

from sciuq_runner import metrics
from sciuq_runner.files import write_atomically
from sciuq_runner.predictive import Predictive
from sciuq_runner.problem import Dataset, QuantityData

# Okabe and Ito's palette: distinguishable with any colour vision, and in print
MEAN, TOTAL, EPISTEMIC, EXACT, DATA = "#0072B2", "#56B4E9", "#0072B2", "#000000", "#D55E00"
STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
SPLIT_NAMES = {"id": "in distribution", "ood": "out of distribution"}


def draw_all(folder: Path, dataset: Dataset, predictives: Mapping[str, Predictive], title: str) -> None:
    """Draw every figure that fits the quantities of a problem."""
    with mpl.rc_context(STYLE):
        for name, data in dataset.items():
            if len(data.coordinates) == 1:
                save(bands(name, data, predictives[name], title), folder / f"{name}_bands.png")
            if len(data.coordinates) == 1 and np.ptp(predictives[name].aleatoric_var) > 1e-12:
                save(noise_bands(name, data, predictives[name], title), folder / f"{name}_noise.png")
            save(calibration_plot(name, data, predictives[name], title), folder / f"{name}_calibration.png")


def save(figure: Figure, path: Path) -> None:
    """Write one figure; the format follows the name."""
    write_atomically(path, lambda target: figure.savefig(target, dpi=200))


def bands(name: str, data: QuantityData, found: Predictive, title: str) -> Figure:
    """Mean with 95 % total and epistemic bands, training data and exact function over one coordinate."""
    figure = Figure(figsize=(5.0, 3.6), layout="constrained")
    axes = figure.add_subplot()
    x = data.test.x[:, 0]
    factor = ndtri(0.975)
    mean, total, epistemic = found.mean[:, 0], factor * found.std[:, 0], factor * found.epistemic_std[:, 0]
    axes.fill_between(x, mean - total, mean + total, color=TOTAL, alpha=0.35, lw=0, label="95 % total")
    axes.fill_between(x, mean - epistemic, mean + epistemic, color=EPISTEMIC, alpha=0.45, lw=0, label="95 % epistemic")
    for segment, label in zip(segments(data.reference[:, 0]), ["exact", *[None] * len(x)], strict=False):
        axes.plot(x[segment], data.reference[segment, 0], color=EXACT, lw=1.2, ls="--", label=label)
    axes.plot(x, mean, color=MEAN, lw=1.5, label="mean")
    axes.plot(data.train.x[:, 0], data.train.y[:, 0], "o", color=DATA, ms=3.5, label="training data")
    axes.set(xlabel=data.coordinates[0], ylabel=name, title=title)
    axes.margins(x=0)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=7.5)
    return figure


def noise_bands(name: str, data: QuantityData, found: Predictive, title: str) -> Figure:
    """The predicted noise over one coordinate, with its own 95 % epistemic band, and the true one."""
    figure = Figure(figsize=(5.0, 3.0), layout="constrained")
    axes = figure.add_subplot()
    x, factor = data.test.x[:, 0], ndtri(0.975)
    mean, spread = found.noise_std[0][:, 0], factor * found.noise_std[1][:, 0]
    lower = np.maximum(mean - spread, 0)
    axes.fill_between(x, lower, mean + spread, color=EPISTEMIC, alpha=0.35, lw=0, label="95 % epistemic")
    axes.plot(x, mean, color=MEAN, lw=1.5, label="predicted")
    if data.noise_reference is not None:
        axes.plot(x, data.noise_reference[:, 0], color=EXACT, lw=1.2, ls="--", label="true")
    train = data.train.x[:, 0]
    axes.plot(train, np.zeros_like(train), "|", color=DATA, ms=8, label="training data")
    top = max(np.quantile(mean, 0.98) * 1.5, 1e-9)
    axes.set(xlabel=data.coordinates[0], ylabel=f"noise of {name} (std)", title=title, ylim=(-0.03 * top, top))
    axes.margins(x=0)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7.5)
    return figure


def distributions(panels: Mapping[str, Mapping[str, np.ndarray]], title: str) -> Figure:
    """Densities of samples, one panel per quantity: what was assumed before, and what was learned.

    Every curve is scaled to its own peak: a prior and what is left of it after the data differ by orders of magnitude.
    A scale that the method takes as a number, not a distribution, is a vertical line.
    """
    figure = Figure(figsize=(3.0 * len(panels), 3.0), layout="constrained")
    for axes, (name, samples) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        low, high = np.quantile([np.quantile(values, [0.1, 0.9]) for values in samples.values()], [0, 1])
        margin = 0.15 * (high - low)
        low, high = low - margin, high + margin
        grid = np.linspace(low, high, 400)
        styles = [(EXACT, "--"), *[(DATA, "-.")] * (len(samples) - 2), (MEAN, "-")]
        for (label, values), (color, style) in zip(samples.items(), styles, strict=True):
            if np.ptp(values) <= 1e-6 * np.abs(values).max():
                axes.axvline(values[0], color=color, ls=style, lw=1.5, label=f"{label} (point estimate)")
                continue
            near = values[(values >= 2 * low - high) & (values <= 2 * high - low)]
            density = gaussian_kde(near)(grid)
            axes.plot(grid, density / density.max(), color=color, ls=style, lw=1.3, label=label)
        axes.set(xlabel=name, ylim=(0, 1.05), xlim=(grid[0], grid[-1]))
        axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, 1.28))
    figure.axes[0].set_ylabel("density / peak")
    figure.suptitle(title, fontsize=9)
    return figure


def segments(values: np.ndarray) -> list[slice]:
    """Split a sampled function at its jumps, so that no line is drawn across a discontinuity."""
    steps = np.abs(np.diff(values))
    typical = np.quantile(steps, 0.99) if len(steps) else 0.0
    jumps = np.flatnonzero(steps > 10 * typical + 1e-12) + 1
    edges = [0, *jumps.tolist(), len(values)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def calibration_plot(name: str, data: QuantityData, found: Predictive, title: str) -> Figure:
    """Observed against expected proportion of readings below each predicted quantile."""
    figure = Figure(figsize=(3.6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    levels = np.linspace(0, 1, metrics.N_LEVELS)
    axes.plot([0, 1], [0, 1], color=EXACT, lw=1, ls="--", label="ideal")
    for (split, mask), color, style in zip(
        data.splits.items(), (MEAN, DATA, "#009E73"), ("-", "-.", ":"), strict=False
    ):
        if not mask.any():
            continue
        arguments = found.mean[mask], found.std[mask], data.test.y[mask]
        observed = metrics.observed_proportions(*arguments, levels)
        label = f"{SPLIT_NAMES.get(split, split)} (RMSCE {metrics.rmsce(*arguments):.3f})"
        axes.plot(levels, observed, color=color, ls=style, lw=1.5, label=label)
    axes.set(xlabel="expected proportion", ylabel="observed proportion", title=f"{title}: {name}")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(fontsize=7, loc="upper left")
    return figure
