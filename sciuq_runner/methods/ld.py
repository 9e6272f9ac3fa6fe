"""Langevin dynamics (Appendix B.2.1 of the paper), unadjusted or with Metropolis correction."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Generator, Tensor

from sciuq_runner.errors import RunError
from sciuq_runner.methods.base import Method
from sciuq_runner.methods.hmc import HMC
from sciuq_runner.methods.posterior import Posterior, chain_posterior
from sciuq_runner.models.base import InferenceKind
from sciuq_runner.schema import Count, Fraction, Positive
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import (
    BatchedFunction,
    CompileChoice,
    InPieces,
    MaybeCompiled,
    pick,
    repeat,
    value_and_grad,
    worth_compiling,
)
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import STEPS_PER_CALL

log = logging.getLogger(__name__)

FIRST_STEP = 1e-4
"""Where a step size that adapts begins."""


@dataclass(frozen=True)
class LD(Method):
    r"""The discretised Langevin equation

    .. math::
        \theta^{(t+1)} = \theta^{(t)} + \frac\epsilon2 \nabla \log p(\theta^{(t)} \mid D) + \sqrt\epsilon\, n,
        \qquad n \sim \mathcal N(0, I).

    Without correction the samples carry a bias that vanishes with ``step_size``. ``adjusted`` accepts or rejects every
    step (Metropolis-adjusted Langevin, which is HMC with one leapfrog step) with a step size adapted in burn-in
    towards ``target_accept``, and has none. Learned scales are drawn from their conditionals after every step; with
    ``adjusted`` that of the prior moves as in HMC too. Without a ``step_size``, it is :func:`cautious_step`.
    """

    inferences: ClassVar[Sequence[InferenceKind]] = ("likelihood", "prior")

    n_chains: Count = 4
    n_burn: Annotated[int, Ge(0)] = 5000
    n_samples: Count = 1000
    thin: Count = 10
    step_size: Positive | None = None
    adjusted: bool = False
    target_accept: Fraction = 0.57
    compile: CompileChoice = "auto"

    def objection(self, target: Target) -> str | None:
        if target.size > target.n_weights and not target.scales_are_conjugate:
            return "method=ld draws a learned noise scale under a Gaussian likelihood only: use method=hmc."
        return None

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        if self.adjusted:
            return self.corrected().run(target, generator, loop)
        per_chain = math.ceil(self.n_samples / self.n_chains)
        theta, learns = target.init_chains(self.n_chains, generator), target.size > target.n_weights
        samples = theta.new_zeros(per_chain, *theta.shape)
        state = loop.track({"theta": theta, "samples": samples}, generator)
        compiled = not learns and worth_compiling(self.compile, self.n_burn + per_chain * self.thin)
        batches = target.batches
        log_density = InPieces(
            lambda at, *picks: target.log_density(at, batches.unpack(picks)), batches.pieces(self.n_chains)
        )
        step_size = self.step_size or cautious_step(target.log_density, theta)
        move = MaybeCompiled(partial(langevin, log_density, target.n_weights, step_size), compiled)
        burn, stride = (1, 1) if learns else (STEPS_PER_CALL, self.thin)  # scales are drawn after every step

        def advance(count: int) -> None:
            normal = torch.randn(count, *theta.shape, generator=generator, dtype=theta.dtype).to(theta.device)
            moved, value = move(state["theta"], normal)
            if learns:
                moved = target.draw_scales(moved, generator)
            if not bool(torch.isfinite(moved).all() and torch.isfinite(value).all()):
                raise RunError("A chain of Langevin dynamics ran away: try a smaller method.step_size.")
            state["theta"] = moved
            loop.show(log_density=value.mean().item())

        for done in loop.steps("burn-in", self.n_burn, burn):
            advance(min(burn, self.n_burn - done))
        for done in loop.steps("sampling", per_chain * self.thin, stride):
            advance(stride)
            if (done + stride) % self.thin == 0:
                state["samples"][done // self.thin] = state["theta"]
        return chain_posterior(state, loop, self.n_chains, self.thin)

    def corrected(self) -> HMC:
        """The same dynamics with acceptance: a leapfrog step of size h is a Langevin step with epsilon = h^2."""
        return HMC(
            n_chains=self.n_chains,
            n_burn=self.n_burn,
            n_samples=self.n_samples,
            thin=self.thin,
            n_leapfrog=1,
            step_size=math.sqrt(self.step_size or FIRST_STEP),
            target_accept=self.target_accept,
            jitter=0.0,
            compile=self.compile,
        )


def cautious_step(log_density: BatchedFunction, theta: Tensor) -> float:
    r"""A tenth of the longest step at which Langevin dynamics is stable where chains start.

    Along a direction of curvature :math:`\lambda` a step multiplies distances by :math:`1 - \epsilon \lambda / 2`, so
    that :math:`\epsilon < 4 / \lambda` for the largest one. Curvatures grow on the way: hence the tenth, with which the
    variance of a Gaussian in its narrowest direction is a ninth too large.
    """
    step = 0.4 / largest_curvature(log_density, theta)
    if not math.isfinite(step):
        raise RunError("No step size can be found where the chains start: give method.step_size.")
    log.info("Steps of size %.2g, a tenth of what the curvature where chains start allows (method.step_size).", step)
    return step


def largest_curvature(log_density: BatchedFunction, theta: Tensor, n_iterations: int = 30) -> float:
    """The largest eigenvalue, in size, of the Hessian of the log density over all chains, by power iteration."""
    with torch.enable_grad():
        leaf = theta.detach().requires_grad_(True)
        (gradient,) = torch.autograd.grad(log_density(leaf).sum(), leaf, create_graph=True)
        vector = torch.randn(theta.shape, generator=Generator().manual_seed(0)).to(theta)
        for _ in range(n_iterations):
            vector = vector / vector.norm(dim=1, keepdim=True)
            (vector,) = torch.autograd.grad(gradient, leaf, vector, retain_graph=True)
    return float(vector.norm(dim=1).max())


def langevin(
    log_density: BatchedFunction, n: int, step_size: float, theta: Tensor, normal: Tensor
) -> tuple[Tensor, Tensor]:
    """One step of the first ``n`` entries of every chain for each row of ``normal[T, C, K]``, learned scales staying as
    they are; the new states and the log density before the last step."""

    def step(i: int | Tensor, theta: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        value, gradient = value_and_grad(log_density, theta)
        moved = theta + 0.5 * step_size * gradient + math.sqrt(step_size) * pick(normal, i)
        return torch.cat([moved[:, :n], theta[:, n:]], dim=1), value

    new, value = repeat(step, len(normal), (theta, theta.new_zeros(len(theta))))
    return new, value
