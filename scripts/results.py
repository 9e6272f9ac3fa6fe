"""Tables of docs/results from the runs of an MLflow experiment, beside the values of the paper.

    python scripts/results.py [--uri sqlite:///.../mlflow.db] [--experiment sciuq] [--output docs/results]

Takes all finished runs of `problem=function` with known and with unknown noise at paper fidelity and writes one row per
method: mean and standard deviation over seeds of every metric, and whether the paper's value is met (better, or within
three seed standard deviations). From those of `experiment=epistemic_growth` it draws how the epistemic uncertainty
grows with noise and with fewer readings. Tables without runs stay as they are.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from matplotlib.figure import Figure
from mlflow import MlflowClient
from mlflow.entities import Run

HIGHER_IS_BETTER = {"mpl", "sdcv"}
METRICS = ("rl2e", "mpl", "rmsce", "piw", "sdcv")
PAPER = Path(__file__).parent.parent / "docs" / "results" / "paper.yaml"


def finished_runs(uri: str, experiment: str) -> list[Run]:
    client = MlflowClient(uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        raise SystemExit(f"There is no experiment {experiment} at {uri}.")
    query = "attributes.status = 'FINISHED' and params.problem = 'function'"
    return list(client.search_runs([found.experiment_id], query, max_results=5000))


def of_sweep(runs: list[Run], uri: str, name: str) -> list[Run]:
    """The jobs of the sweeps that were started with ``experiment=name``."""
    client = MlflowClient(uri)
    parents = {run.data.tags.get("mlflow.parentRunId") for run in runs} - {None}
    ours = {parent for parent in parents if f"experiment={name}" in client.get_run(parent).data.tags.get("sweep", "")}
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
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values) if len(values) > 1 else 0.0:.3f}"


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


def noise_table(runs: list[Run], paper: dict[str, float]) -> str:
    """The noise scale that every method learned; the truth is 0.1."""
    lines = ["| method | ours | all seeds | paper |", "|---|---|---|---|"]
    for method, theirs in paper.items():
        ours = [run.data.metrics["noise/u/mean"] for run in runs if run.data.params["method"] == method]
        if ours:
            every = ", ".join(f"{value:.3f}" for value in ours)
            lines.append(f"| `{method}` | {mean_and_spread(ours)} | {every} | {theirs / 100:.2f} |")
    return "\n".join(lines)


def commits(runs: list[Run]) -> str:
    return ", ".join(sorted({run.data.tags.get("git_commit", "none")[:12] for run in runs}))


def paper_tables(runs: list[Run], case: str, paper: dict[str, Any]) -> str:
    """The page of one case of the function problem."""
    parts = [
        f"# Function approximation, {case} noise",
        "",
        f"`problem=function problem.case={case} fidelity=paper`: {len(runs)} runs, made by `scripts/results.py`"
        f" from MLflow (commit {commits(runs)}). Each seed is a new draw of the noise and of all starting points;"
        " the paper reports one draw. Fractions, not hundredths.",
    ]
    for split, title in (("id", "In distribution"), ("ood", "Out of distribution")):
        parts += ["", f"## {title}", "", table(runs, split, paper[f"function_{case}_{split}"])]
    if f"function_{case}_noise" in paper:
        parts += ["", "## Learned noise scale", "", "The truth is 0.1.", ""]
        parts += [noise_table(runs, paper[f"function_{case}_noise"])]
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
    head = (
        "# Epistemic uncertainty against noise and number of readings\n\n"
        f"`sciuq-run -m experiment=epistemic_growth`: {len(runs)} runs at quick fidelity, made by `scripts/results.py` "
        f"from MLflow (commit {commits(runs)}). Root mean square over the in-distribution test points, mean ± standard "
        "deviation over seeds.\n\n![Epistemic standard deviation](epistemic_growth.png)\n\n"
    )
    return head + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uri", default=f"sqlite:///{Path.cwd() / 'mlflow.db'}")
    parser.add_argument("--experiment", default="sciuq")
    parser.add_argument("--output", type=Path, default=PAPER.parent)
    options = parser.parse_args()
    runs = finished_runs(options.uri, options.experiment)
    paper = yaml.safe_load(PAPER.read_text())
    options.output.mkdir(parents=True, exist_ok=True)
    pages: dict[str, str] = {}
    for case in ("known", "unknown"):
        some = chosen(runs, fidelity="paper", **{"problem.case": case})
        if some:
            pages[f"function_{case}.md"] = paper_tables(some, case, paper)
    swept = of_sweep(runs, options.uri, "epistemic_growth")
    if swept:
        pages["epistemic_growth.md"] = growth(swept, options.output)
    for name, text in pages.items():
        (options.output / name).write_text(text, encoding="utf-8")
        print(f"wrote {options.output / name}")


if __name__ == "__main__":
    main()
