"""Units in which numbers are of the order of one, as the priors of networks have them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from sciuq_runner.problem import Array, Unit

LARGEST, SMALLEST, FLATTEST = 20.0, 0.05, 0.05
"""How large numbers may be, how small the largest of them, and how small their range beside it."""


def advice_on_units(numbers: Mapping[str, Array], units: Mapping[str, Unit]) -> list[str]:
    """A sentence where the numbers of coordinates and fields, in the given units, are far from the order of one."""
    wanted = {}
    for name, values in numbers.items():
        unit = units.get(name, Unit())
        seen = (np.asarray(values, dtype=float) - unit.offset) / unit.scale
        size, extent = float(np.abs(seen).max()), float(np.ptp(seen))
        if size and (size > LARGEST or size < SMALLEST or 0 < extent < FLATTEST * size):
            wanted[name] = fitting(np.asarray(values, dtype=float))
    if not wanted:
        return []
    names = " and ".join(wanted)
    verb = "is" if len(wanted) == 1 else "are"
    settings = ", ".join(f"{name}: {text}" for name, text in wanted.items())
    return [
        f"Numbers of {names} {verb} far from the order of one, for which the priors of networks are made: write "
        f"units: {{{settings}}} into the file of the problem, or others near these."
    ]


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
