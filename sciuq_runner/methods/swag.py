"""Stochastic weight averaging - Gaussian (Appendix B.3.3 of the paper; Maddox et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Generator, Tensor

from sciuq_runner.memory import Need
from sciuq_runner.methods.base import vectors
from sciuq_runner.methods.dens import Objective, optimised
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.methods.sens import SEns
from sciuq_runner.schema import Count
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import worth_compiling
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import cosine_cycles, cycle_ends


@dataclass(frozen=True)
class SWAG(SEns):
    r"""A Gaussian fitted to the iterates of the last ``n_used`` of ``n_cycles`` cosine cycles.

    With the running mean :math:`\bar\theta` and mean square of the iterates, and the Q snapshots at the ends of these
    cycles as columns of deviations D, samples are

    .. math::
        \theta = \bar\theta + \frac{1}{\sqrt2} \Sigma_\text{diag}^{1/2} z_1 + \frac{1}{\sqrt{2(Q-1)}} D z_2,
        \qquad z \sim \mathcal N(0, I).

    Settings as of ``sens``. Several ``n_members`` trajectories at once, with the samples shared between them, make
    Multi-SWAG.
    """

    n_cycles: Count = 10
    n_used: Annotated[int, Ge(2)] = 5
    n_samples: Count = 50

    @property
    def kept(self) -> tuple[str, int]:
        return "method.n_samples", self.n_samples

    def needs(self, target: Target) -> list[Need]:
        snapshots = vectors("method.n_members", self.n_members * (self.n_used + 5), target.size, target.dtype.itemsize)
        return [*super().needs(target), snapshots]

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        objective = Objective(target, self.weight_decay, self.batch_size, generator)
        start = target.init(self.n_members, generator)
        moments = {
            "mean": torch.zeros_like(start),
            "square": torch.zeros_like(start),
            "seen": start.new_zeros(()),
            "snapshots": start.new_zeros(self.n_used, *start.shape),
        }
        compiled = worth_compiling(self.compile, self.n_steps)
        trainer = objective.trainer(start, generator, loop, compiled, moments)
        ends = cycle_ends(self.n_steps, self.n_cycles)
        used, begin = ends[-self.n_used :], ([0, *ends])[-self.n_used - 1]
        rate = cosine_cycles(self.n_steps, self.n_cycles, self.learning_rate, self.final_rate)
        for done in trainer.steps(self.n_steps, rate, pauses=ends):
            state = trainer.state
            if done > begin:
                state["seen"] = state["seen"] + 1
                state["mean"] = state["mean"] + (trainer.theta - state["mean"]) / state["seen"]
                state["square"] = state["square"] + (trainer.theta.square() - state["square"]) / state["seen"]
            if done in used:
                state["snapshots"][used.index(done)] = trainer.theta
        taken = sum(end <= loop.done.get("training", 0) for end in used)
        if taken < 2:
            posterior = optimised(trainer.theta, objective, loop)
            posterior.warnings = ["Stopped before two snapshots: the last iterates are kept, without a fitted spread."]
            return posterior
        posterior = optimised(self.draw(trainer.state, taken, generator), objective, loop)
        posterior.gradient_evaluations = loop.done.get("training", 0) * self.n_members
        return posterior

    def draw(self, state: dict[str, Tensor], taken: int, generator: Generator) -> Tensor:
        """Samples of the fitted Gaussians, the same number from each, ``[n_samples, K]``."""
        mean, members, size = state["mean"], self.n_members, state["mean"].shape[1]
        count = math.ceil(self.n_samples / members)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64).to(mean)

        deviation = (state["square"] - mean.square()).clamp(min=0).sqrt()
        columns = state["snapshots"][:taken] - mean
        low_rank = torch.einsum("csq,qsk->csk", normal(count, members, taken), columns) / math.sqrt(2 * (taken - 1))
        return (mean + deviation * normal(count, members, size) / math.sqrt(2) + low_rank).flatten(0, 1)
