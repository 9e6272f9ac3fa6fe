"""Langevin dynamics (Appendix B.2.1 of the paper), unadjusted or with Metropolis correction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Generator, Tensor

from sciuq_runner.errors import RunError
from sciuq_runner.loop import Loop
from sciuq_runner.methods.base import Method, Posterior, chain_posterior
from sciuq_runner.methods.hmc import HMC, Chains, State
from sciuq_runner.schema import Count, Fraction, Positive
from sciuq_runner.target import Target


@dataclass(frozen=True)
class LD(Method):
    r"""The discretised Langevin equation

    .. math::
        \theta^{(t+1)} = \theta^{(t)} + \frac\epsilon2 \nabla \log p(\theta^{(t)} \mid D) + \sqrt\epsilon\, n,
        \qquad n \sim \mathcal N(0, I).

    Without correction the samples carry a bias that vanishes with ``step_size``. ``adjusted`` accepts or rejects every
    step (Metropolis-adjusted Langevin, which is HMC with one leapfrog step) with a step size adapted in burn-in
    towards ``target_accept``, and has none. Learned scales are drawn from their conditionals after every step.
    """

    draws_priors: ClassVar[bool] = True

    n_chains: Count = 4
    n_burn: Annotated[int, Ge(0)] = 5000
    n_samples: Count = 1000
    thin: Count = 1
    step_size: Positive = 1e-4
    adjusted: bool = False
    target_accept: Fraction = 0.57

    def refuse(self, target: Target) -> str | None:
        if target.size > target.n_weights and not target.scales_are_conjugate:
            return "method=ld draws a learned noise scale under a Gaussian likelihood only: use method=hmc."
        return None

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        if self.adjusted:
            return self.corrected().run(target, generator, loop)
        per_chain = math.ceil(self.n_samples / self.n_chains)
        chains = Chains(target, 1, compiled=False, gibbs=target.size > target.n_weights)
        start = chains.init(target.init(self.n_chains, generator))
        samples = {"samples": start.theta.new_zeros(per_chain, *start.theta.shape)}
        state = loop.track({**start.tensors(), **samples}, generator)

        def step() -> None:
            theta = langevin_step(State.of(state), self.step_size, generator)
            if chains.gibbs:
                weights = theta[:, : target.n_weights]
                theta = target.draw_scales(torch.cat([weights, state["theta"][:, target.n_weights :]], 1), generator)
            if not bool(torch.isfinite(theta).all()):
                raise RunError("A chain of Langevin dynamics left the finite numbers: try a smaller method.step_size.")
            try:
                state.update(chains.init(theta).tensors())
            except RunError as error:
                raise RunError("A chain of Langevin dynamics ran away: try a smaller method.step_size.") from error
            loop.show(log_density=state["log_density"].mean().item())

        for _ in loop.steps("burn-in", self.n_burn):
            step()
        for count in loop.steps("sampling", per_chain * self.thin):
            step()
            if (count + 1) % self.thin == 0:
                state["samples"][count // self.thin] = state["theta"]
        return chain_posterior(state, loop, self.n_chains, self.thin)

    def corrected(self) -> HMC:
        """The same dynamics with acceptance: a leapfrog step of size h is a Langevin step with epsilon = h^2."""
        return HMC(
            n_chains=self.n_chains,
            n_burn=self.n_burn,
            n_samples=self.n_samples,
            thin=self.thin,
            n_leapfrog=1,
            step_size=math.sqrt(self.step_size),
            target_accept=self.target_accept,
            jitter=0.0,
        )


def langevin_step(state: State, step_size: float, generator: Generator) -> Tensor:
    """One step of every chain."""
    normal = torch.randn(state.theta.shape, generator=generator, dtype=state.theta.dtype).to(state.theta.device)
    return state.theta + 0.5 * step_size * state.gradient + math.sqrt(step_size) * normal
