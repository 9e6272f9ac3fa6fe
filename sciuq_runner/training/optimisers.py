"""Batched training: Adam on all members at once."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Generator, Tensor

from sciuq_runner.errors import RunError
from sciuq_runner.physics.expressions import REWRITE
from sciuq_runner.training.autodiff import MaybeCompiled, pick, repeat, value_and_grad
from sciuq_runner.training.loop import Loop

STEPS_PER_CALL = 10  # steps between two looks at the loss, and in one compiled call


@dataclass(frozen=True)
class AdamState:
    """Parameters ``[M, K]`` and the running moments of their gradients."""

    theta: Tensor
    first: Tensor
    second: Tensor
    count: Tensor


def adam(
    objective: Callable[..., Tensor],
    state: AdamState,
    rates: Tensor,
    *inputs: Tensor,
    betas: tuple[float, float] = (0.9, 0.999),
) -> tuple[AdamState, Tensor]:
    """``len(rates)`` Adam steps (Kingma & Ba 2015) on a per-member objective.

    ``objective(theta, *inputs)`` sees in step i the i-th entry of every input: random numbers or mini-batches.
    Our own rather than ``torch.optim.Adam``: the state is plain tensors that can be saved, and several steps can be
    compiled as one call.
    """
    beta1, beta2 = betas

    def step(
        i: int | Tensor, theta: Tensor, first: Tensor, second: Tensor, count: Tensor, _: Tensor
    ) -> tuple[Tensor, ...]:
        value, gradient = value_and_grad(objective, theta, *(pick(item, i) for item in inputs))
        count = count + 1
        first = torch.lerp(first, gradient, 1 - beta1)
        second = torch.lerp(second, gradient * gradient, 1 - beta2)
        rate = pick(rates, i) / (1 - beta1**count)
        theta = theta - rate * first / ((second / (1 - beta2**count)).sqrt() + 1e-8)
        return theta, first, second, count, value

    start = (state.theta, state.first, state.second, state.count, state.theta.new_zeros(len(state.theta)))
    *end, value = repeat(step, len(rates), start)
    return AdamState(*end), value


class Trainer:
    """Minimises a per-member objective; ``theta`` and the optimiser's moments are tracked by the loop.

    ``inputs(n)`` draws what ``n`` steps of the objective need beside theta. ``state`` may hold more tensors of the
    method's own, saved with the rest. ``undefined``, called like the objective, names quantities without a value there.
    """

    def __init__(
        self,
        objective: Callable[..., Tensor],
        theta: Tensor,
        generator: Generator,
        loop: Loop,
        compiled: bool = False,
        inputs: Callable[[int], tuple[Tensor, ...]] = lambda n: (),
        state: dict[str, Tensor] | None = None,
        undefined: Callable[..., Sequence[str]] = lambda *_: (),
    ) -> None:
        moments = {"first": torch.zeros_like(theta), "second": torch.zeros_like(theta), "count": theta.new_zeros(())}
        self.objective, self.loop, self.inputs, self.undefined = objective, loop, inputs, undefined
        self.state = loop.track({"theta": theta, **moments, **(state or {})}, generator)

        def update(
            theta: Tensor, first: Tensor, second: Tensor, count: Tensor, rates: Tensor, *inputs: Tensor
        ) -> tuple[Tensor, ...]:
            new, value = adam(objective, AdamState(theta, first, second, count), rates, *inputs)
            return new.theta, new.first, new.second, new.count, value

        self.update = MaybeCompiled(update, compiled)

    @property
    def theta(self) -> Tensor:
        return self.state["theta"]

    def steps(self, n_steps: int, rate: Callable[[int], float], pauses: Sequence[int] = ()) -> Iterator[int]:
        """Train with learning rates ``rate(step)``; yields the steps done, every few and at all ``pauses``."""
        for start in self.loop.steps("training", n_steps, STEPS_PER_CALL):
            stop = min(start + STEPS_PER_CALL, n_steps)
            edges = [start, *(pause for pause in pauses if start < pause < stop), stop]
            for begin, end in pairwise(edges):
                self.advance(begin, end - begin, rate)
                yield end

    def advance(self, start: int, count: int, rate: Callable[[int], float]) -> None:
        """Some steps of training."""
        rates = self.theta.new_tensor([rate(start + i) for i in range(count)])
        names = ("theta", "first", "second", "count")
        inputs = self.inputs(count)
        *new, value = self.update(*(self.state[name] for name in names), rates, *inputs)
        if start == 0 and not bool(torch.isfinite(value).all()):
            self.require_finite_start(*(item[0] for item in inputs))
        require_finite(value, start)  # before what led there takes the place of the last good numbers
        self.state.update(zip(names, new, strict=True))
        self.loop.show(loss=value.mean().item())

    @torch.no_grad()
    def require_finite_start(self, *inputs: Tensor) -> None:
        """Stop where the loss was no number before the first step, so that no learning rate would help."""
        if bool(torch.isfinite(self.objective(self.theta, *inputs)).all()):
            return
        names = " and ".join(self.undefined(self.theta, *inputs))
        advice = f", since {names} is not: " if names else ": try another seed or a larger noise scale, and "
        raise RunError(f"The loss is not a finite number where training starts{advice}{REWRITE}")

    def run(self, n_steps: int, rate: Callable[[int], float]) -> Tensor:
        """Train to the end and return theta."""
        for _ in self.steps(n_steps, rate):
            pass
        return self.theta


def cycle_ends(n_steps: int, n_cycles: int) -> list[int]:
    """Where each of ``n_cycles`` cycles of (nearly) equal length ends."""
    return [round((cycle + 1) * n_steps / n_cycles) for cycle in range(n_cycles)]


def cosine_cycles(n_steps: int, n_cycles: int, high: float, low: float) -> Callable[[int], float]:
    """Learning rates that fall from ``high`` to ``low`` along a half cosine in every cycle."""
    ends = cycle_ends(n_steps, n_cycles)

    def rate(step: int) -> float:
        cycle = bisect_right(ends, step)
        begin = ends[cycle - 1] if cycle else 0
        phase = (step - begin) / max(1, ends[min(cycle, n_cycles - 1)] - begin - 1)
        return low + 0.5 * (high - low) * (1 + math.cos(math.pi * min(1.0, phase)))

    return rate


def require_finite(loss: Tensor, step: int) -> None:
    """Stop a training whose numbers went wrong."""
    if not bool(torch.isfinite(loss).all()):
        member = int((~torch.isfinite(loss)).nonzero()[0])
        raise RunError(
            f"The loss of member {member} was no longer a finite number near training step {step}: "
            "try a smaller method.learning_rate."
        )
