"""Equations that are Python functions of the running process: a configuration can name them, never bring them."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from sciuq_runner.errors import ConfigError, first_line, nearest
from sciuq_runner.physics.fields import Asked, Unknowns

Residual = Callable[..., Tensor]
FUNCTION_PREFIX = "python:"

_REGISTERED: dict[str, Residual] = {}


def register(name: str, function: Residual) -> str:
    """Make a function known to this process; returns the text that stands for it in a configuration."""
    text = f"{FUNCTION_PREFIX}{name}:{fingerprint(function)}"
    _REGISTERED[text] = function
    return text


def is_python(text: Any) -> bool:
    """Whether an entry of ``equations:`` stands for a function."""
    return isinstance(text, str) and text.startswith(FUNCTION_PREFIX)


def find(text: str, label: str) -> Residual:
    """The function that a text stands for."""
    if text not in _REGISTERED:
        name = text.removeprefix(FUNCTION_PREFIX).rpartition(":")[0]
        raise ConfigError(
            f"{label} is a Python function that this process does not have: give it again, as in "
            f"sq.load(folder, functions={{'{name}': {name}}})."
        )
    return _REGISTERED[text]


def fingerprint(function: Residual) -> str:
    """A hash of what the function does, with the values that it has from around it: another function is another
    problem."""
    code = getattr(function, "__code__", None)
    if code is None:
        return hashlib.sha256(repr(type(function)).encode()).hexdigest()[:12]
    cells = [repr(cell.cell_contents) for cell in getattr(function, "__closure__", None) or ()]
    text = repr([_described(code), cells, getattr(function, "__defaults__", None)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _described(code: CodeType) -> list[Any]:
    constants = [_described(item) if isinstance(item, CodeType) else item for item in code.co_consts]
    return [code.co_code.hex(), constants, code.co_names, code.co_varnames]


@dataclass(frozen=True)
class PythonEquation:
    """A quantity that is a function of fields, parameters, constants and coordinates, which it takes by name."""

    function: Residual
    coordinates: tuple[str, ...]
    fields: frozenset[str]
    names: frozenset[str]  # of all that it takes
    constants: Mapping[str, float]

    def observe(self, unknowns: Unknowns, x: Tensor) -> Tensor:
        """Its value at the points ``x[N, D]``, ``[M, N, 1]``."""
        known: dict[str, Any] = {name: x[..., i, None] for i, name in enumerate(self.coordinates)}
        known |= {name: unknowns[name].at(x) for name in self.fields}
        known |= {**unknowns.parameters, **self.constants}
        return self.function(**{name: known[name] for name in self.names})


def read_function(
    text: str,
    domain: Iterable[str],
    depends: Mapping[str, tuple[str, ...]],
    parameters: Iterable[str],
    constants: Mapping[str, float],
    label: str,
) -> PythonEquation:
    """The equation of a function; it depends on the coordinates that it takes, and on those of its fields."""
    function = find(text, label)
    domain = list(domain)
    known = [*domain, *depends, *parameters, *constants]
    names = list(inspect.signature(function).parameters)
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{label} takes {name}, which is neither a field nor a parameter, a constant or a coordinate: "
                f"{nearest(name, known)}"
            )
    fields = [name for name in names if name in depends]
    needed = {*names, *(coordinate for field in fields for coordinate in depends[field])}
    coordinates = tuple(name for name in domain if name in needed)
    if not coordinates:
        raise ConfigError(f"{label} takes neither a field nor a coordinate: an equation is a function of the fields.")
    found = PythonEquation(function, coordinates, frozenset(fields), frozenset(names), constants)
    _try_out(found, depends, parameters, label)
    return found


def _try_out(
    equation: PythonEquation, depends: Mapping[str, tuple[str, ...]], parameters: Iterable[str], label: str
) -> None:
    """Call the function once on stand-ins: a mistake in it is a sentence before any work."""
    stand_ins = {name: Asked(name, coordinates, 1) for name, coordinates in depends.items()}
    ones = {name: torch.ones(1, 1, 1) for name in parameters}
    try:
        value = equation.observe(Unknowns(stand_ins, ones), torch.ones(1, len(equation.coordinates)))
    except Exception as error:  # code of the user's may fail in any way
        raise ConfigError(f"{label} cannot be evaluated: {first_line(error)}") from error
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise ConfigError(f"{label} should return one number at every point: it returns {value!r} at a single one.")
