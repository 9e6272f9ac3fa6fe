"""Seconds of every method at paper fidelity, and their ratio to one standard training, beside the paper's cost table.

    python scripts/bench_methods.py [--share 0.05] [--methods hmc dens ...]

The function problem with known noise. Standard training is what the paper compares with: one ``torch.nn`` network, one
``torch.optim.Adam``, a plain loop, for as many steps as a member of the ensemble. The second ratio is to one member of
our own ensemble, whose steps run in one compiled call: there ten members are bound by their arithmetic. ``--share``
runs that share of all step counts and scales the time up; compiling is not counted. HMC and LD run one chain, HMC of
2000 + 1000 transitions, as in the paper. Ratios are of times measured in this run.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from timing import elapsed

from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.seeds import torch_stream
from sciuq_runner.training import autodiff
from sciuq_runner.training.loop import Loop

PAPER_SECONDS = {
    "hmc": 131.5,
    "ld": 44.4,
    "mfvi": 19.5,
    "mcd": 41.7,
    "la": 60.3,
    "dens": 359.8,
    "sens": 31.9,
    "swag": 36.6,
}
GOALS = {"hmc": 5.0}


def seconds(method: Any, target: Any, share: float) -> float:
    """Time of one method: what does not depend on the number of steps, and the rest scaled up from a share of them."""
    chains = hasattr(method, "n_burn")
    scaled = {
        name: max(20, int(getattr(method, name) * share)) for name in ("n_steps", "n_burn") if hasattr(method, name)
    }
    if chains:
        scaled["n_samples"] = max(method.n_chains, int(method.n_samples * share))
    variants = replace(method, **{name: min(20, value) for name, value in scaled.items()}), replace(method, **scaled)
    for variant in variants:  # the first time may compile
        timed(variant, target)
    fixed, partial = (timed(variant, target) for variant in variants)
    return fixed + (partial - fixed) / share


def timed(method: Any, target: Any) -> float:
    return elapsed(lambda: method.run(target, torch_stream(0, "bench"), Loop()))


def plain_training(target: Any, n_steps: int) -> None:
    """What anybody would write: one network, one optimiser, a loop."""
    (term,) = target.terms
    sizes = (1, 50, 50, 1)
    layers = [layer for pair in pairwise(sizes) for layer in (torch.nn.Linear(*pair), torch.nn.Tanh())]
    network = torch.nn.Sequential(*layers[:-1])
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-6)
    for _ in range(n_steps):
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(network(term.x), term.y).backward()
        optimiser.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--methods", nargs="+", default=list(PAPER_SECONDS))
    options = parser.parse_args()
    register_resolvers()
    torch.set_num_threads(1)
    autodiff.WORTH_COMPILING = int(autodiff.WORTH_COMPILING * options.share)  # compile what the full run would
    runs = {name: assemble(plain(compose([f"method={name}", "fidelity=paper"], None))) for name in options.methods}
    standard_run = assemble(plain(compose(["method=dens", "fidelity=paper", "method.n_members=1"], None)))
    _, target = prepare(standard_run)
    member = seconds(standard_run.method, target, options.share)
    n_steps = int(standard_run.method.n_steps * options.share)  # type: ignore[attr-defined]
    plain_training(target, 20)
    standard = elapsed(lambda: plain_training(target, n_steps)) / options.share
    print(f"{'method':<12}{'seconds':>9}{'to plain':>10}{'to ours':>9}{'goal':>7}{'paper s':>9}{'paper ratio':>13}")

    def row(name: str, found: float, goal: str, paper: float) -> None:
        ratios = f"{found / standard:>10.2f}{found / member:>9.2f}"
        theirs = paper / (PAPER_SECONDS["dens"] / 10)
        print(f"{name:<12}{found:>9.1f}{ratios}{goal:>7}{paper:>9.1f}{theirs:>13.2f}", flush=True)

    row("plain", standard, "", PAPER_SECONDS["dens"] / 10)
    row("one of ours", member, "", PAPER_SECONDS["dens"] / 10)
    for name, run in runs.items():
        method: Any = run.method
        if name in ("hmc", "ld"):
            method = replace(method, n_chains=1, thin=1, compile="always")
        row(name, seconds(method, target, options.share), f"{GOALS.get(name, 2.0):.1f}", PAPER_SECONDS[name])


if __name__ == "__main__":
    main()
