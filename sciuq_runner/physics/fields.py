"""The unknowns of a problem as its physics sees them: fields with derivatives, and scalar parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sciuq_runner.physics.taylor import Index, Order

FIELD_VALUE = "value"
RESERVED = (FIELD_VALUE, "combine")
"""What a field with derivatives has beside them."""


class Field(ABC):
    """One unknown field for a batch of members, at points given by the coordinates of the quantity observed."""

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor:
        """The field itself, ``[M, N, D_u]``."""

    @abstractmethod
    def at(self, x: Tensor) -> Any:
        """The field with its derivatives as attributes: ``u.value``, ``u.t``, ``u.xx``, ``u.xt`` ..., one sweep.

        ``u.combine(t=1, xx=-0.01)`` is ``u.t - 0.01 * u.xx``. What is needed in this sum alone is never made one by
        one, which saves a fourth of the work there, and more for a Laplacian in several dimensions.
        """


@dataclass(frozen=True)
class Unknowns:
    """Everything that is unknown: ``unknowns["u"]`` is a field, ``unknowns.parameters["k"]`` a scalar ``[M, 1, 1]``."""

    fields: Mapping[str, Field]
    parameters: Mapping[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Field:
        return self.fields[name]


def order_of(name: str, coordinates: Sequence[str]) -> tuple[int, ...] | None:
    """What ``xxt`` means: how often to derive along each coordinate; None if it is no row of their names.

    It is read from its end, where no part is tried twice: names in equations come from files, and may be long.
    """
    none = (0,) * len(coordinates)
    if name == FIELD_VALUE:
        return none
    found = {len(name): none}  # of what follows each letter from which on it can be read
    for start in reversed(range(len(name))):
        for i, coordinate in enumerate(coordinates):
            rest = found.get(start + len(coordinate))
            if rest is not None and name.startswith(coordinate, start):
                found[start] = tuple(n + (i == j) for j, n in enumerate(rest))
                break
    return found.get(0)


class Asked(Field):
    """Stands in for a field while the physics is run once, to learn which derivatives it asks for."""

    def __init__(self, name: str, coordinates: Sequence[str], n_outputs: int) -> None:
        self.name, self.coordinates, self.n_outputs = name, tuple(coordinates), n_outputs
        self.orders: dict[str, Order] = {}  # by the name asked for

    def __call__(self, x: Tensor) -> Tensor:
        return torch.ones(1, x.shape[-2], self.n_outputs, dtype=x.dtype)

    def at(self, x: Tensor) -> Any:
        return _Recorder(self, x)


class _Recorder:
    def __init__(self, asked: Asked, x: Tensor) -> None:
        self.__asked, self.__x = asked, x  # no coordinate has such a name

    def __getattr__(self, name: str) -> Tensor:
        self.__asked.orders[name] = self.__order(name)
        return self.__asked(self.__x)

    def combine(self, /, **factors: float) -> Tensor:
        terms: dict[Index, float] = {}
        for name, factor in factors.items():
            order = self.__order(name)
            assert any(order), "a sum is of derivatives, and not of the value itself"
            terms[order] = terms.get(order, 0.0) + factor
        self.__asked.orders[label(factors)] = tuple(terms.items())
        return self.__asked(self.__x)

    def __order(self, name: str) -> Index:
        asked = self.__asked
        order = order_of(name, asked.coordinates)
        if order is None:
            listed = ", ".join(asked.coordinates)
            raise AttributeError(f"{asked.name}.{name} is no derivative: {asked.name} depends on {listed}.")
        return order


class Jet:
    """What :meth:`Field.at` gives: the value and derivatives as attributes."""

    def __init__(self, names: Iterable[str], values: Iterable[Tensor]) -> None:
        for name, value in zip(names, values, strict=True):
            setattr(self, name, value)

    def combine(self, /, **factors: float) -> Tensor:
        """A sum of derivatives."""
        found: Tensor = getattr(self, label(factors))
        return found


def label(factors: Mapping[str, float]) -> str:
    """The name of a sum of derivatives."""
    return " + ".join(f"{factor} {name}" for name, factor in factors.items())
