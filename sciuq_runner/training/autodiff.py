"""Value and gradient over a batch of members, in eager mode and compiled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch._higher_order_ops import while_loop

from sciuq_runner.errors import first_line

log = logging.getLogger(__name__)

BatchedFunction = Callable[..., Tensor]
"""Maps ``theta[M, K]``, and what else it needs, to one number per member, ``[M]``."""

CompileChoice = Literal["auto", "always", "never"]

WORTH_COMPILING = 15_000
"""Gradient evaluations from which compiling pays: some 10 s to compile against about 0.7 ms saved on each."""

COMPILE_OPTIONS: dict[str, str | int | bool | Callable[..., Any]] = {"cpp_wrapper": True}
"""Calls between kernels in C++ too: with small networks, Python would take longer than the arithmetic."""


@dataclass(frozen=True)
class InPieces:
    r"""A function that is a mean over parts of the observations, :math:`f = \frac1n \sum_i f_i`.

    ``function(theta, *inputs)`` is f, and with the picks of a mini-batch behind its inputs :math:`f_i`. ``pieces`` are
    the picks of all: a row of every tensor for each i, or no tensors where f is best taken as a whole.
    """

    function: BatchedFunction
    pieces: tuple[Tensor, ...]

    def __call__(self, theta: Tensor, *inputs: Tensor) -> Tensor:
        return self.function(theta, *inputs)


def value_and_grad(function: BatchedFunction, theta: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Values ``[M]`` and gradients by theta ``[M, K]``; members do not interact, so one backward pass serves all.

    Compiled, a function in pieces is differentiated piece by piece: what one holds between its two sweeps stays in the
    caches, which takes up to half the time. In eager mode that would not pay.
    """
    if torch.compiler.is_compiling():
        if isinstance(function, InPieces) and function.pieces:
            return mean_over_pieces(function, theta, *inputs)
        return traced(function, theta, *inputs)
    with torch.enable_grad():
        leaf = theta.detach().requires_grad_(True)
        value = function(leaf, *inputs)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def traced(function: BatchedFunction, theta: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Value and gradient by torch.func: all that the tracer follows, while in eager mode it takes twice as long."""

    def total(point: Tensor) -> tuple[Tensor, Tensor]:
        value = function(point, *inputs)
        return value.sum(), value

    gradient, (_, value) = torch.func.grad_and_value(total, has_aux=True)(theta)
    return value, gradient


def mean_over_pieces(function: InPieces, theta: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Value and gradient of a mean, one piece after another."""
    count = len(function.pieces[0])

    def step(i: int | Tensor, value: Tensor, gradient: Tensor) -> tuple[Tensor, ...]:
        new_value, new_gradient = traced(function, theta, *inputs, *(pick(rows, i) for rows in function.pieces))
        return value + new_value / count, gradient + new_gradient / count

    value, gradient = repeat(step, count, (theta.new_zeros(len(theta)), torch.zeros_like(theta)))
    return value, gradient


def repeat(
    step: Callable[..., tuple[Tensor, ...]], times: int, carry: tuple[Tensor, ...], unroll: int = 1
) -> tuple[Tensor, ...]:
    """Apply ``step(i, *carry) -> carry`` for i = 0, 1, ... ``times - 1``; compiled, the loop runs without Python.

    With ``unroll``, a divisor of ``times``, the compiled loop makes that many steps in one pass, which takes longer to
    compile and saves what a pass costs beside its arithmetic: a fifth of the time of a small network.
    """
    if torch.compiler.is_compiling():

        def body(i: Tensor, *carry: Tensor) -> tuple[Tensor, ...]:
            for _ in range(unroll):
                carry = step(i, *carry)
                i = i + 1
            return i, *carry

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


class Workers:
    """Threads that share out the members of a batch; a compiled call holds no lock of Python's while it computes."""

    def __init__(self) -> None:
        self.count = 1
        self.pool: ThreadPoolExecutor | None = None

    def set(self, count: int) -> None:
        """How many threads there may be, the calling one included."""
        if self.pool is not None and count != self.count:
            self.pool.shutdown()
            self.pool = None
        self.count = count

    def map(self, call: Callable[..., Any], parts: Sequence[tuple[Any, ...]]) -> list[Any]:
        """``call(*part)`` for all parts at once, the first of them here."""
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.count - 1, "members", lambda: torch.set_num_threads(1))
        others = [self.pool.submit(call, *part) for part in parts[1:]]
        return [call(*parts[0]), *(other.result() for other in others)]


workers = Workers()


class MaybeCompiled:
    """A function that runs compiled where that was asked for and is possible, and in eager mode otherwise."""

    def __init__(self, function: Callable[..., Any], compiled: bool) -> None:
        self.eager = function
        if compiled:  # one code object serves all runs of a sweep, each with shapes of its own
            torch._dynamo.config.recompile_limit = 256
        self.call = (
            torch.compile(function, fullgraph=True, dynamic=False, options=COMPILE_OPTIONS) if compiled else function
        )
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

    def over_members(self, members: Sequence[Tensor], *shared: Any) -> tuple[Tensor, ...]:
        """The call with ``members`` in front, whose leading dimension, and that of all results, counts them.

        Compiled, they are shared out evenly over the workers, where that is possible.
        """
        count = len(members[0])
        n_parts = next(n for n in range(min(workers.count, count), 0, -1) if count % n == 0)
        if not self.compiled or n_parts == 1 or members[0].device.type != "cpu":
            found: tuple[Tensor, ...] = self(*members, *shared)
            return found
        parts = [(*part, *shared) for part in zip(*(item.chunk(n_parts) for item in members), strict=True)]
        # The first time it compiles, and may find that it cannot.
        done = workers.map(self, parts) if self.announced else [self(*part) for part in parts]
        return tuple(torch.cat(found) for found in zip(*done, strict=True))
