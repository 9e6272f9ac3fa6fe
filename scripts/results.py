"""Tables of docs/results from the runs of an MLflow experiment, beside the values of the paper.

    python scripts/results.py [--uri sqlite:///.../mlflow.db] [--experiment sciuq] [--output docs/results]

Takes all finished runs of `problem=function problem.case=known` at paper fidelity and writes one row per method: mean
and standard deviation over seeds of every metric, and whether the paper's value is met (better, or within three seed
standard deviations).
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from pathlib import Path

import yaml
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
    query = "attributes.status = 'FINISHED' and params.problem = 'function' and params.fidelity = 'paper'"
    runs = client.search_runs([found.experiment_id], query, max_results=5000)
    return [run for run in runs if run.data.params.get("problem.case") == "known"]


def verdict(metric: str, ours: list[float], paper: float) -> str:
    """Better, within three seed standard deviations, or worse."""
    mean = statistics.mean(ours)
    spread = statistics.stdev(ours) if len(ours) > 1 else 0.0
    gain = mean - paper if metric in HIGHER_IS_BETTER else paper - mean
    return "better" if gain >= 0 else "within 3 std" if -gain <= 3 * spread else "**worse**"


def table(runs: list[Run], split: str, paper: dict[str, dict[str, float]]) -> str:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        for metric in METRICS:
            values[run.data.params["method"], metric].append(run.data.metrics[f"u/{split}/{metric}"])
    lines = [
        "| method | seeds | " + " | ".join(f"{metric}: ours | paper | " for metric in METRICS) + "|",
        "|---|---|" + "---|---|---|" * len(METRICS),
    ]
    for method, expected in paper.items():
        seeds = len(values[method, "rl2e"])
        if not seeds:
            continue
        cells = []
        for metric in METRICS:
            ours, theirs = values[method, metric], expected[metric] / 100
            spread = statistics.stdev(ours) if seeds > 1 else 0.0
            cells.append(f"{statistics.mean(ours):.3f} ± {spread:.3f} | {theirs:.3f} | {verdict(metric, ours, theirs)}")
        lines.append(f"| `{method}` | {seeds} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uri", default=f"sqlite:///{Path.cwd() / 'mlflow.db'}")
    parser.add_argument("--experiment", default="sciuq")
    parser.add_argument("--output", type=Path, default=PAPER.parent)
    options = parser.parse_args()
    runs = finished_runs(options.uri, options.experiment)
    paper = yaml.safe_load(PAPER.read_text())
    commits = sorted({run.data.tags.get("git_commit", "none")[:12] for run in runs})
    parts = [
        "# Function approximation, known noise",
        "",
        f"`problem=function problem.case=known fidelity=paper`: {len(runs)} runs, made by `scripts/results.py`"
        f" from MLflow (commit {', '.join(commits)}). Each seed is a new draw of the noise and of all starting points;"
        " the paper reports one draw. Fractions, not hundredths.",
    ]
    for split, title in (("id", "In distribution"), ("ood", "Out of distribution")):
        parts += ["", f"## {title}", "", table(runs, split, paper[f"function_known_{split}"])]
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "function_known.md"
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
