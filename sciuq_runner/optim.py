"""Batched training: Adam on all members at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sciuq_runner.autodiff import BatchedFunction, MaybeCompiled, value_and_grad
from sciuq_runner.errors import RunError
from sciuq_runner.loop import Loop

STRIDE = 10  # steps between two looks at the loss, and in one compiled call


@dataclass(frozen=True)
class AdamState:
    """Parameters ``[M, K]`` and the running moments of their gradients."""

    theta: Tensor
    first: Tensor
    second: Tensor
    count: Tensor


def adam(
    objective: BatchedFunction, state: AdamState, rates: Tensor, betas: tuple[float, float] = (0.9, 0.999)
) -> tuple[AdamState, Tensor]:
    """``len(rates)`` Adam steps (Kingma & Ba 2015) on a per-member objective.

    Our own rather than ``torch.optim.Adam``: the state is plain tensors that can be saved, and several steps
    can be compiled as one call.
    """
    theta, first, second, count = state.theta, state.first, state.second, state.count
    beta1, beta2 = betas
    value = theta.new_zeros(theta.shape[0])
    for rate in rates:
        value, gradient = value_and_grad(objective, theta)
        count = count + 1
        first = torch.lerp(first, gradient, 1 - beta1)
        second = torch.lerp(second, gradient * gradient, 1 - beta2)
        step = rate / (1 - beta1**count)
        theta = theta - step * first / ((second / (1 - beta2**count)).sqrt() + 1e-8)
    return AdamState(theta, first, second, count), value


def train(
    objective: BatchedFunction,
    theta: Tensor,
    n_steps: int,
    rate: Callable[[int], float],
    loop: Loop,
    compiled: bool = False,
) -> Tensor:
    """Minimise a per-member objective from ``theta[M, K]`` with learning rates ``rate(step)``."""

    def steps(theta: Tensor, first: Tensor, second: Tensor, count: Tensor, rates: Tensor) -> tuple[Tensor, ...]:
        new, value = adam(objective, AdamState(theta, first, second, count), rates)
        return new.theta, new.first, new.second, new.count, value

    update = MaybeCompiled(steps, compiled)
    first, second, count = torch.zeros_like(theta), torch.zeros_like(theta), theta.new_zeros(())
    for start in loop.steps("training", n_steps, STRIDE):
        rates = theta.new_tensor([rate(step) for step in range(start, min(start + STRIDE, n_steps))])
        theta, first, second, count, value = update(theta, first, second, count, rates)
        require_finite(value, start)
        loop.show(loss=value.mean().item())
    return theta


def require_finite(loss: Tensor, step: int) -> None:
    """Stop a training whose numbers went wrong."""
    if not bool(torch.isfinite(loss).all()):
        member = int((~torch.isfinite(loss)).nonzero()[0])
        raise RunError(
            f"The loss of member {member} was no longer a finite number near training step {step}: "
            "try a smaller method.learning_rate."
        )
