"""Snapshot ensembles (Appendix B.3.2 of the paper; Huang et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from torch import Generator

from sciuq_runner.methods.base import Method
from sciuq_runner.methods.dens import Objective, optimised, optimiser_objection
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.schema import Count, NonNegative, Positive
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import CompileChoice, worth_compiling
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import cosine_cycles, cycle_ends


@dataclass(frozen=True)
class SEns(Method):
    r"""One training whose learning rate falls from ``learning_rate`` to ``final_rate`` along a half cosine,
    ``n_cycles`` times over; theta at the end of each of the last ``n_used`` cycles is a sample.

    Several ``n_members`` trajectories at once make a multi-snapshot ensemble (Multi-SEns).
    """

    n_members: Count = 1
    n_steps: Count = 10_000
    n_cycles: Count = 20
    n_used: Annotated[int, Ge(1)] = 20
    learning_rate: Positive = 1e-2
    final_rate: Positive = 1e-4
    weight_decay: NonNegative | None = None
    batch_size: Count | None = None
    compile: CompileChoice = "auto"

    def __post_init__(self) -> None:
        if self.n_used > self.n_cycles:
            raise ValueError(f"n_used={self.n_used} is more than n_cycles={self.n_cycles}: choose at most as many.")
        if self.n_cycles > self.n_steps:
            raise ValueError(f"n_cycles={self.n_cycles} is more than n_steps={self.n_steps}: a cycle needs a step.")

    def objection(self, target: Target) -> str | None:
        return optimiser_objection(target, type(self).__name__.lower())

    @property
    def kept(self) -> tuple[str, int]:
        return "method.n_members", self.n_members * self.n_used

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        objective = Objective(target, self.weight_decay, self.batch_size, generator)
        start = target.init(self.n_members, generator)
        snapshots = {"snapshots": start.new_zeros(self.n_used, *start.shape)}
        compiled = worth_compiling(self.compile, self.n_steps)
        trainer = objective.trainer(start, generator, loop, compiled, snapshots)
        ends = cycle_ends(self.n_steps, self.n_cycles)[-self.n_used :]
        rate = cosine_cycles(self.n_steps, self.n_cycles, self.learning_rate, self.final_rate)
        for done in trainer.steps(self.n_steps, rate, pauses=ends):
            if done in ends:
                trainer.state["snapshots"][ends.index(done)] = trainer.theta
        taken = sum(end <= loop.done.get("training", 0) for end in ends)
        members = trainer.state["snapshots"][:taken].flatten(0, 1) if taken else trainer.theta
        posterior = optimised(members, objective, loop)
        posterior.gradient_evaluations = loop.done.get("training", 0) * self.n_members
        return posterior
