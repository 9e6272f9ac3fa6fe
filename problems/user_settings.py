"""The entries of the YAML file of a problem: settings that are understood by themselves, read and checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Interval
from pydantic import FiniteFloat
from torch import Tensor

from sciuq_runner.errors import ConfigError, nearest
from sciuq_runner.physics.data_files import LARGEST_NUMBER
from sciuq_runner.physics.derivative_sums import combined
from sciuq_runner.physics.expression_names import check_name, check_names, derivative_of
from sciuq_runner.physics.expression_parser import parse
from sciuq_runner.physics.expressions import Expression
from sciuq_runner.physics.fields import FIELD_VALUE, Unknowns
from sciuq_runner.physics.problem import Array, InverseGamma, Noise, Parameter, Unit
from sciuq_runner.schema import Count, Positive, check, construct

EXACT_SCALE, FIRST_SCALE, HYPER_SCALE, DRIFT = 0.01, 0.1, 10.0, 0.05
"""How far exact conditions may be missed, where learned noise starts and its hyperprior, and how alike a quantity is at
points that share an observation: in the unit of the quantity, unless the file says otherwise."""


@dataclass(frozen=True, kw_only=True)
class ParameterPrior(ABC):
    """An entry of ``parameters:``; ``reference`` is the truth where it is known, ``start`` where to begin."""

    reference: float | None = None
    start: float | None = None

    @abstractmethod
    def build(self) -> Parameter:
        """The same as the model knows it."""


@dataclass(frozen=True, kw_only=True)
class NormalPrior(ParameterPrior):
    mean: float
    std: Positive

    def build(self) -> Parameter:
        return Parameter("normal", self.mean, self.std, self.reference, self.start)


@dataclass(frozen=True, kw_only=True)
class LognormalPrior(ParameterPrior):
    median: Positive
    spread: Positive  # of the logarithm

    def build(self) -> Parameter:
        return Parameter("lognormal", self.median, self.spread, self.reference, self.start)


@dataclass(frozen=True, kw_only=True)
class UniformPrior(ParameterPrior):
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low={self.low:g} should be less than high={self.high:g}.")

    def build(self) -> Parameter:
        return Parameter("uniform", self.low, self.high, self.reference, self.start)


PRIORS: dict[str, type[ParameterPrior]] = {"normal": NormalPrior, "lognormal": LognormalPrior, "uniform": UniformPrior}


@dataclass(frozen=True)
class NoiseSettings:
    """``noise:`` of a quantity; a plain number is a known scale, a word is a kind. See :class:`Noise`.

    ``reference`` is the true scale of learned noise where it is known, for test observations alone.
    """

    kind: Literal["known", "learned", "heteroscedastic", "exact"] = "known"
    scale: Positive | None = None
    family: Literal["gaussian", "student_t"] = "gaussian"
    degrees_of_freedom: Annotated[float, Gt(2)] = 5.0
    shape: Positive = 2.0
    hyper_scale: Positive | None = None
    group: str = ""
    reference: Positive | None = None

    def build(self, unit: float = 1.0) -> Noise:
        """The same as the target knows it; what is not said is so in the ``unit`` of the quantity."""
        scale = self.scale or unit * (EXACT_SCALE if self.kind == "exact" else FIRST_SCALE)
        hyperprior = InverseGamma(self.shape, self.hyper_scale or HYPER_SCALE / unit**2)
        return Noise(self.kind, scale, self.family, self.degrees_of_freedom, hyperprior, self.group)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Array | None, Array]:
        """The standard deviation of the noise, where it is known, and draws of it, both ``[n, 1]``; none where not."""
        scale = self.scale if self.kind == "known" else self.reference
        if scale is None:
            return None, np.zeros((n, 1))
        if self.family == "gaussian":
            return np.full((n, 1), scale), scale * rng.standard_normal((n, 1))
        nu = self.degrees_of_freedom
        return np.full((n, 1), scale * np.sqrt(nu / (nu - 2))), scale * rng.standard_t(nu, (n, 1))


@dataclass(frozen=True)
class UnitSettings:
    """``units:`` of a coordinate or a field; a plain number is the scale. See :class:`Unit`.

    ``name`` is what people call it (K, m/s): labels of predictions have it, nothing is computed with it.
    """

    scale: Annotated[float, Interval(ge=1e-12, le=1e12)] = 1.0
    offset: Annotated[float, Interval(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)] = 0.0
    name: str = ""


FAMILY = ("kind", "scale", "family", "degrees_of_freedom")
MEANINGFUL = {
    "known": FAMILY,
    "exact": ("kind", "scale"),
    "learned": (*FAMILY, "shape", "hyper_scale", "group", "reference"),
    "heteroscedastic": (*FAMILY, "group"),
}
"""Settings that a kind of noise has."""


@dataclass(frozen=True)
class HoldOut:
    """``hold_out:``: how many observations of a file are set aside."""

    calibration: Annotated[int, Ge(0)] = 0
    validation: Annotated[int, Ge(0)] = 0


@dataclass(frozen=True)
class Source:
    """An entry of ``observed:`` (or ``test:``): observations from a file, or an expression that holds at many points.

    ``columns`` names the columns or keys of the file that differ from the names used here. ``at`` fixes coordinates
    (a boundary, an initial time). ``repeat`` gives coordinates that the observations of a file lack: each observation
    holds at all of these values, where the quantity is the same up to ``drift``, and still counts as one. An expression
    holds at ``points`` for each of the values.
    """

    file: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    value: str | float | int | None = None
    points: Count | None = None
    at: dict[str, FiniteFloat] = field(default_factory=dict)
    repeat: dict[str, list[FiniteFloat]] = field(default_factory=dict)
    drift: Positive | None = None
    noise: Any = None
    hold_out: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if (self.file is None) == (self.value is None):
            raise ValueError("give either file (readings) or value (an expression that holds), not both and not none.")
        if self.file is not None and self.points is not None:
            raise ValueError("points belongs to value: all readings of a file are taken.")
        if self.value is not None and (self.columns or self.hold_out):
            raise ValueError("columns and hold_out belong to file, and there is none.")
        if self.drift is not None and (self.file is None or not self.repeat):
            raise ValueError("drift belongs to readings of a file that repeat.")
        for name, values in self.repeat.items():
            if not values or name in self.at:
                raise ValueError(f"repeat.{name} should list values of a coordinate that at does not fix.")

    @property
    def fixed(self) -> dict[str, list[float]]:
        """The coordinates that are given here, with all their values."""
        return {**{name: [value] for name, value in self.at.items()}, **self.repeat}


@dataclass(frozen=True)
class Equation:
    """A quantity that is an expression of fields: what it depends on, and what it asks of which field, by name.

    ``sums`` are of derivatives of one field, with their factors.
    """

    expression: Expression
    coordinates: tuple[str, ...]
    asked: Mapping[str, tuple[str, str]]
    sums: Mapping[str, tuple[str, Mapping[str, float]]]

    @property
    def fields(self) -> Set[str]:
        return {owner for owner, _ in (*self.asked.values(), *self.sums.values())}

    @property
    def names(self) -> Set[str]:
        """All that stands in the expression."""
        return set(self.expression.names)

    def observe(self, unknowns: Unknowns, x: Tensor) -> Tensor:
        """Its value at the points ``x[N, D]``, ``[M, N, 1]``."""
        fields = {name: unknowns[name].at(x) for name in sorted(self.fields)}
        values = {name: x[..., i, None] for i, name in enumerate(self.coordinates)}
        values |= {name: getattr(fields[owner], suffix) for name, (owner, suffix) in self.asked.items()}
        values |= {name: fields[owner].combine(**factors) for name, (owner, factors) in self.sums.items()}
        return self.expression.evaluate({**values, **unknowns.parameters})


TEST_SETTINGS = ("file", "columns", "at", "repeat")
"""Settings of a source that test observations have."""


# From the file to these


def entries(values: Mapping[str, Any], hint: Any, label: str) -> dict[str, Any]:
    """The entries of a group, checked one by one so that a mistake is named by its own key."""
    return {name: check(value, hint, f"{label}.{name}") for name, value in values.items()}


def check_distinct(groups: Mapping[str, Iterable[str]], label: str) -> None:
    """Names of all groups can be used in expressions, and none is given twice."""
    seen: dict[str, str] = {}
    for group, names in groups.items():
        for name in names:
            check_name(name, f"{label}.{group}")
            if name in seen:
                raise ConfigError(f"{label}.{group}.{name} has the name of one of {label}.{seen[name]}: rename one.")
            seen[name] = group


def read_ranges(values: Mapping[str, Any], label: str) -> dict[str, tuple[float, float]]:
    """``coordinates:``: the range of each."""
    found = {}
    for name, bounds in entries(values, list[FiniteFloat], label).items():
        if len(bounds) != 2 or not bounds[0] < bounds[1]:
            raise ConfigError(f"{label}.{name}={bounds} should be a range [low, high] with low < high.")
        found[name] = (bounds[0], bounds[1])
    return found


def read_expression(
    text: Any, constants: Mapping[str, float], label: str, fields: Mapping[str, Sequence[str]] | None = None
) -> Expression:
    """An expression, or a number in place of one; it may have derivatives of ``fields``, by the coordinates of each."""
    return parse(str(check(text, str | float | int, label)), label, constants, fields)


def read_equation(
    text: Any,
    coordinates: Iterable[str],
    depends: Mapping[str, Sequence[str]],
    parameters: Iterable[str],
    constants: Mapping[str, float],
    label: str,
    equations: Iterable[str] = (),
) -> Equation:
    """An entry of ``equations:``, whose names none of them can use; ``depends`` are the fields and the coordinates of
    each."""
    expression = read_expression(text, constants, label, depends)
    coordinates = tuple(coordinates)
    check_names(expression, [*coordinates, *parameters, *constants], depends, label, equations)
    asked = {}
    for name in sorted(expression.names):
        derivative = derivative_of(name, depends)
        if name in depends:
            asked[name] = (name, FIELD_VALUE)
        elif derivative is not None:
            asked[name] = (derivative[0], name.removeprefix(f"{derivative[0]}_"))
    if not asked:
        raise ConfigError(f"{label}={text!r} uses no field: write an expression of {', '.join(depends)}.")
    needed = expression.names.union(*(depends[owner] for owner, _ in asked.values()))
    collected, found = combined(
        expression, {name: owner for name, (owner, along) in asked.items() if along != FIELD_VALUE}
    )
    sums = {
        name: (asked[next(iter(parts))][0], {asked[part][1]: factor for part, factor in parts.items()})
        for name, parts in found.items()
    }
    single = {name: item for name, item in asked.items() if name in collected.names}
    return Equation(collected, tuple(name for name in coordinates if name in needed), single, sums)


def read_source(values: Any, label: str) -> Source:
    """An entry of ``observed:`` or ``test:``."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{label}={values!r} should say where readings come from: {{file: ...}}, {{value: ...}}.")
    return construct(Source, values, label)


def check_test_settings(values: Any, label: str) -> None:
    """An entry of ``test:`` is a source with fewer settings."""
    for key in values if isinstance(values, Mapping) else ():
        if key not in TEST_SETTINGS:
            raise ConfigError(f"{label}.{key} is not a setting of test readings: {nearest(str(key), TEST_SETTINGS)}")


def read_prior(values: Any, label: str) -> Parameter:
    """An entry of ``parameters:``."""
    kind = values.get("prior") if isinstance(values, Mapping) else None
    if kind is None:
        raise ConfigError(f"{label}.prior is missing: write {{prior: lognormal, median: 1, spread: 0.5}} or alike.")
    if not isinstance(kind, str) or kind not in PRIORS:
        raise ConfigError(f"{label}.prior={kind!r} is not a prior: {nearest(str(kind), PRIORS)}")
    settings = {name: value for name, value in values.items() if name != "prior"}
    found = construct(PRIORS[kind], settings, label).build()
    if found.start is not None and not possible(found, found.start):
        raise ConfigError(f"{label}.start={found.start:g} is impossible under the prior.")
    return found


def possible(parameter: Parameter, value: float) -> bool:
    try:
        return bool(np.isfinite(parameter.standard(value)))
    except ValueError:  # the logarithm of a negative number
        return False


def read_noise(given: Any, label: str) -> NoiseSettings:
    """``noise:`` in any of its forms: a number, a word, or settings."""
    if given is None:
        raise ConfigError(f"{label} is missing: write a number, learned, exact, or {{kind: learned, scale: 0.1}} ...")
    if isinstance(given, str) and is_number(given):
        raise ConfigError(f"{label}={given!r} is a text: write the number without quotes.")
    values = given if isinstance(given, Mapping) else {"kind" if isinstance(given, str) else "scale": given}
    if values.get("kind") == "unknown":  # one letter from its opposite
        raise ConfigError(f"{label}: noise of an unknown scale is of kind learned.")
    found = construct(NoiseSettings, values, label)
    for name in values:
        if name not in MEANINGFUL[found.kind]:
            raise ConfigError(f"{label}.{name} has no meaning for noise of kind {found.kind}: leave it out.")
    if "degrees_of_freedom" in values and found.family != "student_t":
        raise ConfigError(f"{label}.degrees_of_freedom has no meaning without family: student_t.")
    if found.kind == "known" and found.scale is None:
        raise ConfigError(f"{label}.scale is missing: how large is the noise? Write kind: learned if that is unknown.")
    return found


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_shared_scales(noises: Mapping[str, Noise], label: str) -> None:
    """Quantities of one group learn one scale: it has one start and one hyperprior."""
    shared: dict[str, str] = {}
    for name, noise in noises.items():
        if noise.kind == "learned":
            first = noises[shared.setdefault(noise.group or name, name)]
            if (noise.scale, noise.hyperprior) != (first.scale, first.hyperprior):
                raise ConfigError(
                    f"{label}.{name}.noise shares its scale with the noise of {shared[noise.group or name]}: "
                    "scale, shape and hyper_scale should be the same for both; give them where units differ."
                )


def read_hold_out(values: Mapping[str, Any], sources: Mapping[str, Source], label: str) -> dict[str, HoldOut]:
    """``hold_out:``, for every quantity that is read from a file: its own, or that of all."""
    common = construct(HoldOut, values, f"{label}.hold_out")
    files = {name: item.hold_out for name, item in sources.items() if item.file is not None}
    if values and not files:
        raise ConfigError(f"{label}.hold_out sets readings aside, and no quantity is read from a file: leave it out.")
    return {
        name: common if own is None else construct(HoldOut, own, f"{label}.observed.{name}.hold_out")
        for name, own in files.items()
    }


def read_units(values: Mapping[str, Any], without_origin: Iterable[str], label: str) -> dict[str, Unit]:
    """``units:``, where a number stands for a scale; some quantities cannot have an offset."""
    found = {}
    for name, given in values.items():
        settings = given if isinstance(given, Mapping) else {"scale": given}
        unit = construct(UnitSettings, settings, f"{label}.{name}")
        if unit.offset and name in without_origin:
            raise ConfigError(f"{label}.{name}.offset has no meaning for an equation: give its scale alone.")
        found[name] = Unit(unit.scale, unit.offset)
    return found


def read_slices(values: Mapping[str, Any], label: str) -> dict[str, dict[str, float]]:
    """``slices:``: the coordinates that each fixes."""
    found = entries(values, dict[str, FiniteFloat], label)
    for name, fixed in found.items():
        if not name.isidentifier() or name == "id" or name.startswith("cal_"):
            raise ConfigError(f"{label}.{name}: choose another name, of letters, digits and _.")
        if not fixed:
            raise ConfigError(f"{label}.{name} is empty: name coordinates and their values, such as t: 1.")
    return found
