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
from typing import TypeGuard, TypeVar, cast

import torch
from torch import Tensor

Index = tuple[int, ...]
"""How often to derive along each coordinate: (1, 2) is once in t and twice in x for a field of (t, x)."""

Sum = tuple[tuple[Index, float], ...]
r"""Derivatives with fixed factors, needed as :math:`\sum_i c_i\, \partial^{\alpha_i} z` alone; none is the value."""

Order = Index | Sum

Series = Mapping[Order, Tensor]
"""Of a sum, the coefficient is the sum itself: what it is made of need not be known one by one."""

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


def is_sum(order: Order) -> TypeGuard[Sum]:
    return bool(order) and isinstance(order[0], tuple)


def terms_of(order: Order) -> Sum:
    """What an order is the sum of; a derivative is one of itself."""
    return order if is_sum(order) else ((cast("Index", order), 1.0),)


def below(index: Index) -> Iterator[Index]:
    """The multi-index and all that are nowhere larger."""
    return product(*(range(n + 1) for n in index))


@plan
def closure(orders: tuple[Order, ...]) -> tuple[Order, ...]:
    """All that some of ``orders`` depend on, by total order: the value itself always first, sums last."""
    sums = tuple(dict.fromkeys(order for order in orders if is_sum(order)))
    indices = {index for order in orders if not is_sum(order) for index in below(terms_of(order)[0][0])}
    indices |= {index for order in sums for top, _ in terms_of(order) for index in below(top) if index != top}
    return (*sorted(indices, key=lambda index: (sum(index), index)), *sums)


@plan
def collapsed(orders: tuple[Order, ...]) -> tuple[Order, ...]:
    """The same, each once, with the parts in the place of all sums if these save nothing as a whole."""
    parts = tuple(dict.fromkeys(index for order in orders for index, _ in terms_of(order)))
    whole = tuple(dict.fromkeys(orders))
    return whole if len(closure(whole)) < len(closure(parts)) else parts


def gather(orders: Sequence[Order], values: Series) -> list[Tensor]:
    """Derivatives and sums in this order, out of what :func:`collapsed` has left of them."""
    return [
        values[order] if order in values else torch.stack([c * values[i] for i, c in terms_of(order)]).sum(0)
        for order in orders
    ]


@plan
def factorial(order: Order) -> int:
    r""":math:`\alpha! = \prod_i \alpha_i!`; a sum is of derivatives, not of Taylor coefficients."""
    return 1 if is_sum(order) else math.prod(math.factorial(n) for n in terms_of(order)[0][0])


@plan
def degree(order: Order) -> int:
    """The order of the highest derivative in it."""
    return max(sum(index) for index, _ in terms_of(order))


def partitions(rest: Index, largest: Index | None = None) -> Iterator[tuple[Index, ...]]:
    """Every way to write a multi-index as an unordered sum of non-zero ones, none above ``largest``."""
    if not any(rest):
        yield ()
        return
    for part in product(*(range(n + 1) for n in rest)):
        if any(part) and (largest is None or part <= largest):
            for others in partitions(tuple(a - b for a, b in zip(rest, part, strict=True)), part):
                yield (part, *others)


Summand = tuple[int, float, tuple[Order, ...]]
"""A derivative of the outer function by its order, a weight, and inner coefficients to multiply."""


@plan
def summands(order: Order, present: tuple[Order, ...]) -> tuple[Summand, ...]:
    """The formula of Faà di Bruno for one coefficient, without what is zero because it is not ``present``.

    The linear terms of a sum are the first derivative of the outer function times the sum of the inner coefficients.
    """
    found: list[Summand] = [(1, 1.0, (order,))] if is_sum(order) and order in present else []
    for index, factor in terms_of(order):
        for parts in partitions(index):
            if is_sum(order) and len(parts) == 1:
                continue
            if all(part in present for part in parts):
                repeats = math.prod(math.factorial(times) for times in Counter(parts).values())
                scale = factor * math.prod(math.factorial(n) for n in index) if is_sum(order) else 1
                found.append((len(parts), scale / repeats, parts))
    return tuple(found)


def compose(outer: Sequence[Tensor | None], inner: Series, wanted: Iterable[Order]) -> dict[Order, Tensor]:
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
