"""Stochastic gradient Langevin dynamics with cyclical step sizes (Welling & Teh 2011; Zhang et al. 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Generator, Tensor

from sciuq_runner.errors import RunError
from sciuq_runner.methods.base import Method
from sciuq_runner.methods.ld import cautious_step
from sciuq_runner.methods.posterior import Posterior, chain_posterior
from sciuq_runner.schema import Count, Fraction, Positive
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import value_and_grad
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import cosine_cycles


@dataclass(frozen=True)
class SGLD(Method):
    r"""Langevin dynamics whose gradient comes from a mini-batch S of the N observations,

    .. math::
        \theta^{(t+1)} = \theta^{(t)} + \frac{\epsilon_t}2 \Big[ \frac{N}{|S|} \sum_{i \in S} \nabla \log p(u_i \mid
        \theta^{(t)}) + \nabla \log p(\theta^{(t)}) \Big] + \sqrt{\epsilon_t}\, n.

    In each of ``n_cycles`` the step size falls from ``step_size`` to ``final_step_size`` along a half cosine, and only
    the last ``sampled_share`` of a cycle is sampled; with 1 cycle and equal step sizes it is constant. ``batch_size``
    null uses all observations. Learned scales move with theta, as logarithms. Without a ``step_size``, it is
    :func:`cautious_step`, and without a ``final_step_size`` a tenth of it.
    """

    n_chains: Count = 4
    n_burn: Annotated[int, Ge(0)] = 5000
    n_steps: Count = 10_000
    n_samples: Count = 1000
    batch_size: Count | None = 16
    step_size: Positive | None = None
    final_step_size: Positive | None = None
    n_cycles: Count = 4
    sampled_share: Fraction = 0.5

    def __post_init__(self) -> None:
        if len(self.sampled_steps()) < math.ceil(self.n_samples / self.n_chains):
            raise ValueError(
                f"n_samples={self.n_samples} is more than n_steps={self.n_steps} can give: take more steps."
            )

    def sampled_steps(self) -> list[int]:
        """The steps of the sampling phase in whose part of a cycle samples are taken."""
        length = self.n_steps / self.n_cycles
        return [step for step in range(self.n_steps) if (step % length) / length >= 1 - self.sampled_share]

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        per_chain = math.ceil(self.n_samples / self.n_chains)
        allowed = self.sampled_steps()
        chosen = {allowed[round((i + 1) * len(allowed) / per_chain) - 1]: i for i in range(per_chain)}
        theta = target.init_chains(self.n_chains, generator, self.batch_size)
        samples = theta.new_zeros(per_chain, *theta.shape)
        state = loop.track({"theta": theta, "velocity": torch.zeros_like(theta), "samples": samples}, generator)
        first = self.step_size or self.cautious_step(target, theta)
        rate = cosine_cycles(self.n_steps, self.n_cycles, first, self.final_step_size or 0.1 * first)

        def step(size: float) -> None:
            value, gradient = self.gradient(target, state["theta"], generator)
            state["theta"], state["velocity"] = self.update(state, gradient, size, generator)
            if not bool(torch.isfinite(state["theta"]).all()):
                raise RunError("A chain left the finite numbers: try a smaller method.step_size.")
            loop.show(log_density=value.mean().item(), step_size=size)

        for _ in loop.steps("burn-in", self.n_burn):
            step(first)
        for count in loop.steps("sampling", self.n_steps):
            step(rate(count))
            if count in chosen:
                state["samples"][chosen[count]] = state["theta"]
        taken = sum(step < loop.done.get("sampling", 0) for step in chosen)
        state["samples"] = state["samples"][:taken]
        return chain_posterior(state, loop, self.n_chains)

    def cautious_step(self, target: Target, theta: Tensor) -> float:
        """That of a mini-batch where there are such, with random numbers of its own."""
        batch = None if self.batch_size is None else target.batches.draw(self.batch_size, Generator().manual_seed(0))
        return cautious_step(lambda at: target.log_density(at, batch), theta)

    def gradient(self, target: Target, theta: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Stochastic log density and gradient of every chain."""
        batch = None if self.batch_size is None else target.batches.draw(self.batch_size, generator)
        return value_and_grad(lambda point: target.log_density(point, batch), theta)

    def update(
        self, state: dict[str, Tensor], gradient: Tensor, size: float, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """One step of all chains."""
        normal = torch.randn(gradient.shape, generator=generator, dtype=gradient.dtype).to(gradient.device)
        return state["theta"] + 0.5 * size * gradient + math.sqrt(size) * normal, state["velocity"]
