"""Figures of the comparison with the paper, as small PNG files; one for which there are no runs is left out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sciuq_runner.evaluation.calibration_size import CALIBRATION_SIZES
from sciuq_runner.predict.out_of_distribution import SCORE_LABELS
from sciuq_runner.reproduction.evidence import COST_TABLE, Comparison, Evidence, NotEnough
from sciuq_runner.reproduction.findings_function import METHODS, NETWORKS, NOISES, TRAINING_SIZES
from sciuq_runner.reproduction.findings_physics import LENGTH_SPLITS
from sciuq_runner.reproduction.paper_tables import tables

COLOURS = {"better": "tab:green", "within 3 std": "tab:blue", "worse": "tab:red"}
DPI = 110


def draw_all(evidence: Evidence, comparisons: Sequence[Comparison]) -> dict[str, tuple[str, bytes]]:
    """All figures that there are runs for: by name, what each shows and the file."""
    found = {"overview": ("Ours over the paper's, cell by cell; the cost aside.", overview(comparisons))}
    for name, (caption, draw) in DRAWN.items():
        try:
            found[name] = (caption, png(draw(evidence)))
        except NotEnough:
            continue
    return found


def png(figure: Figure) -> bytes:
    """A figure as a file."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def overview(comparisons: Sequence[Comparison]) -> bytes:
    """Ratio of our mean to the paper's value, a dot for every cell, in a row for every table."""
    names = [name for name in tables() if name != COST_TABLE]
    figure = Figure(figsize=(7.5, 3.8), layout="constrained")
    axes = figure.subplots()
    for verdict, colour in COLOURS.items():
        shown = [item for item in comparisons if item.verdict == verdict and item.cell.table in names]
        ratios = [item.mean / item.cell.printed for item in shown]
        places = [names.index(item.cell.table) for item in shown]
        jitter = np.random.default_rng(0).uniform(-0.25, 0.25, len(shown))
        axes.plot(ratios, np.array(places) + jitter, ".", color=colour, label=f"{verdict} ({len(shown)})")
    axes.axvline(1.0, color="0.6", lw=0.8)
    axes.set(xscale="log", xlabel="ours / paper", yticks=range(len(names)), ylim=(len(names) - 0.5, -0.5))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_yticklabels(names, fontsize=8)
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=3)
    return png(figure)


def growth(evidence: Evidence) -> Figure:
    """Epistemic standard deviation against noise, for two numbers of readings and two methods."""
    figure = Figure(figsize=(6.4, 2.8), layout="constrained")
    for axes, method in zip(figure.subplots(1, 2, sharey=True), ("hmc", "mcd"), strict=True):
        for n, style in zip(TRAINING_SIZES, ("o-", "s--"), strict=True):
            choices = [(f"method={method}", f"problem.n_train={n}", f"problem.noise_scale={noise}") for noise in NOISES]
            bars(axes, [float(noise) for noise in NOISES], evidence, "epistemic_growth", choices, style, f"N = {n}")
        axes.set(title=method, xlabel="noise scale", ylim=(0, None))
        axes.legend(frameon=False)
    figure.supylabel("epistemic std, in distribution", fontsize=9)
    return figure


def bars(
    axes: Any,
    x: Sequence[float],
    evidence: Evidence,
    preset: str,
    choices: Sequence[Sequence[str]],
    style: str,
    label: str,
) -> None:
    """Mean and standard deviation over seeds of the epistemic standard deviation of several jobs; one seed has none."""
    values = [evidence.values(preset, item, "u/id/epistemic_std") for item in choices]
    if not all(values):
        raise NotEnough
    spreads = [statistics.stdev(v) if len(v) > 1 else 0.0 for v in values]
    axes.errorbar(x, [statistics.fmean(v) for v in values], spreads, fmt=style, capsize=3, label=label)


def network_size(evidence: Evidence) -> Figure:
    """Epistemic standard deviation along x, by network and prior."""
    figure = Figure(figsize=(6.8, 3.0), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, learned in zip(panels, (False, True), strict=True):
        for network in NETWORKS:
            results = evidence.results("network_size", f"architecture={network}", f"model.learn_prior={learned}")
            spread = np.mean([item["u"].epistemic_std[:, 0] for item in results], axis=0)
            axes.plot(results[0]["u"].x[:, 0], spread, label=network)
        axes.set(title="learned prior" if learned else "fixed prior", xlabel="x", yscale="log")
    panels[0].set_ylabel("epistemic std")
    panels[0].legend(frameon=False, fontsize=8)
    return figure


def calibration_size(evidence: Evidence) -> Figure:
    """RMSCE in distribution against the number of calibration readings, by method and calibrator."""
    figure = Figure(figsize=(7.0, 6.4), layout="constrained")
    panels = figure.subplots(3, 3, sharex=True, sharey=True).ravel()
    for axes, method in zip(panels, METHODS, strict=True):
        size_panel(axes, evidence, "calibration_size", (f"method={method}",), "u")
        axes.set_title(method, fontsize=9)
    return finish_sizes(figure, panels)


def calibration_size_spde(evidence: Evidence) -> Figure:
    """The same for random fields."""
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    for row, quantity in zip(panels, ("u", "lambda"), strict=True):
        for axes, model in zip(row, ("pi_gan", "nnpc", "nnpc_plus"), strict=True):
            size_panel(axes, evidence, "spde_noisy", (f"model={model}",), quantity)
            axes.set_title(f"{model}, {quantity}", fontsize=9)
    return finish_sizes(figure, panels.ravel())


def calibration_size_darcy(evidence: Evidence) -> Figure:
    """The same for one field and its head."""
    figure = Figure(figsize=(8.0, 4.4), layout="constrained")
    panels = figure.subplots(2, 4, sharex=True, sharey=True)
    for row, quantity in zip(panels, ("log_lambda", "u"), strict=True):
        columns = [(model, length) for length in ("0.25", "0.2") for model in ("pa_bnn_fp", "pa_gan_fp")]
        for axes, (model, length) in zip(row, columns, strict=True):
            size_panel(axes, evidence, "darcy_noisy", (f"model={model}", f"problem.new_length={length}"), quantity)
            axes.set_title(f"{model}, {quantity}, l = {length}", fontsize=8)
    return finish_sizes(figure, panels.ravel())


def size_panel(axes: Any, evidence: Evidence, preset: str, choices: tuple[str, ...], quantity: str) -> None:
    """RMSCE against the number of readings or realisations, for every calibrator of a job."""
    study = f"calibration_size/{quantity}"
    before = evidence.mean(preset, choices, f"{study}/none/0")
    axes.axhline(before, color="k", ls="--", lw=1, label="uncalibrated")
    for name in evidence.jobs(preset)[frozenset(choices)].config["calibration"]["by"]:
        found = {n: evidence.values(preset, choices, f"{study}/{name}/{n}") for n in CALIBRATION_SIZES}
        shown = {n: statistics.fmean(values) for n, values in found.items() if values}
        axes.plot(list(shown), list(shown.values()), "o-", ms=3, label=name)


def finish_sizes(figure: Figure, panels: Any) -> Figure:
    panels[0].set_ylim(bottom=0)
    panels[0].legend(frameon=False, fontsize=7)
    figure.supxlabel("calibration readings", fontsize=9)
    figure.supylabel("RMSCE", fontsize=9)
    return figure


def spectra(evidence: Evidence) -> Figure:
    """Eigenvalues of the covariance of random fields, of three models from noisy realisations."""
    figure = Figure(figsize=(6.8, 2.9), layout="constrained")
    for axes, quantity in zip(figure.subplots(1, 2), ("u", "lambda"), strict=True):
        for model, style in (("pi_gan", "s"), ("nnpc", "^"), ("nnpc_plus", "v")):
            item = evidence.results("spde_noisy", f"model={model}")[0][f"{quantity}_eigenvalues"]
            count = np.arange(1, len(item.mean) + 1)
            axes.errorbar(
                count, item.mean[:, 0], 2 * item.epistemic_std[:, 0], fmt=style, ms=4, mfc="none", label=model
            )
        axes.plot(count, item.reference[:, 0], "k_", ms=12, label="reference")
        axes.set(title=quantity, xlabel="eigenvalue", yscale="log")
        axes.legend(frameon=False, fontsize=7)
    return figure


def detection(evidence: Evidence) -> Figure:
    """Scores and error against the correlation length, relative to that of training."""
    lengths = [0.25 if name == "id" else float(name.removeprefix("ood_")) for name in LENGTH_SPLITS]
    figure = Figure(figsize=(5.2, 3.2), layout="constrained")
    axes = figure.subplots()
    for score in ("rl2e", "gan_mse", "gan_nll", "std"):
        values = [evidence.mean("darcy_ood", (), f"detection/{score}/mean_{name}") for name in LENGTH_SPLITS]
        axes.plot(lengths, np.array(values) / values[LENGTH_SPLITS.index("id")], "o-", ms=4, label=SCORE_LABELS[score])
    axes.axvline(0.25, color="0.6", lw=0.8)
    axes.set(xlabel="correlation length", ylabel="relative to that of training", yscale="log")
    axes.legend(frameon=False, fontsize=8)
    return figure


DRAWN: dict[str, tuple[str, Callable[[Evidence], Figure]]] = {
    "epistemic_growth": ("Epistemic uncertainty against noise and number of readings.", growth),
    "network_size": (
        "Epistemic uncertainty by network, with fixed and with learned prior; mean over seeds.",
        network_size,
    ),
    "calibration_size": ("Calibration error against the number of calibration readings.", calibration_size),
    "spectra": ("Spectra of random fields from noisy realisations, seed 0, with 95 % bands.", spectra),
    "calibration_size_spde": ("Calibration error against the number of realisations.", calibration_size_spde),
    "calibration_size_darcy": ("Calibration error of one field and its head.", calibration_size_darcy),
    "detection": ("Scores of conductivities against their correlation length.", detection),
}
