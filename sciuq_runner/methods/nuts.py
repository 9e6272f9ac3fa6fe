"""The No-U-Turn sampler (Hoffman & Gelman 2014), Pyro's: tree building is where its code is strong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Interval
from torch import Generator, Tensor

from sciuq_runner.methods.base import Method
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.models.base import InferenceKind
from sciuq_runner.schema import Count, Fraction, Positive
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop


@dataclass(frozen=True)
class NUTS(Method):
    """Hamiltonian Monte Carlo that finds the length of its trajectories itself.

    Step size and a diagonal mass matrix adapt in burn-in. Chains run one after another, each from a seed of its own;
    learned scales move with theta, as logarithms.
    """

    inferences: ClassVar[Sequence[InferenceKind]] = ("likelihood", "prior")

    n_chains: Count = 2
    n_burn: Annotated[int, Ge(1)] = 100
    n_samples: Count = 100
    step_size: Positive = 0.001
    target_accept: Fraction = 0.8
    max_tree_depth: Annotated[int, Interval(ge=1, le=15)] = 7

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        per_chain = math.ceil(self.n_samples / self.n_chains)
        start = target.init_chains(self.n_chains, generator)
        seeds = torch.randint(2**31, (self.n_chains,), generator=generator)
        state = loop.track(
            {
                "samples": start.new_zeros(self.n_chains, per_chain, target.size),
                "accept": torch.zeros(self.n_chains, dtype=torch.float64),
                "divergences": torch.zeros(self.n_chains, dtype=torch.float64),
                "gradients": torch.zeros((), dtype=torch.float64),
            },
            generator,
        )
        finished = 0
        for chain in range(self.n_chains):
            finished += self.run_chain(target, start[chain], int(seeds[chain]), chain, per_chain, state, loop)
        theta = state["samples"][:finished] if finished else start[:, None]
        posterior = Posterior(theta.flatten(0, 1), finished or self.n_chains)
        posterior.diagnostics = {
            "accept_rate": state["accept"][: max(1, finished)].mean().item(),
            "divergences": state["divergences"].sum().item(),
        }
        posterior.gradient_evaluations = int(state["gradients"])
        if not finished:
            posterior.warnings = ["Stopped before the first chain was done: the points kept are not samples."]
        return posterior

    def run_chain(
        self,
        target: Target,
        start: Tensor,
        seed: int,
        chain: int,
        n_samples: int,
        state: dict[str, Tensor],
        loop: Loop,
    ) -> bool:
        """Run one chain to its end; a chain that is interrupted starts afresh when the run is resumed."""
        from pyro.infer.mcmc import NUTS as PyroNUTS

        name, total = f"chain {chain + 1}", self.n_burn + n_samples
        if loop.done.get(name, 0) == total:
            return True
        loop.done.pop(name, None)
        calls = 0

        def potential(point: dict[str, Tensor]) -> Tensor:
            nonlocal calls
            calls += 1
            return -target.log_density(point["theta"][None])[0]

        kernel = PyroNUTS(
            potential_fn=potential,
            step_size=self.step_size,
            target_accept_prob=self.target_accept,
            max_tree_depth=self.max_tree_depth,
        )
        kernel.initial_params = {"theta": start.clone()}
        kept = torch.empty(n_samples, target.size, dtype=start.dtype, device=start.device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            kernel.setup(self.n_burn)
            point = kernel.initial_params
            for step in loop.steps(name, total):
                point = kernel.sample(point)
                if step >= self.n_burn:
                    kept[step - self.n_burn] = point["theta"].detach()
                loop.show(accept=float(kernel._mean_accept_prob), step_size=float(kernel.step_size))
        if loop.done.get(name, 0) < total:
            return False
        state["samples"][chain] = kept
        state["accept"][chain] = float(kernel._mean_accept_prob)
        state["divergences"][chain] = len(kernel._divergences)
        state["gradients"] += calls
        loop.save()
        kernel.cleanup()
        return True
