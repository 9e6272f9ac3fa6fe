r"""Turns one node of plain configuration into one of our classes, or says in a sentence why not.

The schema of a problem, model, method or calibration is the signature of its dataclass: names, types and
``Annotated`` bounds. Nothing has to be declared twice, and a class defined outside the package is checked
in the same way.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Gt, Interval
from pydantic import ConfigDict, TypeAdapter, ValidationError

from sciuq_runner.errors import ConfigError, nearest

T = TypeVar("T")

Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Fraction = Annotated[float, Interval(gt=0, lt=1)]
Share = Annotated[float, Interval(gt=0, le=1)]
Count = Annotated[int, Ge(1)]
Dtype = Literal["float32", "float64"]

OWN_PACKAGE = "sciuq_runner"
USER_PROBLEM = f"{OWN_PACKAGE}.problems.user.UserProblem"

PAIRS, LIST = "names with values (a: b)", "a list in square brackets"
PLAIN_WORDS = {
    "dict_type": PAIRS,
    "mapping_type": PAIRS,
    "dataclass_type": PAIRS,
    "dataclass_exact_type": PAIRS,
    "list_type": LIST,
    "tuple_type": LIST,
    "string_type": "a text",
    "bool_type": "true or false",
}
"""How people who write YAML call what pydantic calls a valid dictionary, list, string or boolean."""

LONGEST = 200
"""How many characters of a wrong value are shown."""

READ_OTHERWISE = {True: "'on'", False: "'off'"}
"""Names that YAML takes for something else, as they can be written."""


@dataclasses.dataclass(frozen=True)
class Factory:
    """A class that a setting names by ``_target_``, with settings of its own, to be made later."""

    cls: type
    settings: Mapping[str, Any]

    def make(self, **more: Any) -> Any:
        """Make one; what the settings say comes beside what the caller knows."""
        return self.cls(**{**self.settings, **more})


def locate(target: str, key: str, trust: Sequence[str] = ()) -> type:
    """Import the class that ``target`` names, if it is ours or of a module the user trusts."""
    if not isinstance(target, str) or "." not in target:
        raise ConfigError(f"{key}._target_={target!r} should be a class written as 'module.ClassName'.")
    if not any(target.startswith(f"{module}.") for module in (OWN_PACKAGE, *trust)):
        module = target.split(".")[0]
        raise ConfigError(
            f"{key}._target_={target} is not a class of {OWN_PACKAGE}: "
            f"add trust=[{module}] on the command line to allow its code to run."
        )
    module_name, _, name = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), name, None)
    except Exception as error:  # a module of the user's may fail in any way
        raise ConfigError(f"{key}._target_={target} cannot be imported: {error}.") from error
    if not isinstance(found, type):
        raise ConfigError(f"{key}._target_={target} should be a class defined in {module_name}.")
    return found


def build(node: Mapping[str, Any], key: str, base: type[T], trust: Sequence[str] = ()) -> T:
    """Build the object that ``node`` describes; every mistake in it becomes a :class:`ConfigError`."""
    if not isinstance(node, Mapping):
        raise ConfigError(f"{key} should be {PAIRS}, with _target_: module.ClassName first.")
    if "_target_" not in node:
        described = key == "problem" and ("coordinates" in node or "unknowns" in node)
        wanted = f"{USER_PROBLEM} above the others" if described else "module.ClassName, the class that it describes"
        raise ConfigError(f"{key}._target_ is missing: write _target_: {wanted}.")
    cls = locate(node["_target_"], key, trust)
    if not (dataclasses.is_dataclass(cls) and issubclass(cls, base)):
        raise ConfigError(f"{key}._target_={node['_target_']} should be a dataclass and a {base.__name__}.")
    return construct(cls, _settings(node), key, trust)


def _settings(node: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name != "_target_"}


def construct(cls: type[T], values: Mapping[str, Any], key: str, trust: Sequence[str] = ()) -> T:
    """Check ``values`` against the fields of the dataclass ``cls`` and make the instance."""
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception as error:
        raise ConfigError(f"{key}: the annotations of {cls.__name__} cannot be understood: {error}.") from error
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    prefix = f"{key}." if key else ""
    for name in values:
        if not isinstance(name, str):
            raise ConfigError(quote_name(key or "the configuration", name))
        if name not in fields:
            meant = getattr(cls, "synonyms", {}).get(name)
            hint = nearest(name, fields) if meant is None else f"did you mean '{meant}'?"
            raise ConfigError(f"{prefix}{name} is not a setting of {key or 'a run'}: {hint}")
    required = {
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    for name in fields:
        if name in required and name not in values:
            raise ConfigError(f"{prefix}{name} is missing.")
    checked: dict[str, Any] = {}
    for name, value in values.items():
        inner = _without_none(hints[name])
        if value is None and name not in required and _is_group(hints[name]):
            continue  # "parameters:" with nothing below it names no parameters
        if isinstance(value, Mapping) and Factory in _plain_types(hints[name]):
            value = Factory(locate(value.get("_target_", ""), f"{prefix}{name}", trust), _settings(value))
        if isinstance(value, Mapping) and "_target_" in value and isinstance(inner, type):
            checked[name] = build(value, f"{prefix}{name}", inner, trust)
            continue
        if isinstance(value, Mapping) and isinstance(inner, type) and dataclasses.is_dataclass(inner):
            checked[name] = construct(inner, value, f"{prefix}{name}", trust)
            continue
        checked[name] = check(value, hints[name], f"{prefix}{name}")
    try:
        return cls(**checked)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{key}: {error}") from error


def check(value: Any, hint: Any, key: str) -> Any:
    """Return ``value`` in the type that ``hint`` asks for; numbers convert only where nothing is lost."""
    if isinstance(value, float) and value.is_integer() and int in _plain_types(hint):
        value = int(value)  # 1e3 is how people write a thousand steps
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{key}={value!r} is not valid: it should be a finite number.")
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):  # pydantic takes none where it is told to be strict
        if isinstance(value, hint):
            return value
        raise ConfigError(f"{_wrong(key, value)}: it should be {PAIRS}.")
    try:
        adapter = TypeAdapter(hint, config=ConfigDict(strict=True, arbitrary_types_allowed=True))
        return adapter.validate_python(value)
    except ValidationError as error:
        problem = error.errors()[0]
        is_name = problem["loc"][-1:] == ("[key]",)
        for part in problem["loc"][: -2 if is_name else None]:
            if not isinstance(value, Mapping) or part not in value:  # an index, or a branch of a union
                break
            key, value = f"{key}.{part}", value[part]
        if is_name:
            raise ConfigError(quote_name(key, problem["input"])) from error
        raise ConfigError(f"{_wrong(key, value)}: {_advice(problem, value)}") from error


def _wrong(key: str, value: Any) -> str:
    """How a sentence about a wrong value begins."""
    shown = repr(value) if len(repr(value)) <= LONGEST else f"{repr(value)[:LONGEST]} ..."
    return f"{key} has no value" if value is None else f"{key}={shown} is not valid"


def quote_name(key: str, name: Any) -> str:
    """A sentence for a name below ``key`` that YAML took for a truth value or a number."""
    example = READ_OTHERWISE[name] if isinstance(name, bool) else f"'{name}'"
    return f"{key} has a name that YAML reads as {name!r}: put the name in quotes, such as {example}."


def _is_group(hint: Any) -> bool:
    """Whether a hint asks for names with values, and does not admit None."""
    kind = typing.get_origin(hint) or hint
    return isinstance(kind, type) and (issubclass(kind, Mapping) or dataclasses.is_dataclass(kind))


def _without_none(hint: Any) -> Any:
    """``T`` of ``T | None``."""
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    return parts[0] if len(parts) == 1 and type(None) in typing.get_args(hint) else hint


def _plain_types(hint: Any) -> set[type]:
    """Collect the bare types of a hint, so that ``Annotated[int, Ge(1)] | None`` gives {int, NoneType}.

    A hint that also admits floats is left alone.
    """
    if isinstance(hint, type):
        return {hint}
    found: set[type] = set()
    for part in typing.get_args(hint):
        found |= _plain_types(part)
    return set() if float in found else found


def _advice(problem: Any, value: Any) -> str:
    context = problem.get("ctx", {})
    if problem["type"] == "literal_error":
        choices = [part.strip("' ") for part in context["expected"].replace(" or ", ", ").split(",")]
        return nearest(str(value), choices)
    if problem["type"] in PLAIN_WORDS:
        words = PLAIN_WORDS[problem["type"]]
        if words == LIST and isinstance(value, str) and re.fullmatch(r"[\w.+, -]{1,60}", value):
            words = f"{LIST}: write [{value.strip(' ,')}]"
        return f"it should be {words}."
    message = str(problem["msg"]).removeprefix("Input ")
    return f"it {message[0].lower()}{message[1:]}."
