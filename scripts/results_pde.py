"""The page docs/results/pde.md from the runs of an MLflow experiment, beside the values of the paper.

    python scripts/results_pde.py [--uri sqlite:///.../mlflow.db ...] [--experiment sciuq] [--output docs/results]

Takes all finished runs of networks on `problem=mixed_pde` and `problem=forward_pde` at paper fidelity: medians over
seeds, of which each is a new draw of the noise, with the smallest and the largest value.
"""

from __future__ import annotations

import statistics

import yaml
from mlflow.entities import Run
from results import PAPER, by_method, chosen, commits, finished_runs, grouped, parse_options

QUANTITIES = ("u/id", "u/t1", "f/id", "lambda/id")


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def of(runs: list[Run], key: str) -> list[float]:
    return [run.data.metrics[key] for run in runs]


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [" | ".join(header), "|".join(["---"] * len(header)), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines)


def standard(runs: list[Run], paper: dict) -> str:
    rows = []
    for key in QUANTITIES:
        for method, found in by_method(runs).items():
            for metric, value in paper["mixed_pde_standard"][key].get(method, {}).items():
                ours = spread(of(found, f"{key}/{metric}"))
                coverage = f"{statistics.median(of(found, f'{key}/coverage')):.2f}" if metric == "rl2e" else ""
                rows.append([f"`{key}`", metric, f"`{method}`", str(len(found)), ours, f"{value / 100:.3f}", coverage])
    return table(["quantity", "metric", "method", "seeds", "ours", "paper", "coverage"], rows)


def noise(runs: list[Run], paper: dict) -> str:
    rows = []
    for method, found in by_method(runs).items():
        if method in paper["mixed_pde_noise"]:
            theirs = f"{paper['mixed_pde_noise'][method] / 100:.3f}"
            rows.append([f"`{method}`", spread(of(found, "noise/all/mean")), theirs])
    return table(["method", "learned noise scale", "paper"], rows)


def cases(runs: list[Run], paper: dict) -> str:
    rows = []
    for case, found in grouped(runs, lambda run: str(run.data.params["problem.case"])).items():
        for key, value in paper["mixed_pde_additional"].get(case, {}).items():
            ours, theirs = of(found, f"{key}/rl2e"), value / 100
            ratio = statistics.median(ours) / theirs
            coverage = f"{statistics.median(of(found, f'{key}/coverage')):.2f}"
            rows.append([case, f"`{key}`", str(len(found)), spread(ours), f"{theirs:.3f}", f"{ratio:.2f}", coverage])
    return table(["case", "quantity", "seeds", "rl2e: ours", "paper", "ours / paper", "coverage"], rows)


def forward(runs: list[Run]) -> str:
    rows = []
    for case, found in grouped(runs, lambda run: str(run.data.params["problem.case"])).items():
        for key in ("u/id", "f/id"):
            values = [spread(of(found, f"{key}/{metric}")) for metric in ("rl2e", "piw", "coverage")]
            rows.append([case, f"`{key}`", str(len(found)), *values])
    return table(["case", "quantity", "seeds", "rl2e", "piw", "coverage"], rows)


def main() -> None:
    options = parse_options(__doc__)
    runs = finished_runs(options.uri, options.experiment, "params.fidelity = 'paper'")
    mixed, steady = (chosen(runs, problem=name, model="bnn") for name in ("mixed_pde", "forward_pde"))
    paper = yaml.safe_load(PAPER.read_text())
    parts = [
        "# Neural PDEs",
        "",
        f"Made by `scripts/results_pde.py` from MLflow (commit {commits(mixed + steady)}), all at `fidelity=paper`."
        " Median over seeds, of which each is a new draw of the noise, with the smallest and the largest value; the"
        " paper reports one draw. `coverage` is the median part of the reference inside the 95 % total band."
        " Fractions, not hundredths. What was found is in the README of this folder.",
    ]
    plain = chosen(mixed, **{"problem.case": "standard"})
    if plain:
        parts += ["", "## Mixed problem, standard case", "", standard(plain, paper)]
        parts += ["", "The true noise scale is 0.05.", "", noise(plain, paper)]
    others = [run for run in chosen(mixed, method="hmc") if run.data.params["problem.case"] != "standard"]
    if others:
        parts += ["", "## Mixed problem, additional cases (`hmc`)", "", cases(others, paper)]
    if steady:
        parts += ["", "## Forward problem (`hmc`)", "", forward(chosen(steady, method="hmc"))]
    (options.output / "pde.md").write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
