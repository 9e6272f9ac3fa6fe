"""The small language in which equations are written: numbers, names, ``+ - * / **`` and a few functions.

Here an expression is evaluated; :mod:`expression_parser` makes it from text, :mod:`expression_names` checks its names.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CONSTANTS = {"pi": math.pi, "e": math.e}


def _paired(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Tensor]:
    """``torch.minimum`` and ``torch.maximum`` take no plain numbers."""

    def call(a: Any, b: Any) -> Tensor:
        like = a if isinstance(a, Tensor) else b
        first, second = (side if isinstance(side, Tensor) else torch.full_like(like, side) for side in (a, b))
        return function(first, second)

    return call


def _heaviside(x: Tensor) -> Tensor:
    return 0.5 * (torch.sign(x) + 1)  # one half at zero; torch.heaviside has no gradient


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
            *("exp", "log", "sqrt", "abs", "sign", "sigmoid"),
        )
    },
    "heaviside": _heaviside,
    "min": _paired(torch.minimum),
    "max": _paired(torch.maximum),
}
ARITY = {name: 2 if name in ("min", "max") else 1 for name in FUNCTIONS}
OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": torch.pow,  # with a plain number as exponent, negative bases and the gradient at zero are right
    "negative": operator.neg,
}

REWRITE = (
    "write log, sqrt, powers and quotients of an equation so that they are defined for every value of the network, "
    "such as log(abs(u) + 0.01)."
)
"""What to try where :meth:`Target.undefined` names quantities."""


@dataclass(frozen=True)
class Number:
    """A number; parts of an expression without names become one while parsing."""

    value: float


@dataclass(frozen=True)
class Name:
    """A free name and where it stands."""

    name: str
    column: int


@dataclass(frozen=True)
class Operation:
    """An operator or function, applied to the last ``arity`` results."""

    name: str
    arity: int


@dataclass(frozen=True)
class Expression:
    """A parsed expression in postfix order: ``a + b*c`` is a, b, c, ``*``, ``+``; no depth, hence no recursion."""

    text: str
    steps: tuple[Number | Name | Operation, ...]

    @property
    def names(self) -> frozenset[str]:
        """All free names."""
        return frozenset(step.name for step in self.steps if isinstance(step, Name))

    def column(self, name: str) -> int:
        """Where ``name`` is used first, counted from 1."""
        return min(step.column for step in self.steps if isinstance(step, Name) and step.name == name)

    def evaluate(self, values: Mapping[str, Tensor]) -> Tensor:
        """The value for tensors that broadcast; without names a number of no dimension, in double precision."""
        results: list[Any] = []
        for step in self.steps:
            if isinstance(step, Number):
                results.append(step.value)
            elif isinstance(step, Name):
                results.append(values[step.name])
            else:
                arguments = results[-step.arity :]
                del results[-step.arity :]
                results.append(apply(step.name, arguments))
        (result,) = results
        return result if isinstance(result, Tensor) else torch.tensor(result, dtype=torch.float64)


def apply(name: str, arguments: Sequence[Any]) -> Any:
    return (OPERATORS[name] if name in OPERATORS else FUNCTIONS[name])(*arguments)
