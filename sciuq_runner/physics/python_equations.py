"""Equations that are Python functions of the running process: a configuration can name them, never bring them."""

from __future__ import annotations

import hashlib
import inspect
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciuq_runner.errors import ConfigError, first_line, nearest
from sciuq_runner.physics.fields import Asked, Unknowns

Residual = Callable[..., Tensor]
FUNCTION_PREFIX = "python:"
UNIQUE = "unique"  # begins the fingerprint of a function of which nothing can be told
SHAPE = "a tensor [members, points, 1]"

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


def give_again(text: str, name: str, function: Residual) -> None:
    """Make a function known by the text of an earlier process; refuses another function, where it can tell."""
    theirs, ours = text.rpartition(":")[2], fingerprint(function)
    if theirs != ours and not theirs.startswith(UNIQUE) and not ours.startswith(UNIQUE):
        raise ConfigError(f"functions: {name} is another function than the one that the run was made with.")
    _REGISTERED[text] = function


def fingerprint(function: Residual) -> str:
    """A hash of what the function does, with the values that it has from around it: another function is another
    problem. One that never occurs again where that cannot be told."""
    try:
        return hashlib.sha256(repr(_described(function)).encode()).hexdigest()[:12]
    except TypeError:
        return f"{UNIQUE}{secrets.token_hex(4)}"


def _described(value: Any, depth: int = 0) -> Any:
    """Plain values, arrays by their content, and functions by their code with all that it refers to."""
    if depth > 20:
        raise TypeError("nested too deeply")
    inner = partial(_described, depth=depth + 1)
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, np.ndarray | np.generic):
        return [str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, Tensor):
        return inner(value.detach().cpu().numpy())
    if isinstance(value, tuple | list):
        return [type(value).__name__, *map(inner, value)]
    if isinstance(value, dict):
        return sorted((repr(key), inner(item)) for key, item in value.items())
    if isinstance(value, frozenset):
        return sorted(repr(item) for item in value)
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, partial):
        return [inner(value.func), inner(value.args), inner(value.keywords)]
    if isinstance(value, CodeType):
        return [value.co_code.hex(), inner(value.co_consts), value.co_names, value.co_varnames]
    if isinstance(value, FunctionType):
        around = {name: value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__}
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return [inner(part) for part in (value.__code__, cells, value.__defaults__, value.__kwdefaults__, around)]
    if isinstance(value, BuiltinFunctionType | type):
        return [value.__module__, value.__qualname__]
    raise TypeError(f"nothing is known of a {type(value).__name__}")


def _names(code: CodeType) -> set[str]:
    """The names of globals, among others, in a function and in those inside it."""
    return set(code.co_names).union(*(_names(item) for item in code.co_consts if isinstance(item, CodeType)))


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
    taken = inspect.signature(function).parameters
    names = [name for name, item in taken.items() if name in known or item.default is item.empty]
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
        value = equation.observe(Unknowns(stand_ins, ones), torch.ones(3, len(equation.coordinates)))
    except Exception as error:  # code of the user's may fail in any way
        advice = f"write {name}.value for the field itself" if (name := next(iter(equation.fields), "")) else ""
        advice = f" ({advice}, and torch's functions)" if isinstance(error, TypeError) and advice else ""
        raise ConfigError(f"{label} cannot be evaluated: {first_line(error)}{advice}") from error
    shape = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
    if shape not in ([1, 3, 1], [1, 1, 1], [3, 1]):  # fields that stand in have the same value at all points
        raise ConfigError(f"{label} should return one number at every point, {SHAPE}; it returns {shape}.")
