"""The page docs/results/priors.md from the runs of an MLflow experiment, beside the values of the paper.

    python scripts/results_priors.py [--uri sqlite:///.../mlflow.db ...] [--experiment sciuq] [--output docs/results]

Takes all finished runs with a learned functional prior and of `problem=spde` at paper fidelity, and those of networks
on the same problems to compare with: medians over seeds, with the smallest and the largest value.
"""

from __future__ import annotations

import statistics

import yaml
from mlflow.entities import Run
from results import PAPER, chosen, commits, finished_runs, grouped, parse_options
from results_pde import of, spread, table

NAMES = {"bnn": "networks", "gan_fp": "GAN", "gp_pi_gan": "GP + PI-GAN"}
GOALS = {"u_mean": 0.01, "u_std": 0.02}
"""Relative errors of polynomial chaos on clean realisations that are asked for, whatever the paper has."""


def by_seed(runs: list[Run], key: str) -> str:
    """The values of a metric in the order of seeds."""
    ordered = sorted(runs, key=lambda run: int(run.data.params["seed"]))
    return ", ".join(f"{value:.3f}" for value in of(ordered, key))


def function(runs: list[Run], paper: dict) -> str:
    rows = []
    for split in ("id", "ood"):
        for metric in ("rl2e", "mpl", "rmsce"):
            for model, method in (("bnn", "hmc"), ("gan_fp", "hmc_fp")):
                found, key = chosen(runs, model=model), f"u/{split}/{metric}"
                if found:
                    theirs = f"{paper['function_heteroscedastic_priors'][split][method][metric] / 100:.3f}"
                    ours = f"{statistics.mean(of(found, key)):.3f}"
                    rows.append([split, metric, NAMES[model], by_seed(found, key), ours, theirs])
    return table(["split", "metric", "prior", "by seed", "mean", "paper"], rows)


def chains(runs: list[Run]) -> str:
    keys = ("rhat_max", "ess_min", "divergences")
    rows = [
        [NAMES[model], *(spread(of(found, f"diagnostics/{key}")) for key in keys)]
        for model, found in grouped(runs, lambda run: str(run.data.params["model"])).items()
    ]
    return table(["prior", "R-hat", "effective samples", "divergences"], rows)


def mixed(learned: list[Run], networks: list[Run], paper: dict) -> str:
    rows = []
    for key, values in paper["mixed_pde_prior"].items():
        for metric, value in values.items():
            name = f"{key}/{metric}"
            against = f"{statistics.median(of(networks, name)):.3f}" if networks else ""
            rows.append([f"`{key}`", metric, spread(of(learned, name)), f"{value / 100:.3f}", against])
    return table(
        ["quantity", "metric", f"GAN, {len(learned)} seeds", "paper", f"networks, {len(networks)} seeds"], rows
    )


def forward(runs: list[Run]) -> str:
    rows = []
    for (case, model), found in sorted(
        grouped(runs, lambda run: (run.data.params["problem.case"], run.data.params["model"])).items()
    ):
        for key in ("u/id", "f/id"):
            values = [spread(of(found, f"{key}/{metric}")) for metric in ("rl2e", "piw", "coverage")]
            rows.append([case, f"`{key}`", NAMES[model], str(len(found)), *values])
    return table(["case", "quantity", "prior", "seeds", "rl2e", "piw", "coverage"], rows)


def random_fields(runs: list[Run], paper: dict) -> str:
    rows = []
    for case, quantities in paper["spde"].items():
        for quantity, published in quantities.items():
            for model, value in published.items():
                found = chosen(runs, model=model, **{"problem.case": case})
                if not found:
                    continue
                ours, theirs = of(found, f"{quantity}/id/rl2e"), value / 100
                strict = case == "clean" and model != "pi_gan" and quantity in GOALS
                goal = GOALS[quantity] if strict else 1.5 * theirs
                met = "met" if statistics.median(ours) <= goal else "**missed**"
                cells = [spread(ours), f"{theirs:.3f}", f"{goal:.4g}", met]
                rows.append([case, f"`{quantity}`", f"`{model}`", str(len(found)), *cells])
    return table(["case", "quantity", "model", "seeds", "rl2e: ours", "paper", "goal", ""], rows)


def main() -> None:
    options = parse_options(__doc__)
    runs = finished_runs(options.uri, options.experiment, "params.fidelity = 'paper'")
    paper = yaml.safe_load(PAPER.read_text())
    uneven = chosen(runs, problem="function", method="hmc", **{"problem.case": "heteroscedastic"})
    standard = chosen(runs, problem="mixed_pde", method="hmc", **{"problem.case": "standard"})
    learned = chosen(standard, model="gan_fp")
    steady = chosen(runs, problem="forward_pde", method="hmc")
    stochastic = chosen(runs, problem="spde", method="dens")
    parts = [
        "# Functional priors and random fields",
        "",
        f"Made by `scripts/results_priors.py` from MLflow (commit {commits(uneven + learned + stochastic)}), all at"
        " `fidelity=paper`. Median over seeds with the smallest and the largest value, where nothing else is said; the"
        " paper reports one draw. Fractions, not hundredths. What was found is in the README of this folder.",
    ]
    if chosen(uneven, model="gan_fp"):
        parts += ["", "## Function, noise that depends on x (`hmc`)", "", function(uneven, paper), "", chains(uneven)]
    if learned:
        networks = chosen(standard, model="bnn")
        parts += ["", "## Mixed problem, standard case (`hmc`)", "", mixed(learned, networks, paper)]
    if chosen(steady, model="gp_pi_gan"):
        parts += ["", "## Forward problem (`hmc`)", "", forward(steady)]
    if stochastic:
        parts += ["", "## Stochastic equation (`dens`, three members)", "", random_fields(stochastic, paper)]
    (options.output / "priors.md").write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
