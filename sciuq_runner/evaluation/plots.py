"""Figures of a run, as in Section 6 of the paper. Drawn from arrays alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.evaluation import metrics
from sciuq_runner.evaluation.results import Panels, Result
from sciuq_runner.files import write_atomically
from sciuq_runner.predict.out_of_distribution import EXPLAINED
from sciuq_runner.predict.scaled_residual import LEVEL, N_LEVELS, UNCALIBRATED, Standard
from sciuq_runner.seeds import stream

# Okabe and Ito's palette: distinguishable with any colour vision, and in print
MEAN, TOTAL, EPISTEMIC, EXACT, DATA = "#0072B2", "#56B4E9", "#0072B2", "#000000", "#D55E00"
STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
COLORS = (MEAN, DATA, "#009E73", "#CC79A7", "#E69F00")
STYLES = ("-", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
CALIBRATED = ("bands_*", "*_bands_*", "calibration_size")  # what depends on which calibrators there are
N_SHOWN = 20  # realisations of a random field in its figure
SPLIT_NAMES = {"id": "in distribution", "ood": "out of distribution"}


def draw_all(
    folder: Path,
    results: Mapping[str, Result],
    panels: Panels,
    calibrators: Mapping[str, Calibrator],
    seed: int,
    title: str,
    prior: Mapping[str, np.ndarray] | None = None,
    detection: Mapping[str, np.ndarray] | None = None,
) -> list[Path]:
    """Draw every figure that fits the quantities of a problem, ``prior`` if one was learned, and scores of inputs."""
    drawn: list[Path] = []

    def add(figure: Figure, name: str) -> None:
        save(figure, folder / f"{name}.png")
        drawn.append(folder / f"{name}.png")

    with mpl.rc_context(STYLE):
        for name, found in results.items():
            if found.statistic_of:
                is_function = found.coordinates == results[found.statistic_of].coordinates
                sensors = results[found.statistic_of].train.x
                add(statistic(name, found, sensors, title) if is_function else spectrum(name, found, title), name)
                continue
            if found.inputs is not None:
                for split in found.splits:
                    one = found.function(found.typical(split))
                    heading = f"{title}, {SPLIT_NAMES.get(split, split)}"
                    if len(found.coordinates) == 2:
                        add(maps(name, one, heading), f"{name}_{split}_maps")
                    elif len(found.coordinates) == 1:
                        add(bands(name, one, heading), f"{name}_{split}_bands")
            for suffix, label, line in () if found.inputs is not None else sections(found, 1):
                heading = f"{title}{label}"
                add(bands(name, line, heading), f"{name}{suffix}_bands")
                for kind, standard in found.standards.items():
                    add(bands(name, line, f"{heading}, {kind}", standard), f"{name}{suffix}_bands_{kind}")
                if np.ptp(line.noise_mean) > 1e-6 * np.max(line.noise_mean) and not found.train.random:
                    add(noise_bands(name, line, heading), f"{name}{suffix}_noise")
            for suffix, label, plane in () if found.inputs is not None else sections(found, 2):
                if min(len(np.unique(column)) for column in plane.x.T) > 2:
                    add(maps(name, plane, f"{title}{label}"), f"{name}{suffix}_maps")
            if found.known_splits:
                add(calibration_plot(name, found, title), f"{name}_calibration")
                if calibrators and found.can_be_studied:
                    add(calibration_size(name, found, calibrators, seed, title), f"{name}_calibration_size")
        if panels:
            add(distributions(panels, title), "distributions")
        if prior:
            add(learned_prior(prior, title), "prior")
        if detection:
            add(detected(detection, title), "detection")
    return drawn


def save(figure: Figure, path: Path) -> None:
    """Write one figure; the format follows the name."""
    write_atomically(path, lambda target: figure.savefig(target, dpi=200))


def sections(found: Result, dimensions: int) -> Iterator[tuple[str, str, Result]]:
    """What can be drawn over so many coordinates: the whole, or those splits that fix the others; with a suffix and a
    label."""
    if len(found.coordinates) == dimensions:
        yield "", "", found
        return
    for split, mask in found.splits.items():
        part = found.section(mask, dimensions)
        if part is not None:
            place = found.x[mask][0]
            fixed = [i for i, c in enumerate(found.coordinates) if c not in part.coordinates]
            yield f"_{split}", "".join(f", {found.coordinates[i]} = {place[i]:g}" for i in fixed), part


def maps(name: str, found: Result, title: str) -> Figure:
    """Reference, mean, error and standard deviations over two coordinates; without a reference, the mean and these.

    Reference and mean share their colours, and so do error and deviations.
    """
    error = np.abs(found.mean - found.reference)
    values, spreads = {"reference": found.reference, "mean": found.mean}, {"absolute error": error}
    spreads |= {"epistemic std": found.epistemic_std}
    if np.any(found.aleatoric_std):
        spreads["total std"] = found.std
    groups = [(values, "viridis", float(np.nanmin([*found.mean, *found.reference]))), (spreads, "magma", 0.0)]
    groups.append(({"error / total std": error / found.std}, "cividis", 0.0))
    panels = []
    for group, colours, low in groups:
        known = {label: part[:, 0] for label, part in group.items() if np.isfinite(part).any()}
        high = max((float(np.nanmax(part)) for part in known.values()), default=1.0)
        limits = {"vmin": low, "vmax": 3.0 if "error / total std" in known else high, "cmap": colours}
        panels += [(label, part, limits) for label, part in known.items()]
    places = dict.fromkeys([label for label, *_ in panels], found.x)
    if found.inputs is not None and found.sensors is not None and found.sensors.shape[1] == 2:
        panels = [("input", found.inputs[0], {"cmap": "viridis"}), *panels]
        places["input"] = found.sensors
    figure = Figure(figsize=(6.8, 2.4 * math.ceil(len(panels) / 3)), layout="constrained")
    grid = figure.subplots(math.ceil(len(panels) / 3), 3, squeeze=False).ravel()
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for axes, (label, part, limits) in zip(grid, panels, strict=False):
        figure.colorbar(paint(axes, places[label], part, limits), ax=axes, shrink=0.9)
        if label == "mean":
            axes.plot(found.train.x[:, 0], found.train.x[:, 1], ".", color="white", ms=4, mec=EXACT, mew=0.4)
        axes.set(xlabel=found.coordinates[0], ylabel=found.coordinates[1])
        axes.set_title(label, fontsize=9)
    figure.suptitle(f"{title}: {name}", fontsize=9)
    return figure


def paint(axes: Any, x: np.ndarray, values: np.ndarray, limits: Mapping[str, Any]) -> Any:
    """Colours over a rectangular grid, or dots where the points are none."""
    across, row = np.unique(x[:, 0], return_inverse=True)
    along, column = np.unique(x[:, 1], return_inverse=True)
    if len(across) * len(along) != len(x):
        return axes.scatter(x[:, 0], x[:, 1], c=values, s=8, **limits)
    field = np.full((len(along), len(across)), np.nan)
    field[column, row] = values
    return axes.pcolormesh(across, along, field, shading="gouraud", rasterized=True, **limits)


def bands(name: str, found: Result, title: str, standard: Standard | None = None) -> Figure:
    """Mean with 95 % bands, training data and exact function over one coordinate.

    Before calibration the bands are total and epistemic, after it the calibrated one and, as a line, what it was.
    """
    figure = Figure(figsize=(5.0, 3.6), layout="constrained")
    axes = figure.add_subplot()
    x, mean, std = found.x[:, 0], found.mean[:, 0], found.std[:, 0]
    lower, upper = UNCALIBRATED.interval(LEVEL)
    if standard is None:
        spread = found.epistemic_std[:, 0]
        axes.fill_between(x, mean + lower * std, mean + upper * std, color=TOTAL, alpha=0.35, lw=0, label="95 % total")
        axes.fill_between(
            x, mean + lower * spread, mean + upper * spread, color=EPISTEMIC, alpha=0.45, lw=0, label="95 % epistemic"
        )
    else:
        for bound, label in ((lower, "95 % before"), (upper, None)):
            axes.plot(x, mean + bound * std, color=EPISTEMIC, lw=0.9, ls=":", label=label)
        lower, upper = standard.interval(LEVEL)
        axes.fill_between(
            x, mean + lower * std, mean + upper * std, color=TOTAL, alpha=0.35, lw=0, label="95 % calibrated"
        )
        mean = mean + standard.mean * std
    known = np.isfinite(found.reference).all()
    if found.train.random:
        every = axes.plot(x, found.reference[:, :N_SHOWN], color=EXACT, lw=0.4, alpha=0.6)
        every[0].set_label("unseen realisations")
        every = axes.plot(found.train.x[:, 0], found.train.y[:, :N_SHOWN], ".", color=DATA, ms=3)
        every[0].set_label("training data")
    else:
        for segment, label in zip(segments(found.reference[:, 0]), ["exact", *[None] * len(x)], strict=False):
            if not known:
                break
            axes.plot(x[segment], found.reference[segment, 0], color=EXACT, lw=1.2, ls="--", label=label)
        if len(found.train):
            axes.plot(found.train.x[:, 0], found.train.y[:, 0], "o", color=DATA, ms=3.5, label="training data")
    axes.plot(x, mean, color=MEAN, lw=1.5, label="mean")
    axes.set(xlabel=found.coordinates[0], ylabel=name, title=title, ylim=frame(found))
    axes.margins(x=0)
    ncols = 3 if found.train.random else 5
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=ncols, fontsize=7.5)
    return figure


def statistic(name: str, found: Result, sensors: np.ndarray, title: str) -> Figure:
    """A statistic of a random field as a function of one coordinate, with its error beside; sensors as dotted lines."""
    figure = Figure(figsize=(6.8, 3.2), layout="constrained")
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
        for place in sensors[:, 0]:
            axes.axvline(place, color=EXACT, lw=0.5, ls=":", alpha=0.6)
        axes.margins(x=0.01)
    figure.legend(loc="outside lower center", ncols=4, fontsize=7.5)
    figure.suptitle(title, fontsize=9)
    return figure


def spectrum(name: str, found: Result, title: str) -> Figure:
    """Leading eigenvalues of the covariance of a random field, with 95 % epistemic intervals."""
    figure = Figure(figsize=(4.4, 3.4), layout="constrained")
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


def padded(values: np.ndarray) -> tuple[float, float]:
    """Limits around some values."""
    low, high = float(values.min()), float(values.max())
    margin = 0.3 * (high - low) or 0.5
    return low - margin, high + margin


def frame(found: Result) -> tuple[float, float]:
    """Limits that depend on the problem alone, so that figures of different methods can be laid side by side."""
    known = np.concatenate([found.reference.ravel(), found.train.y.ravel()])
    if not np.isfinite(known).any():
        known = found.mean
    low, high = float(np.nanmin(known)), float(np.nanmax(known))
    if high <= low:
        low, high = low - 0.5, high + 0.5
    return low - 0.6 * (high - low), high + 0.6 * (high - low)


def noise_bands(name: str, found: Result, title: str) -> Figure:
    """The predicted noise over one coordinate, with its own 95 % epistemic band, and the true one."""
    figure = Figure(figsize=(5.0, 3.0), layout="constrained")
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


def distributions(panels: Panels, title: str) -> Figure:
    """Densities of samples, one panel per quantity: what was assumed before, and what was learned.

    Every curve is scaled to its own peak: a prior and what is left of it after the data differ by orders of magnitude.
    A scale that the method takes as a number, not a distribution, is a vertical line.
    """
    from scipy.stats import gaussian_kde  # a second to import, and most runs have no such figure

    figure = Figure(figsize=(max(3.0 * len(panels), 3.6), 3.0), layout="constrained")
    for axes, (name, samples) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        low, high = np.quantile([np.quantile(values, [0.1, 0.9]) for values in samples.values()], [0, 1])
        centre, width = np.median(after := list(samples.values())[-1]), np.ptp(np.quantile(after, [0.1, 0.9]))
        if width > 1e-6 * abs(centre):  # a prior that is wider by orders of magnitude would hide what was learned
            low, high = max(low, centre - 25 * width), min(high, centre + 25 * width)
        margin = 0.15 * (high - low)
        low, high = low - margin, high + margin
        grid = np.linspace(low, high, 400)
        styles = [(EXACT, "--"), *[(DATA, "-.")] * (len(samples) - 2), (MEAN, "-")]
        for (label, values), (color, style) in zip(samples.items(), styles, strict=True):
            if np.ptp(values) <= 1e-6 * np.abs(values).max():
                axes.axvline(values[0], color=color, ls=style, lw=1.5, label=f"{label} (point estimate)")
                continue
            near = values[(values >= 2 * low - high) & (values <= 2 * high - low)]
            if not len(near) or np.ptp(near) == 0:
                continue  # nothing of it is in sight
            density = gaussian_kde(near)(grid)
            axes.plot(grid, density / density.max(), color=color, ls=style, lw=1.3, label=label)
        axes.set(xlabel=name, ylim=(0, 1.05), xlim=(grid[0], grid[-1]))
        axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, 1.28))
    figure.axes[0].set_ylabel("density / peak")
    figure.suptitle(title, fontsize=9)
    return figure


def learned_prior(arrays: Mapping[str, np.ndarray], title: str) -> Figure:
    """What a generator makes beside historical realisations: mean and spread, covariance, values at one place."""
    names = [name.removesuffix("_made") for name in arrays if name.endswith("_made")]
    figure = Figure(figsize=(7.5, 2.4 * len(names) + 0.3), layout="constrained")
    rows = figure.subplots(len(names), 3, squeeze=False)
    for (left, middle, right), name in zip(rows, names, strict=True):
        x, sets = arrays[f"{name}_x"], {"history": arrays[f"{name}_real"], "generated": arrays[f"{name}_made"]}
        colors = dict(zip(sets, (EXACT, DATA), strict=True))
        place = int(np.argmax(sets["history"].std(1)))
        if x.shape[1] == 1:
            for label, part in sets.items():
                mean, spread = part.mean(1), 2 * part.std(1)
                left.plot(x[:, 0], mean, color=colors[label], label=label)
                left.fill_between(x[:, 0], mean - spread, mean + spread, color=colors[label], alpha=0.2, lw=0)
            left.set(xlabel="place", ylabel=f"{name}: mean ± 2 std")
        else:  # places in more dimensions have no order: one against the other
            real, made = sets["history"], sets["generated"]
            left.plot(real.mean(1), made.mean(1), ".", color=MEAN, ms=3, label="mean")
            left.plot(real.std(1), made.std(1), "x", color=DATA, ms=3, label="std")
            left.axline((0, 0), slope=1, color="0.7", lw=0.8)
            left.set(xlabel=f"{name}, history", ylabel=f"{name}, generated")
        left.legend(fontsize=7)
        for label, part in sets.items():
            eigenvalues = np.linalg.eigvalsh(np.atleast_2d(np.cov(part)))[::-1][:10]
            middle.semilogy(
                range(1, len(eigenvalues) + 1), np.maximum(eigenvalues, 1e-12), "o-", ms=3, color=colors[label]
            )
            right.hist(part[place], 30, density=True, histtype="step", color=colors[label])
        middle.set(xlabel="eigenvalue of the covariance", ylim=(1e-6 * max(sets["history"].var(1).sum(), 1e-6), None))
        where = ", ".join(f"{value:.2g}" for value in x[place])
        right.set(xlabel=f"{name} at {where}", ylabel="density")
    figure.suptitle(f"{title}: learned prior", fontsize=9)
    return figure


def detected(arrays: Mapping[str, np.ndarray], title: str) -> Figure:
    """Scores of functions of several kinds: means relative to the first, beside the error, and how one is spread."""
    scores = {key.removeprefix("score_"): item for key, item in arrays.items() if key.startswith("score_")}
    splits = {key.removeprefix("split_"): item for key, item in arrays.items() if key.startswith("split_")}
    values = {split: arrays.get(f"value_{split}") for split in splits}
    numbered = all(value is not None for value in values.values())
    order = sorted(splits, key=lambda split: float(values[split])) if numbered else list(splits)  # type: ignore[arg-type]
    place = [float(values[split]) for split in order] if numbered else list(range(len(order)))  # type: ignore[arg-type]
    first = next(iter(splits))
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    styles = itertools.cycle(zip(COLORS, STYLES, strict=True))
    for (name, item), (color, style) in zip(scores.items(), styles, strict=False):
        means = [item[splits[split]].mean() / item[splits[first]].mean() for split in order]
        width, tone = (2.2, EXACT) if name == "rl2e" else (1.4, color)
        left.plot(place, means, color=tone, ls=style, lw=width, marker="o", ms=3, label=EXPLAINED.get(name, name))
    if numbered:
        left.axvline(float(values[first]), color=EXACT, lw=0.8, ls=":")  # type: ignore[arg-type]
        left.set(xlabel=str(arrays.get("label", "")))
    else:
        left.set_xticks(place, order)
    left.set(ylabel="mean score, relative to training's kind", yscale="log")
    left.legend(fontsize=7)
    name = next(iter(scores))
    names = [f"{float(values[split]):g}" for split in order] if numbered else order  # type: ignore[arg-type]
    right.boxplot(
        [scores[name][splits[split]] for split in order], tick_labels=names, sym=".", medianprops={"color": DATA}
    )
    if f"threshold_{name}" in arrays:
        right.axhline(float(arrays[f"threshold_{name}"]), color=EXACT, lw=1, ls="--", label="threshold")
        right.legend(fontsize=7)
    right.set(xlabel=str(arrays.get("label", "")), ylabel=EXPLAINED.get(name, name))
    figure.suptitle(f"{title}: out of distribution", fontsize=9)
    return figure


def segments(values: np.ndarray) -> list[slice]:
    """Split a sampled function at its jumps, so that no line is drawn across a discontinuity."""
    steps = np.abs(np.diff(values))
    typical = np.quantile(steps, 0.99) if len(steps) else 0.0
    jumps = np.flatnonzero(steps > 10 * typical + 1e-12) + 1
    edges = [0, *jumps.tolist(), len(values)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def calibration_plot(name: str, found: Result, title: str) -> Figure:
    """Observed against expected proportion of readings below each predicted quantile, before and after calibration."""
    standards = {"": UNCALIBRATED, **found.standards}
    n_splits = len(found.known_splits)
    figure = Figure(figsize=(3.6 * n_splits if n_splits < 3 else 2.6 * n_splits, 3.9), layout="constrained")
    levels = np.linspace(0, 1, N_LEVELS)
    splits = found.known_splits
    for axes, (split, mask) in zip(figure.subplots(1, len(splits), squeeze=False)[0], splits.items(), strict=True):
        axes.plot([0, 1], [0, 1], color=EXACT, lw=1, ls="--", label="ideal")
        styles = itertools.cycle(zip(COLORS, STYLES, strict=True))
        for (kind, standard), (color, style) in zip(standards.items(), styles, strict=False):
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


def calibration_size(name: str, found: Result, calibrators: Mapping[str, Calibrator], seed: int, title: str) -> Figure:
    """RMSCE against the number of calibration readings: mean over draws of them, with one standard deviation.

    The draws are from one set that was held out, and become more alike as they come near to all of it.
    """
    split, mask = next(iter(found.known_splits.items()))
    figure = Figure(figsize=(5.0, 3.4), layout="constrained")
    axes = figure.add_subplot()
    before = metrics.rmsce(found.mean[mask], found.std[mask], found.test_y[mask])
    axes.axhline(before, color=EXACT, lw=1.2, ls="--", label="uncalibrated")
    sizes, errors = found.rmsce_by_size(calibrators, stream(seed, "calibration size"))
    styles = itertools.cycle(zip(COLORS[1:], STYLES[1:], strict=True))
    for (kind, values), (color, style) in zip(errors.items(), styles, strict=False):
        mean, spread = values.mean(1), values.std(1)
        axes.plot(sizes, mean, color=color, ls=style, lw=1.5, marker="o", ms=3, label=kind)
        axes.fill_between(sizes, mean - spread, mean + spread, color=color, alpha=0.12, lw=0)
    counted = "left-out realisations" if found.calibration.random else "calibration readings"
    axes.set(xlabel=counted, ylabel=f"RMSCE of {name}, {SPLIT_NAMES.get(split, split)}", title=title)
    worst = max([before, *(float(values.mean(1).max()) for values in errors.values())])
    axes.set(xlim=(0, sizes[-1] + 2), ylim=(0, 0.35 if worst < 0.33 else 0.6))
    axes.legend(fontsize=7.5, ncols=3)
    return figure
