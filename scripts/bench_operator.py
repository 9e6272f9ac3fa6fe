"""Cost of a training step of DeepONets against members and functions in a batch.

    python scripts/bench_operator.py [--repeats 7] [--threads 2]

The operator of `problem=darcy` with its own pairs; a step is the loss, gradient and update of all members, in eager
mode. Slopes are those of the logarithm of time between the last two rows: 1 is linear, less where a step does not fill
the cores.
"""

from __future__ import annotations

import argparse
import math

import torch
from timing import seconds

from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.methods.dens import Objective
from sciuq_runner.seeds import torch_stream
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import Trainer

MEMBERS, BATCHES = (1, 2, 5, 10), (25, 50, 100, 200)
STEPS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    register_resolvers()
    _, target = prepare(assemble(plain(compose(["problem=darcy", "method=dens", "fidelity=quick"], None))))

    def step_time(members: int, batch: int) -> float:
        generator = torch_stream(0, "bench")
        objective = Objective(target, 0.0, batch, generator)
        theta = target.init(members, generator)
        trainer = Trainer(objective, theta, generator, Loop(), inputs=objective.inputs)
        trainer.advance(0, STEPS, rate)  # the first is not timed
        return seconds(lambda: trainer.advance(STEPS, STEPS, rate), options.repeats) / STEPS

    slope("members", [(members, step_time(members, 50)) for members in MEMBERS])
    slope("functions in a batch", [(batch, step_time(5, batch)) for batch in BATCHES])


def rate(step: int) -> float:
    return 1e-3


def slope(name: str, times: list[tuple[int, float]]) -> None:
    """Print times, and how they grow at the end."""
    print(name)
    for count, time in times:
        print(f"{count:>6} {1e3 * time:>8.2f} ms  {1e3 * time / count:.2f} ms each")
    (few, before), (many, after) = times[-2:]
    print(f"slope {math.log(after / before) / math.log(many / few):.2f}  (linear: 1)")


if __name__ == "__main__":
    main()
