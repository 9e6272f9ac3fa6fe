r"""Derivatives of compositions in one forward sweep: truncated Taylor series in several variables.

A series at a point is a mapping from multi-indices :math:`\alpha` to Taylor coefficients
:math:`z_\alpha = \partial^\alpha z / \alpha!`; a multi-index that is missing stands for zero.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from itertools import product
from typing import TypeVar

from torch import Tensor

Index = tuple[int, ...]
"""How often to derive along each coordinate: (1, 2) is once in t and twice in x for a field of (t, x)."""

Series = Mapping[Index, Tensor]

R = TypeVar("R")


def plan(function: Callable[..., R]) -> Callable[..., R]:
    """Combinatorics is done once: remembered in eager mode, a constant for the tracer."""
    cached = lru_cache(maxsize=1024)(function)

    @wraps(function)
    def call(*args: Hashable) -> R:
        return cached(*args)

    # What torch.compiler.assume_constant_result does, without its import of the compiler (a second of every start).
    call._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return call


@plan
def closure(orders: tuple[Index, ...]) -> tuple[Index, ...]:
    """All multi-indices that some of ``orders`` depend on, by total order; the value itself always first."""
    below = {index for order in orders for index in product(*(range(n + 1) for n in order))}
    return tuple(sorted(below, key=lambda index: (sum(index), index)))


@plan
def factorial(index: Index) -> int:
    r""":math:`\alpha! = \prod_i \alpha_i!`."""
    return math.prod(math.factorial(n) for n in index)


def partitions(rest: Index, largest: Index | None = None) -> Iterator[tuple[Index, ...]]:
    """Every way to write a multi-index as an unordered sum of non-zero ones, none above ``largest``."""
    if not any(rest):
        yield ()
        return
    for part in product(*(range(n + 1) for n in rest)):
        if any(part) and (largest is None or part <= largest):
            for others in partitions(tuple(a - b for a, b in zip(rest, part, strict=True)), part):
                yield (part, *others)


Summand = tuple[int, float, tuple[Index, ...]]
"""A derivative of the outer function by its order, a weight, and inner coefficients to multiply."""


@plan
def summands(index: Index, present: tuple[Index, ...]) -> tuple[Summand, ...]:
    """The formula of Faà di Bruno for one coefficient, without what is zero because it is not ``present``."""
    found = []
    for parts in partitions(index):
        if all(part in present for part in parts):
            repeats = math.prod(math.factorial(times) for times in Counter(parts).values())
            found.append((len(parts), 1 / repeats, parts))
    return tuple(found)


def compose(outer: Sequence[Tensor | None], inner: Series, wanted: Iterable[Index]) -> dict[Index, Tensor]:
    r"""Taylor coefficients of :math:`\phi(z)` by the formula of Faà di Bruno,

    .. math::
        [\phi \circ z]_\alpha = \sum_{\beta_1 + \dots + \beta_k = \alpha}
        \phi^{(k)}(z_0) \prod_j z_{\beta_j} \Big/ \prod_\beta m_\beta!

    over unordered sums in which :math:`\beta` stands :math:`m_\beta` times. ``outer`` holds
    :math:`\phi, \phi', \phi'', \dots` at :math:`z_0`, elementwise, None where identically zero.
    """
    present = tuple(inner)
    found = {}
    for index in wanted:
        total: Tensor | None = None
        for order, weight, parts in summands(index, present):
            term = outer[order]
            if term is None:
                continue
            factor: Tensor | None = None
            for part in parts:
                factor = inner[part] if factor is None else factor * inner[part]
            if factor is not None:
                term = term * (factor if weight == 1 else weight * factor)
            total = term if total is None else total + term
        if total is not None:
            found[index] = total
    return found
