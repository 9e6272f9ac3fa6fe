"""Seconds of every method at paper fidelity, and their ratio to one standard training, beside the paper's cost table.

    python scripts/bench_methods.py [--share 0.05] [--methods hmc dens ...]

The function problem with known noise. Standard training is one network trained by Adam for as many steps as the
ensemble's members. ``--share`` runs that share of all step counts and scales the time up; compiling is not counted.
HMC runs one chain of 2000 + 1000 transitions, as in the paper. Ratios are of times measured in this run.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import torch
from timing import elapsed

from sciuq_runner import autodiff
from sciuq_runner.assembly import assemble, prepare
from sciuq_runner.composition import compose, plain, register_resolvers
from sciuq_runner.loop import Loop
from sciuq_runner.seeds import torch_stream

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
    standard = seconds(standard_run.method, target, options.share)
    print(f"{'method':<10}{'seconds':>9}{'ratio':>8}{'goal':>7}{'paper s':>9}{'paper ratio':>13}")
    print(f"{'standard':<10}{standard:>9.1f}{1.0:>8.2f}{'':>7}{PAPER_SECONDS['dens'] / 10:>9.1f}{1.0:>13.2f}")
    for name, run in runs.items():
        method: Any = run.method
        if name == "hmc":
            method = replace(method, n_chains=1, thin=1, compile="always")
        if name == "ld":
            method = replace(method, n_chains=1, thin=1, compile="always")
        found = seconds(method, target, options.share)
        ratio, theirs = found / standard, PAPER_SECONDS[name] / (PAPER_SECONDS["dens"] / 10)
        goal = GOALS.get(name, 2.0)
        print(f"{name:<10}{found:>9.1f}{ratio:>8.2f}{goal:>7.1f}{PAPER_SECONDS[name]:>9.1f}{theirs:>13.2f}", flush=True)


if __name__ == "__main__":
    main()
