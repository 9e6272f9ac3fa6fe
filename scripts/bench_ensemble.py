"""Ten networks trained in one batch against ten trainings in sequence.

    python scripts/bench_ensemble.py [--members 10] [--steps 1000] [--repeats 3]

The function problem, 2 x 50 tanh network, Adam. Both do the same arithmetic; the goal is a ratio of at least 5.
"""

from __future__ import annotations

import argparse

import torch
from sciuq_runner.problems.function import Function
from timing import seconds

from sciuq_runner.methods.dens import Objective
from sciuq_runner.models import BNN
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import Trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    problem = Function()
    readings = {name: data.train for name, data in problem.dataset(stream(0, "data")).items()}
    target = Target(BNN().bind(problem, problem.noise), problem.noise, readings)
    objective = Objective(target, 0.025)
    start = target.init(options.members, torch_stream(0, "bench"))

    def fit(theta: torch.Tensor) -> torch.Tensor:
        return Trainer(objective, theta, torch.Generator(), Loop()).run(options.steps, lambda _: 1e-3)

    def together() -> torch.Tensor:
        return fit(start)

    def in_sequence() -> torch.Tensor:
        return torch.cat([fit(start[i : i + 1]) for i in range(options.members)])

    difference = (together() - in_sequence()).abs().max().item()
    taken = {}
    for name, call in (("together", together), ("in sequence", in_sequence)):
        taken[name] = seconds(call, options.repeats)
        print(f"{name:<12} {options.members} members, {options.steps} steps: {taken[name]:.2f} s")
    print(f"largest difference of a parameter: {difference:.1e}")
    print(f"in sequence / together: {taken['in sequence'] / taken['together']:.1f}  (goal at least 5)")


if __name__ == "__main__":
    main()
