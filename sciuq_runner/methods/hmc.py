"""Hamiltonian Monte Carlo with batched chains (Appendix B.2.1 of the paper; Neal 2012)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Interval
from torch import Generator, Tensor

from sciuq_runner.methods.base import Method
from sciuq_runner.methods.posterior import Posterior, chain_posterior
from sciuq_runner.models.base import InferenceKind
from sciuq_runner.schema import Count, Fraction, Positive
from sciuq_runner.target.density import Target, no_start
from sciuq_runner.training.autodiff import (
    BatchedFunction,
    CompileChoice,
    InPieces,
    MaybeCompiled,
    repeat,
    value_and_grad,
    worth_compiling,
)
from sciuq_runner.training.loop import Loop

UNROLL, WORTH_UNROLLING = 7, 1_000_000
"""Leapfrog steps in one pass of the compiled loop, and the gradients of a single chain from which that pays: some
ten seconds more to compile against 10 us saved on each. Several chains have arithmetic enough in every step."""

LOG_SCALE_FACTOR = 4.0
"""Positions hold the logarithm of a learned prior scale times this, which gives it a mass of 16: all predictions change
along it, so that it is stiffer than the directions of single weights."""

DIVERGENCE = 1000.0  # energy error beyond which a trajectory has left the level set, as in Stan and Pyro


@dataclass(frozen=True)
class HMC(Method):
    r"""Samples :math:`p(\theta \mid D)` by simulating :math:`H(\theta, m) = -\log p(\theta \mid D) + \|m\|^2/2`.

    One transition draws :math:`m \sim \mathcal N(0, I)`, makes ``n_leapfrog`` steps

    .. math::
        m \leftarrow m + \tfrac\epsilon2 \nabla \log p, \quad \theta \leftarrow \theta + \epsilon m, \quad
        m \leftarrow m + \tfrac\epsilon2 \nabla \log p

    and accepts the end with probability :math:`\min(1, e^{-\Delta H})`. All chains advance in one batch with
    one step size, adapted by dual averaging during burn-in towards ``target_accept`` and fixed afterwards.
    ``n_samples`` in all are kept, the same number from every chain (rounded up), with ``thin`` transitions between two.
    ``jitter`` draws each trajectory's step size from :math:`\epsilon (1 \pm \text{jitter})`. It breaks the
    resonance of a fixed length with the periods of a nearly Gaussian posterior, and frees chains from places
    so stiff that the common step is too long there. Learned noise and prior scales are drawn from their
    inverse-Gamma conditionals after every transition (``scales=gibbs``), or move with theta (``joint``).

    Given its weights, the scale :math:`\sigma` of a prior of thousands of them is all but certain, and draws from that
    distribution alone take thousands of transitions to get anywhere. Where it is learned, trajectories therefore move
    :math:`z = \theta/\sigma` and :math:`\log\sigma`, with ``gibbs`` in turn with its draws (interweaving, Yu and Meng
    2011).
    """

    inferences: ClassVar[Sequence[InferenceKind]] = ("likelihood", "prior")

    n_chains: Count = 4
    n_burn: Annotated[int, Ge(0)] = 1000
    n_samples: Count = 1000
    thin: Count = 4
    n_leapfrog: Count = 50
    step_size: Positive = 0.1
    target_accept: Fraction = 0.6
    jitter: Annotated[float, Interval(ge=0, lt=1)] = 0.3
    scales: Literal["gibbs", "joint"] = "gibbs"
    compile: CompileChoice = "auto"

    def objection(self, target: Target) -> str | None:
        if self.gibbs(target) and not target.scales_are_conjugate:
            return "method.scales=gibbs needs a Gaussian likelihood to draw a learned noise scale: use joint."
        return None

    def gibbs(self, target: Target) -> bool:
        """Whether learned scales are drawn from their conditional distributions rather than moved with theta."""
        return self.scales == "gibbs" and target.size > target.n_weights

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        per_chain = math.ceil(self.n_samples / self.n_chains)
        n_gradients = (self.n_burn + per_chain * self.thin) * self.n_leapfrog
        compiled = worth_compiling(self.compile, n_gradients)
        pieces = target.batches.pieces(self.n_chains)
        unroll = UNROLL if self.n_chains == 1 and not pieces and n_gradients >= WORTH_UNROLLING else 1
        chains = Chains(target, self.n_leapfrog, compiled, self.gibbs(target), unroll, pieces)
        start = chains.init(target.init(self.n_chains, generator))
        scalars = {name: torch.zeros((), dtype=torch.float64) for name in ("accept", "divergences")}
        state = loop.track(
            {
                **start.tensors(),
                **scalars,
                "adaptation": DualAveraging.start(self.step_size).tensor(),
                "samples": start.position.new_zeros(per_chain, *start.position.shape),
            },
            generator,
        )

        for _ in loop.steps("burn-in", self.n_burn):
            adaptation = DualAveraging.of(state["adaptation"])
            new, info = chains.advance(State.of(state), self.jittered(adaptation.step_size, generator), generator)
            accept = info.accept_prob.mean().item()
            state.update(new.tensors(), adaptation=adaptation.update(self.target_accept - accept).tensor())
            loop.show(accept=accept, step_size=adaptation.step_size)

        adapted = DualAveraging.of(state["adaptation"])
        step_size = adapted.averaged_step_size if self.n_burn else self.step_size
        for count in loop.steps("sampling", per_chain * self.thin):
            new, info = chains.advance(State.of(state), self.jittered(step_size, generator), generator)
            state.update(new.tensors())
            if (count + 1) % self.thin == 0:
                state["samples"][count // self.thin] = chains.original(new.position)
            state["accept"] = state["accept"] + (info.accept_prob.cpu().double().mean() - state["accept"]) / (count + 1)
            state["divergences"] = state["divergences"] + info.diverged.sum().cpu()
            loop.show(accept=state["accept"].item(), step_size=step_size)

        sampled = loop.done.get("sampling", 0)
        ends = {**state, "theta": chains.original(state["position"])}
        posterior = chain_posterior(ends, loop, self.n_chains, self.thin)
        posterior.gradient_evaluations *= self.n_leapfrog + chains.gibbs
        if sampled >= self.thin:
            accept, divergences = state["accept"].item(), int(state["divergences"])
            posterior.diagnostics = {
                "accept_rate": accept,
                "step_size": step_size,
                "divergences": float(divergences),
            }
            posterior.warnings = self.warnings(accept, divergences, sampled * self.n_chains)
        return posterior

    def jittered(self, step_size: float, generator: Generator) -> float:
        """The step size of one trajectory."""
        if not self.jitter:
            return step_size
        uniform = torch.rand((), generator=generator, dtype=torch.float64).item()
        return step_size * (1 + self.jitter * (2 * uniform - 1))

    def warnings(self, accept: float, divergences: int, n_trajectories: int) -> list[str]:
        """What the person who started the chains should know, in plain words."""
        found = []
        if accept < 0.3:
            found.append(f"Only {accept:.0%} of the proposals were accepted: try more method.n_burn.")
        if divergences > 0.1 * n_trajectories:
            found.append(
                f"{divergences / n_trajectories:.0%} of the trajectories diverged and were rejected: the step is too "
                "long for parts of the posterior; a higher method.target_accept, 0.8 or 0.9, makes it smaller."
            )
        return found


@dataclass(frozen=True)
class State:
    """What the next transition needs: position in the coordinates of :class:`Chains`, log density and gradient of every
    chain."""

    position: Tensor
    log_density: Tensor
    gradient: Tensor

    def tensors(self) -> dict[str, Tensor]:
        return {"position": self.position, "log_density": self.log_density, "gradient": self.gradient}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> State:
        return cls(tensors["position"], tensors["log_density"], tensors["gradient"])


@dataclass(frozen=True)
class Info:
    """What is merely interesting about a transition, per chain."""

    accept_prob: Tensor
    diverged: Tensor


class Chains:
    r"""HMC transitions, followed by Gibbs draws of the learned scales where these are wanted.

    Positions are theta itself or, where the scale :math:`\sigma` of n weights is learned, :math:`z = \theta/\sigma`
    and ``LOG_SCALE_FACTOR`` times :math:`\log\sigma`, whose density has the factor :math:`\sigma^n`.
    """

    def __init__(
        self,
        target: Target,
        n_leapfrog: int,
        compiled: bool,
        gibbs: bool,
        unroll: int = 1,
        pieces: tuple[Tensor, ...] = (),
    ) -> None:
        self.target, self.gibbs = target, gibbs
        self.n_scaled = target.n_weights - target.model.n_scalars if target.learns_prior else 0
        drawn = slice(target.n_weights, target.n_weights + len(target.noise_groups))
        self.fixed = drawn if gibbs else slice(0, 0)
        self.transition = Transition(InPieces(self.log_density, pieces), n_leapfrog, compiled, unroll)

    def position(self, theta: Tensor) -> Tensor:
        """Theta in the coordinates of trajectories."""
        if not self.n_scaled:
            return theta
        n, log_scale = self.n_scaled, theta[:, -1:]
        return torch.cat([theta[:, :n] * torch.exp(-log_scale), theta[:, n:-1], LOG_SCALE_FACTOR * log_scale], dim=1)

    def original(self, position: Tensor) -> Tensor:
        """Theta itself."""
        if not self.n_scaled:
            return position
        n, log_scale = self.n_scaled, position[:, -1:] / LOG_SCALE_FACTOR
        return torch.cat([position[:, :n] * torch.exp(log_scale), position[:, n:-1], log_scale], dim=1)

    def log_density(self, position: Tensor, *picks: Tensor) -> Tensor:
        """That of positions; scales that are drawn do not move."""
        first, last = self.fixed.start, self.fixed.stop
        if last > first:
            position = torch.cat([position[:, :first], position[:, self.fixed].detach(), position[:, last:]], dim=1)
        value = self.target.log_density(self.original(position), self.target.batches.unpack(picks))
        return value + self.n_scaled / LOG_SCALE_FACTOR * position[:, -1] if self.n_scaled else value

    def init(self, theta: Tensor) -> State:
        return init(self.log_density, self.position(theta), lambda: self.target.undefined(theta))

    def advance(self, state: State, step_size: float, generator: Generator) -> tuple[State, Info]:
        """One transition of all chains."""
        state, info = self.transition(state, step_size, generator, self.fixed)
        if self.gibbs:
            state = self.init(self.target.draw_scales(self.original(state.position), generator))
        return state, info


def init(log_density: BatchedFunction, theta: Tensor, undefined: Callable[[], Sequence[str]] = tuple) -> State:
    """The state of chains that start at ``theta[C, K]``; ``undefined`` names quantities that have no value there."""
    value, gradient = value_and_grad(log_density, theta)
    if not bool(torch.isfinite(value).all()):
        raise no_start(value, undefined())
    return State(theta, value, gradient)


class Transition:
    """One Metropolis-corrected trajectory of ``n_steps`` leapfrog steps of every chain; compiled, one call."""

    def __init__(self, log_density: BatchedFunction, n_steps: int, compiled: bool, unroll: int = 1) -> None:
        self.call = MaybeCompiled(partial(transition, log_density, n_steps, unroll), compiled)

    def __call__(
        self, state: State, step_size: float, generator: Generator, fixed: slice = slice(0, 0)
    ) -> tuple[State, Info]:
        """Advance over all entries of theta but those that are ``fixed``."""
        theta = state.position
        momentum = torch.randn(theta.shape, generator=generator, dtype=theta.dtype).to(theta.device)
        momentum[:, fixed] = 0
        uniform = torch.rand(len(theta), generator=generator, dtype=theta.dtype).to(theta.device)
        members = (theta, state.log_density, state.gradient, momentum, uniform)
        *new, accept_prob, diverged = self.call.over_members(members, theta.new_tensor(step_size))
        return State(*new), Info(accept_prob, diverged)


def transition(
    log_density: BatchedFunction,
    n_steps: int,
    unroll: int,
    theta: Tensor,
    value: Tensor,
    gradient: Tensor,
    momentum: Tensor,
    uniform: Tensor,
    step_size: Tensor,
) -> tuple[Tensor, ...]:
    """The next theta, log density and gradient, the probability of acceptance, and whether the trajectory diverged."""
    end, final, end_value, end_gradient = leapfrog(log_density, n_steps, theta, momentum, gradient, step_size, unroll)
    energy_error = (
        (value - 0.5 * momentum.square().sum(1))
        - (end_value - 0.5 * final.square().sum(1))
    ).nan_to_num(nan=math.inf)  # fmt: skip
    accept_prob = torch.exp(-energy_error.clamp(min=0))
    accepted = uniform < accept_prob
    return (
        torch.where(accepted[:, None], end, theta),
        torch.where(accepted, end_value, value),
        torch.where(accepted[:, None], end_gradient, gradient),
        accept_prob,
        energy_error > DIVERGENCE,
    )


def leapfrog(
    log_density: BatchedFunction,
    n_steps: int,
    theta: Tensor,
    momentum: Tensor,
    gradient: Tensor,
    step_size: Tensor,
    unroll: int = 1,
) -> tuple[Tensor, ...]:
    """Theta, momentum, log density and gradient after ``n_steps`` leapfrog steps of every chain.

    The half kicks of the momentum between two steps are made as one, and only the last step is asked for the density.
    """

    def step(_: object, theta: Tensor, momentum: Tensor) -> tuple[Tensor, ...]:
        theta = theta + step_size * momentum
        _, gradient = value_and_grad(log_density, theta)
        return theta, momentum + step_size * gradient

    momentum = momentum + 0.5 * step_size * gradient
    if n_steps > 1:
        theta, momentum = repeat(step, n_steps - 1, (theta, momentum), math.gcd(unroll, n_steps - 1))
    theta = theta + step_size * momentum
    value, gradient = value_and_grad(log_density, theta)
    return theta, momentum + 0.5 * step_size * gradient, value, gradient


@dataclass(frozen=True)
class DualAveraging:
    """Step-size adaptation (Hoffman & Gelman 2014, Section 3.2); our own, so that it is a value to be saved."""

    centre: float
    log_step: float
    log_averaged: float = 0.0
    error_sum: float = 0.0
    count: int = 0

    def tensor(self) -> Tensor:
        """As numbers in a row, for a checkpoint."""
        return torch.tensor(dataclasses.astuple(self), dtype=torch.float64)

    @classmethod
    def of(cls, tensor: Tensor) -> DualAveraging:
        centre, log_step, log_averaged, error_sum, count = tensor.tolist()
        return cls(centre, log_step, log_averaged, error_sum, int(count))

    @classmethod
    def start(cls, step_size: float) -> DualAveraging:
        return cls(centre=math.log(10 * step_size), log_step=math.log(step_size))

    @property
    def step_size(self) -> float:
        return math.exp(self.log_step)

    @property
    def averaged_step_size(self) -> float:
        return math.exp(self.log_averaged)

    def update(self, error: float, gamma: float = 0.05, t0: float = 10.0, kappa: float = 0.75) -> DualAveraging:
        """Take in one ``error`` = wanted minus observed acceptance."""
        count = self.count + 1
        weight = 1 / (count + t0)
        mean = (1 - weight) * self.error_sum + weight * error
        log_step = self.centre - math.sqrt(count) / gamma * mean
        decay = count**-kappa
        return DualAveraging(self.centre, log_step, decay * log_step + (1 - decay) * self.log_averaged, mean, count)
