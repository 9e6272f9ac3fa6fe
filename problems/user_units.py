"""Units in which numbers are of the order of one, as the priors of networks have them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciuq_runner.physics.fields import Field, Unknowns, order_of
from sciuq_runner.physics.problem import Array, FieldSpec, Parameter, Unit

LARGEST_SIZE, SMALLEST_SIZE, FLATTEST, FAR = 20.0, 0.05, 0.05, 5.0
"""How large numbers may be, how small the largest of them, and how small their range beside it; of a field, where it is
so far from zero: one that hardly changes may be right."""

N_GUESSES = 1000


# What counts as one of an equation


class Guess(Field):
    """Stands in for a field in its unit: values and derivatives are independent standard normal numbers, as many times
    as the units of field and coordinates say."""

    def __init__(self, spec: FieldSpec, generator: torch.Generator) -> None:
        self.spec, self.generator = spec, generator

    def __call__(self, x: Tensor) -> Tensor:
        return self.spec.unit.offset + self.spec.unit.scale * self.draw(x)

    def draw(self, x: Tensor) -> Tensor:
        return torch.randn(N_GUESSES, len(x), 1, generator=self.generator, dtype=torch.float64)

    def at(self, x: Tensor) -> Any:
        return GuessedJet(self, x)


class GuessedJet:
    def __init__(self, field: Guess, x: Tensor) -> None:
        self.__field, self.__x = field, x  # no coordinate has such a name

    def __getattr__(self, name: str) -> Tensor:
        field, spec = self.__field, self.__field.spec
        order = order_of(name, spec.coordinates)
        assert order is not None
        if not any(order):
            return field(self.__x)
        unit = spec.unit.scale * math.prod(item.scale**-n for item, n in zip(spec.units, order, strict=True))
        return unit * field.draw(self.__x)

    def combine(self, /, **factors: float) -> Tensor:
        return torch.stack([factor * getattr(self, name) for name, factor in factors.items()]).sum(0)


def guessed_unit(
    observe: Callable[[Unknowns, Tensor], Tensor],
    fields: Mapping[str, FieldSpec],
    scalars: Mapping[str, Parameter],
    domain: Sequence[tuple[float, float]],
) -> Unit:
    """The spread of an equation over fields, numbers and places such as their units, priors and ranges have them."""
    generator = torch.Generator().manual_seed(0)
    low, high = (torch.tensor(part, dtype=torch.float64) for part in zip(*domain, strict=True))
    x = low + (high - low) * torch.rand(20, len(domain), generator=generator, dtype=torch.float64)
    z = torch.randn(N_GUESSES, len(scalars), generator=generator, dtype=torch.float64)
    numbers = {name: item.value(z[:, i])[:, None, None] for i, (name, item) in enumerate(scalars.items())}
    values = observe(Unknowns({name: Guess(spec, generator) for name, spec in fields.items()}, numbers), x)
    known = values[torch.isfinite(values)]
    if not len(known):
        return Unit()
    first, third = np.quantile(known.numpy(), [0.25, 0.75])
    return Unit((third - first) / 1.35) if third > first else Unit()  # of a normal distribution, the deviation


# Numbers that are far from one


def advice_on_units(
    coordinates: Mapping[str, Array], fields: Mapping[str, Array], units: Mapping[str, Unit]
) -> list[str]:
    """A sentence where the numbers of coordinates and fields, in the given units, are far from the order of one; of
    fields that are not read, and have no unit where others do."""
    wanted, unread = {}, []
    for name, values in {**coordinates, **fields}.items():
        if not len(values):
            unread += [name] if units and name not in units else []
            continue
        unit = units.get(name, Unit())
        seen = (np.asarray(values, dtype=float) - unit.offset) / unit.scale
        size, extent = float(np.abs(seen).max()), float(np.ptp(seen))
        flat = 0 < extent < FLATTEST * size and (name in coordinates or size > FAR)
        if size and (size > LARGEST_SIZE or size < SMALLEST_SIZE or flat):
            wanted[name] = fitting(np.asarray(values, dtype=float))
    found = []
    if wanted:
        settings = ", ".join(f"{name}: {text}" for name, text in wanted.items())
        write = f"add {settings} to the units" if units else f"write units: {{{settings}}} into the file"
        found.append(
            f"Numbers of {' and '.join(wanted)} are far from the order of one, for which the priors of networks are "
            f"made: {write} of the problem, or others near these."
        )
    if unread:
        found.append(
            f"Others have units, and {' and '.join(unread)} none, which nothing is read of: add its size there."
        )
    return found


def fitting(values: Array) -> str:
    """A unit in which these numbers are of the order of one, as it is written in YAML."""
    low, high = float(values.min()), float(values.max())
    half = (high - low) / 2
    middle = (low + high) / 2
    if half == 0 or abs(middle) <= 2 * half:  # zero is near enough to stay where it is
        return rounded(max(abs(low), abs(high)))
    offset = round(middle, -math.floor(math.log10(half)))  # to within a part of the scale
    return f"{{scale: {rounded(half)}, offset: {offset:.10g}}}"


def rounded(value: float) -> str:
    """Two digits of a number."""
    return f"{float(f'{value:.1e}'):g}"
