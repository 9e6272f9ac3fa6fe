"""Value and gradient over a batch of members, in eager mode and compiled."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch._higher_order_ops import while_loop

from sciuq_runner.errors import first_line

log = logging.getLogger(__name__)

BatchedFunction = Callable[[Tensor], Tensor]
"""Maps ``theta[M, K]`` to one number per member, ``[M]``."""

CompileChoice = Literal["auto", "always", "never"]

WORTH_COMPILING = 15_000
"""Gradient evaluations from which compiling pays: some 10 s to compile against about 0.7 ms saved on each."""

OPTIONS: dict[str, str | int | bool | Callable[..., Any]] = {"cpp_wrapper": True}
"""Calls between kernels in C++ too: with small networks, Python would take longer than the arithmetic."""


def value_and_grad(function: BatchedFunction, theta: Tensor) -> tuple[Tensor, Tensor]:
    """Values ``[M]`` and gradients ``[M, K]``; members do not interact, so one backward pass serves all."""
    if torch.compiler.is_compiling():  # the tracer follows torch.func only; in eager that takes twice as long

        def total(point: Tensor) -> tuple[Tensor, Tensor]:
            value = function(point)
            return value.sum(), value

        gradient, (_, value) = torch.func.grad_and_value(total, has_aux=True)(theta)
        return value, gradient
    with torch.enable_grad():
        leaf = theta.detach().requires_grad_(True)
        value = function(leaf)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def repeat(step: Callable[..., tuple[Tensor, ...]], times: int, carry: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Apply ``step(i, *carry) -> carry`` for i = 0, 1, ... ``times - 1``; compiled, the loop runs without Python."""
    if torch.compiler.is_compiling():

        def body(i: Tensor, *carry: Tensor) -> tuple[Tensor, ...]:
            return i + 1, *step(i, *carry)

        _, *end = while_loop(lambda i, *_: i < times, body, (torch.zeros((), dtype=torch.int64), *carry))
        return tuple(end)
    for i in range(times):
        carry = step(i, *carry)
    return carry


def pick(items: Tensor, i: int | Tensor) -> Tensor:
    """``items[i]`` for the counter of :func:`repeat`."""
    return items[i] if isinstance(i, int) else items.index_select(0, i.reshape(1).to(items.device)).squeeze(0)


def worth_compiling(choice: CompileChoice, n_gradients: int) -> bool:
    """Decide by the amount of work alone, never by the clock, so that equal runs give equal numbers."""
    return choice == "always" or (choice == "auto" and n_gradients >= WORTH_COMPILING)


class MaybeCompiled:
    """A function that runs compiled where that was asked for and is possible, and in eager mode otherwise."""

    def __init__(self, function: Callable[..., Any], compiled: bool) -> None:
        self.eager = function
        if compiled:  # one code object serves all runs of a sweep, each with shapes of its own
            torch._dynamo.config.recompile_limit = 256
        self.call = torch.compile(function, fullgraph=True, dynamic=False, options=OPTIONS) if compiled else function
        self.compiled = compiled
        self.announced = False

    def __call__(self, *arguments: Any) -> Any:
        if not self.compiled:
            return self.eager(*arguments)
        if not self.announced:
            log.info("Compiling the inner loop (about ten seconds the first time, a few once cached).")
            self.announced = True
        try:  # every time, since other shapes are compiled anew
            return self.call(*arguments)
        except Exception as error:  # whatever the toolchain lacks, eager mode gives the same answer
            log.warning(
                "Compiling is not possible here (%s); going on in eager mode, which is slower.", first_line(error)
            )
            self.compiled = False
            return self.eager(*arguments)
