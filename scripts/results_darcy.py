"""The page docs/results/darcy.md from the runs of an MLflow experiment, beside the values of the paper.

    python scripts/results_darcy.py [--uri sqlite:///.../mlflow.db ...] [--experiment sciuq] [--output docs/results]

Takes all finished runs of `problem=darcy` at paper fidelity: medians over seeds, of which each is a new field where
readings are noisy, with the smallest and the largest value.
"""

from __future__ import annotations

import statistics

import yaml
from mlflow.entities import Run
from results import PAPER, chosen, commits, finished_runs, grouped, parse_options
from results_pde import of, spread, table


def noisy(runs: list[Run], paper: dict) -> str:
    """Relative errors are of standardised values, as in the paper."""
    rows = []
    for split, quantities in paper["darcy_noisy"].items():
        for quantity, models in quantities.items():
            for model, published in models.items():
                found = [run for run in chosen(runs, model=model) if f"{quantity}/{split}/rl2e" in run.data.metrics]
                for metric, value in published.items() if found else ():
                    name = "rl2e_standardised" if metric == "rl2e" else metric
                    ours = spread(of(found, f"{quantity}/{split}/{name}"))
                    rows.append([split, quantity, f"`{model}`", str(len(found)), name, ours, f"{value / 100:.3f}"])
    return table(["split", "quantity", "model", "fields", "metric", "ours", "paper"], rows)


def clean(runs: list[Run], paper: dict) -> str:
    """Relative errors in the units of u, the mean over all test conductivities."""
    rows = []
    for (model, method), found in grouped(
        runs, lambda run: (str(run.data.params["model"]), str(run.data.params["method"]))
    ).items():
        for split in ("id", "ood", "ood_0.15"):
            if any(f"u/{split}/rl2e" not in run.data.metrics for run in found):
                continue
            theirs = f"{paper['darcy_clean']['id' if split == 'id' else 'ood']['rl2e'] / 100:.3f}"
            names = ("linear", "linear_log", "member")
            known = [name for name in names if all(f"baselines/{split}/{name}" in run.data.metrics for run in found)]
            others = ", ".join(
                f"{name} {statistics.median(of(found, f'baselines/{split}/{name}')):.3f}" for name in known
            )
            cells = [spread(of(found, f"u/{split}/{metric}")) for metric in ("rl2e", "coverage")]
            rows.append([f"`{model}`", f"`{method}`", split, str(len(found)), *cells, others, theirs])
    header = ["model", "method", "split", "runs", "rl2e", "epistemic coverage", "rl2e of simpler methods", "paper"]
    return table(header, rows)


def detection(runs: list[Run], paper: dict) -> str:
    rows = []
    for score, value in paper["darcy_detection"].items():
        for split in ("ood", "ood_0.15"):
            key = f"detection/{score}/rise_{split}"
            found = [run for run in runs if key in run.data.metrics]
            if found:
                auroc = spread(of(found, f"detection/{score}/auroc_{split}"))
                rows.append([score, str(len(found)), spread(of(found, key)), f"{value / 100:.2f}", auroc])
    return table(["score", "runs", "rise from 0.25 to 0.15", "paper", "AUROC"], rows)


def main() -> None:
    options = parse_options(__doc__)
    runs = chosen(finished_runs(options.uri, options.experiment, "params.fidelity = 'paper'"), problem="darcy")
    cases = {case: chosen(runs, **{"problem.case": case}) for case in ("clean", "noisy")}
    paper = yaml.safe_load(PAPER.read_text())
    parts = [
        "# Darcy flow",
        "",
        f"Made by `scripts/results_darcy.py` from MLflow (commit {commits(runs)}), all at `fidelity=paper` but for what"
        " the README of this folder names. Median over runs with the smallest and the largest value; the paper shows"
        " one field each. Fractions, not hundredths.",
    ]
    if cases["clean"]:
        parts += ["", "## New conductivities", "", clean(cases["clean"], paper)]
        parts += ["", "## Conductivities unlike those of training", "", detection(cases["clean"], paper)]
    if cases["noisy"]:
        parts += ["", "## Noisy readings of one field (`hmc`)", "", noisy(cases["noisy"], paper)]
    (options.output / "darcy.md").write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
