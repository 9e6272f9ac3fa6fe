"""Tables of docs/results from the runs of an MLflow experiment, beside the values of the paper.

    python scripts/results.py [--uri sqlite:///.../mlflow.db ...] [--experiment sciuq] [--output docs/results]

Takes all finished runs of every case of `problem=function` at paper fidelity and writes one row per method: mean and
standard deviation over seeds of every metric, and, where `paper.yaml` has its value, whether that is met (better, or
within three seed standard deviations). From the sweeps `experiment=epistemic_growth`, `network_size` and
`calibration_size` it makes a page with a figure each. Tables without runs stay as they are.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from matplotlib.figure import Figure
from mlflow import MlflowClient
from mlflow.entities import Run

from sciuq_runner.assembly import build_calibrators
from sciuq_runner.results import read_metrics, read_results
from sciuq_runner.seeds import stream

CASES = {
    "known": "known noise",
    "unknown": "unknown noise",
    "heteroscedastic": "heteroscedastic noise",
    "student_t": "Student-t noise",
}
HIGHER_IS_BETTER = {"mpl", "sdcv"}
SPLITS = {"id": "In distribution", "ood": "Out of distribution"}
METRICS = ("rl2e", "mpl", "rmsce", "piw", "sdcv")
PAPER = Path(__file__).parent.parent / "docs" / "results" / "paper.yaml"


def parse_options(description: str | None) -> argparse.Namespace:
    """Where runs are, and where pages go."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uri", nargs="+", default=[f"sqlite:///{Path.cwd() / 'mlflow.db'}"])
    parser.add_argument("--experiment", default="sciuq")
    parser.add_argument("--output", type=Path, default=PAPER.parent)
    return parser.parse_args()


def finished_runs(uris: list[str], experiment: str, condition: str) -> list[Run]:
    """The finished runs of an experiment for which ``condition`` holds, of all stores."""
    runs: list[Run] = []
    for uri in uris:
        client = MlflowClient(uri)
        found = client.get_experiment_by_name(experiment)
        if found is None:
            raise SystemExit(f"There is no experiment {experiment} at {uri}.")
        query = f"attributes.status = 'FINISHED' and {condition}"
        runs += client.search_runs([found.experiment_id], query, max_results=5000)
    return runs


def of_sweep(runs: list[Run], parents: list[Run], name: str) -> list[Run]:
    """The jobs of the sweeps that were started with ``experiment=name``."""
    ours = {run.info.run_id for run in parents if f"experiment={name}" in run.data.tags["sweep"]}
    return [run for run in runs if run.data.tags.get("mlflow.parentRunId") in ours]


def chosen(runs: list[Run], **params: str) -> list[Run]:
    return [run for run in runs if all(run.data.params.get(key) == value for key, value in params.items())]


def verdict(metric: str, ours: list[float], paper: float) -> str:
    """Better, within three seed standard deviations, or worse."""
    mean = statistics.mean(ours)
    spread = statistics.stdev(ours) if len(ours) > 1 else 0.0
    gain = mean - paper if metric in HIGHER_IS_BETTER else paper - mean
    return "better" if gain >= 0 else "within 3 std" if -gain <= 3 * spread else "**worse**"


def mean_and_spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.3f}" + (f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else "")


def table(runs: list[Run], split: str, paper: dict[str, dict[str, float]]) -> str:
    """One row per method of the paper that has runs."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        for metric in METRICS:
            values[run.data.params["method"], metric].append(run.data.metrics[f"u/{split}/{metric}"])
    shown = [metric for metric in METRICS if all(metric in row for row in paper.values())]
    lines = [
        "| method | seeds | " + " | ".join(f"{metric}: ours | paper | " for metric in shown) + "|",
        "|---|---|" + "---|---|---|" * len(shown),
    ]
    for method, expected in paper.items():
        seeds = len(values[method, "rl2e"])
        if seeds:
            cells = []
            for metric in shown:
                ours, theirs = values[method, metric], expected[metric] / 100
                cells.append(f"{mean_and_spread(ours)} | {theirs:.3f} | {verdict(metric, ours, theirs)}")
            lines.append(f"| `{method}` | {seeds} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def own_table(groups: Mapping[str, list[Run]], split: str) -> str:
    """One row per group of runs, without values of the paper."""
    lines = ["| | seeds | " + " | ".join(METRICS) + " |", "|---|---|" + "---|" * len(METRICS)]
    for name, runs in groups.items():
        cells = [mean_and_spread([run.data.metrics[f"u/{split}/{metric}"] for run in runs]) for metric in METRICS]
        lines.append(f"| {name} | {len(runs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def grouped(runs: list[Run], name: Callable[[Run], str]) -> dict[str, list[Run]]:
    """Runs by a name, in the order in which names come first."""
    found: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        found[name(run)].append(run)
    return dict(found)


def by_method(runs: list[Run]) -> dict[str, list[Run]]:
    return dict(sorted(grouped(runs, lambda run: str(run.data.params["method"])).items()))


def noise_table(runs: list[Run], paper: dict[str, float]) -> str:
    """The noise scale that every method learned; the truth is 0.1."""
    lines = ["| method | ours | all seeds | paper |", "|---|---|---|---|"]
    for method, theirs in paper.items():
        ours = [run.data.metrics["noise/u/mean"] for run in runs if run.data.params["method"] == method]
        if ours:
            every = ", ".join(f"{value:.3f}" for value in ours)
            lines.append(f"| `{method}` | {mean_and_spread(ours)} | {every} | {theirs / 100:.2f} |")
    return "\n".join(lines)


def noise_function_table(groups: Mapping[str, list[Run]]) -> str:
    """The noise that was learned as a function of x, against the true one."""
    lines = ["| | mean | true mean | correlation with the truth |", "|---|---|---|---|"]
    for name, runs in groups.items():
        results = [read_results(Path(run.data.tags["run_folder"]))["u"] for run in runs]
        pairs = [
            (item.noise_mean[item.splits["id"], 0], item.noise_reference[item.splits["id"], 0]) for item in results
        ]
        means, truths = ([float(np.mean(part)) for part in parts] for parts in zip(*pairs, strict=True))
        alike = [float(np.corrcoef(learned, truth)[0, 1]) for learned, truth in pairs]
        cells = (mean_and_spread(means), f"{statistics.mean(truths):.3f}", mean_and_spread(alike))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def commits(runs: list[Run]) -> str:
    return ", ".join(sorted({run.data.tags.get("git_commit", "none")[:12] for run in runs}))


def paper_tables(runs: list[Run], case: str, paper: dict[str, Any]) -> str:
    """The page of one case of the function problem."""
    published = f"function_{case}_id" in paper
    remark = "the paper reports one draw" if published else "`paper.yaml` has no published values of this case"
    parts = [
        f"# Function approximation, {CASES[case]}",
        "",
        f"`problem=function problem.case={case} fidelity=paper`: {len(runs)} runs, made by `scripts/results.py`"
        f" from MLflow (commit {commits(runs)}). Each seed is a new draw of the noise and of all starting points;"
        f" {remark}. Fractions, not hundredths.",
    ]
    methods = {f"`{method}`": members for method, members in by_method(runs).items()}
    for split, title in SPLITS.items():
        made = table(runs, split, paper[f"function_{case}_{split}"]) if published else own_table(methods, split)
        parts += ["", f"## {title}", "", made]
    if f"function_{case}_noise" in paper:
        parts += ["", "## Learned noise scale", "", "The truth is 0.1.", ""]
        parts += [noise_table(runs, paper[f"function_{case}_noise"])]
    elif case != "known":
        parts += ["", "## Learned noise", "", "Standard deviation in distribution.", "", noise_function_table(methods)]
    return "\n".join(parts) + "\n"


def growth(runs: list[Run], folder: Path) -> str:
    """Mean epistemic standard deviation where there are data, against noise and number of readings."""
    found: dict[tuple[str, int, float], list[float]] = defaultdict(list)
    for run in runs:
        with np.load(Path(run.data.tags["run_folder"]) / "predictions.npz") as arrays:
            inside = arrays["u_epistemic_std"][arrays["u_split_id"]]
        params = run.data.params
        key = params["method"], int(params["problem.n_train"]), float(params["problem.noise_scale"])
        found[key].append(float(np.sqrt(np.mean(inside**2))))
    methods, sizes, scales = (sorted({key[i] for key in found}) for i in range(3))
    figure = Figure(figsize=(3.2 * len(methods), 3.0), layout="constrained")
    lines = ["| method | readings | " + " | ".join(f"noise {scale}" for scale in scales) + " |"]
    lines += ["|---|---|" + "---|" * len(scales)]
    panels = figure.subplots(1, len(methods), sharey=True, squeeze=False)[0]
    for axes, method in zip(panels, methods, strict=True):
        for n, style in zip(reversed(sizes), ("o-", "s--"), strict=False):
            values = [found[method, n, scale] for scale in scales]
            axes.errorbar(
                scales,
                [np.mean(v) for v in values],
                [np.std(v) for v in values],
                fmt=style,
                capsize=3,
                label=f"N = {n}",
            )
            lines.append(f"| `{method}` | {n} | " + " | ".join(mean_and_spread(v) for v in values) + " |")
        axes.set(title=method, xlabel="noise scale", ylim=(0, None), xticks=scales)
        axes.legend(frameon=False)
    panels[0].set_ylabel("epistemic std (in distribution)")
    figure.savefig(folder / "epistemic_growth.png", dpi=150)
    text = (
        head("Epistemic uncertainty against noise and number of readings", "epistemic_growth", runs)
        + " Root mean square over the in-distribution test points, mean ± standard deviation over seeds.\n\n"
        "![Epistemic standard deviation](epistemic_growth.png)\n\n"
    )
    return text + "\n".join(lines) + "\n"


def network_size(runs: list[Run], folder: Path) -> str:
    """Epistemic standard deviation along x and all metrics, by depth and width, with fixed and with learned prior."""

    def name(run: Run) -> str:
        params = run.data.params
        prior = "learned prior" if params["model.learn_prior"] == "True" else "fixed prior"
        return f"{prior}, {params['model.depth']} x {params['model.width']}"

    def order(run: Run) -> tuple[str, int, int]:
        params = run.data.params
        return params["model.learn_prior"], int(params["model.depth"]), int(params["model.width"])

    groups = grouped(sorted(runs, key=order), name)
    figure = Figure(figsize=(7.0, 3.2), layout="constrained")
    panels = dict(zip(("fixed prior", "learned prior"), figure.subplots(1, 2, sharey=True), strict=True))
    for label, members in groups.items():
        prior, _, size = label.partition(", ")
        results = [read_results(Path(run.data.tags["run_folder"]))["u"] for run in members]
        spread = np.mean([item.epistemic_std[:, 0] for item in results], axis=0)
        panels[prior].plot(results[0].x[:, 0], spread, label=size)
        panels[prior].plot(results[0].train.x[:, 0], np.full(len(results[0].train), 0.02), "|", color="0.5", ms=4)
    for prior, axes in panels.items():
        axes.set(title=prior, xlabel="x", yscale="log", ylim=(0.015, None))
    handles = panels["fixed prior"].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
    panels["fixed prior"].set_ylabel("epistemic std")
    figure.savefig(folder / "network_size.png", dpi=150)
    parts = [
        head("Size of the network and prior", "network_size", runs),
        "Hidden layers x units. The figure is the mean over seeds; its marks are the readings.",
        "![Epistemic standard deviation](network_size.png)",
    ]
    parts += [f"## {title}\n\n{own_table(groups, split)}" for split, title in SPLITS.items()]
    return "\n\n".join(parts) + "\n"


def calibration_size(runs: list[Run], folder: Path) -> str:
    """RMSCE in distribution against the number of calibration readings, for every method and calibrator."""
    figure = Figure(figsize=(8.0, 7.5), layout="constrained")
    lines: list[str] = []
    methods = by_method(runs)
    columns = min(3, len(methods))
    panels = figure.subplots(-(-len(methods) // columns), columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, (method, members) in zip(panels, methods.items(), strict=False):
        before = [run.data.metrics["u/id/rmsce"] for run in members]
        axes.axhline(np.mean(before), color="k", ls="--", label="uncalibrated")
        found: dict[str, list[np.ndarray]] = defaultdict(list)
        for run in members:
            place = Path(run.data.tags["run_folder"])
            config = read_metrics(place)["config"]
            calibrators = build_calibrators(config["calibration"]["by"], [])
            sizes, errors = read_results(place)["u"].rmsce_by_size(
                calibrators, stream(config["seed"], "calibration size")
            )
            for kind, values in errors.items():
                found[kind].append(values)
        if not lines:
            lines = ["| method | calibration | none | " + " | ".join(f"n = {size}" for size in sizes) + " |"]
            lines += ["|---|---|---|" + "---|" * len(sizes)]
        for kind, parts in found.items():
            every = np.concatenate(parts, axis=1)
            axes.plot(sizes, every.mean(1), "o--" if kind == "crude" else "o-", ms=3, label=kind)
            cells = " | ".join(mean_and_spread(list(draws)) for draws in every)
            lines.append(f"| `{method}` | `{kind}` | {np.mean(before):.3f} | {cells} |")
        axes.set_title(method)
    panels[0].set_ylim(bottom=0)
    panels[0].legend(frameon=False, fontsize=7)
    figure.supxlabel("calibration readings")
    figure.supylabel("RMSCE, in distribution")
    figure.savefig(folder / "calibration_size.png", dpi=150)
    return "\n\n".join(
        [
            head("Calibration error against the number of calibration readings", "calibration_size", runs),
            "RMSCE in distribution, mean ± standard deviation over all seeds and draws of so many of the readings held"
            " out; the draws of a seed are all the same where n is all of them.",
            "![RMSCE](calibration_size.png)",
            "\n".join(lines) + "\n",
        ]
    )


def head(title: str, experiment: str, runs: list[Run]) -> str:
    """The start of the page of a sweep: what was run."""
    fidelities, seeds = (sorted({run.data.params[key] for run in runs}) for key in ("fidelity", "seed"))
    return (
        f"# {title}\n\n`sciuq-run -m experiment={experiment}`: {len(runs)} runs at {', '.join(fidelities)} fidelity,"
        f" seeds {', '.join(seeds)}, made by `scripts/results.py` from MLflow (commit {commits(runs)})."
    )


def main() -> None:
    options = parse_options(__doc__)
    runs = finished_runs(options.uri, options.experiment, "params.problem = 'function'")
    parents = finished_runs(options.uri, options.experiment, "tags.sweep != ''")
    paper = yaml.safe_load(PAPER.read_text())
    options.output.mkdir(parents=True, exist_ok=True)
    pages: dict[str, str] = {}
    sweeps = {"epistemic_growth": growth, "network_size": network_size, "calibration_size": calibration_size}
    for name, page in sweeps.items():
        swept = of_sweep(runs, parents, name)
        if swept:
            pages[f"{name}.md"] = page(swept, options.output)
        ids = {run.info.run_id for run in swept}
        runs = [run for run in runs if run.info.run_id not in ids]
    for case in CASES:
        some = chosen(runs, fidelity="paper", model="bnn", **{"problem.case": case})
        if some:
            pages[f"function_{case}.md"] = paper_tables(some, case, paper)
    for name, text in pages.items():
        (options.output / name).write_text(text, encoding="utf-8")
        print(f"wrote {options.output / name}")


if __name__ == "__main__":
    main()
