"""A problem of your own, described in a YAML file: coordinates, unknowns, equations, readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge, Gt
from scipy.stats import qmc
from torch import Tensor

from sciuq_runner.datafiles import inside, read_columns
from sciuq_runner.errors import ConfigError, nearest
from sciuq_runner.expressions import Expression, check_name, check_names, derivative_of, parse
from sciuq_runner.fields import VALUE, Unknowns
from sciuq_runner.problem import (
    Array,
    Dataset,
    FieldSpec,
    InverseGamma,
    Noise,
    Parameter,
    Problem,
    QuantityData,
    Readings,
)
from sciuq_runner.schema import Count, Positive, construct

DEFAULT_GRID = {1: 201, 2: 41, 3: 13}
"""Points of the test grid along each coordinate, by the number of coordinates."""

UNOBSERVED = Noise("exact", 1.0)


@dataclass(frozen=True)
class NoiseSettings:
    """``noise:`` of a quantity; a plain number is a known scale."""

    kind: Literal["known", "learned", "heteroscedastic", "exact"] = "known"
    scale: Positive = 0.1
    family: Literal["gaussian", "student_t"] = "gaussian"
    degrees_of_freedom: Annotated[float, Gt(2)] = 5.0
    shape: Positive = 2.0
    hyper_scale: Positive = 10.0
    group: str = ""

    def build(self) -> Noise:
        hyperprior = InverseGamma(self.shape, self.hyper_scale)
        return Noise(self.kind, self.scale, self.family, self.degrees_of_freedom, hyperprior, self.group)


@dataclass(frozen=True)
class Source:
    """``observed:`` (or ``test:``) of a quantity: readings from a file, or an expression that holds at many points.

    ``columns`` names the columns or keys of the file that differ from the names used here. ``at`` fixes coordinates
    (a boundary, an initial time); ``repeat`` gives coordinates that the readings lack: they hold at each of these
    values, and still count as one reading each.
    """

    file: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    value: str | float | int | None = None
    points: Count = 100
    at: dict[str, float | int] = field(default_factory=dict)
    repeat: dict[str, list[float | int]] = field(default_factory=dict)
    noise: Any = None

    def __post_init__(self) -> None:
        if (self.file is None) == (self.value is None):
            raise ValueError("give either file (readings) or value (an expression that holds), not both and not none.")


@dataclass(frozen=True)
class HoldOut:
    """``hold_out:``: how many readings of every file are set aside."""

    calibration: Annotated[int, Ge(0)] = 0
    validation: Annotated[int, Ge(0)] = 0


PRIORS = {"normal": ("mean", "std"), "lognormal": ("median", "spread"), "uniform": ("low", "high")}


@dataclass(frozen=True)
class UserProblem(Problem):
    """Everything that a YAML file says about a problem.

    - ``coordinates``: their names and ranges; ``unknowns``: fields and the coordinates each depends on;
    - ``parameters``: unknown numbers with a prior; ``constants``: known ones;
    - ``equations``: further quantities as expressions of fields, derivatives (``u_xx``), parameters and coordinates;
    - ``observed``: for fields and equations, where readings come from and how noisy they are;
    - ``exact`` and ``test``: what is known of the truth, for metrics and figures only;
    - ``grid``: points of the test grid along each coordinate; ``slices``: lines of it to judge and draw by themselves;
    - ``probe``: quantities whose prior and posterior at one point are drawn;
    - ``hold_out``: readings set aside for calibration and validation.

    Names of data files are relative to the folder of ``file``, the YAML file itself.
    """

    coordinates: dict[str, list[float | int]]
    unknowns: dict[str, list[str]]
    observed: dict[str, Any]
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    constants: dict[str, float | int] = field(default_factory=dict)
    equations: dict[str, str | float | int] = field(default_factory=dict)
    exact: dict[str, str | float | int] = field(default_factory=dict)
    test: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, Annotated[int, Ge(2)]] = field(default_factory=dict)
    slices: dict[str, dict[str, float | int]] = field(default_factory=dict)
    probe: dict[str, list[float | int]] = field(default_factory=dict)
    hold_out: dict[str, Any] = field(default_factory=dict)
    file: str = ""

    # What the checks below make of the settings

    fields: Mapping[str, FieldSpec] = field(init=False, repr=False)
    priors: Mapping[str, Parameter] = field(init=False, repr=False)
    noises: Mapping[str, Noise] = field(init=False, repr=False)
    direct: tuple[str, ...] = field(init=False, repr=False)  # type: ignore[misc]
    physics: Mapping[str, Expression] = field(init=False, repr=False)
    derivatives: Mapping[str, Mapping[str, tuple[str, str]]] = field(init=False, repr=False)
    truth: Mapping[str, Expression] = field(init=False, repr=False)
    sources: Mapping[str, Source] = field(init=False, repr=False)
    tests: Mapping[str, Source] = field(init=False, repr=False)
    held: HoldOut = field(init=False, repr=False)

    def __post_init__(self) -> None:
        def keep(**values: Any) -> None:
            for name, value in values.items():
                object.__setattr__(self, name, value)

        self.check_declarations()
        keep(fields={name: FieldSpec(tuple(needs)) for name, needs in self.unknowns.items()})
        keep(
            priors={name: read_prior(values, f"problem.parameters.{name}") for name, values in self.parameters.items()}
        )
        keep(direct=tuple(self.unknowns))
        keep(
            physics={name: self.expression(text, f"problem.equations.{name}") for name, text in self.equations.items()}
        )
        keep(derivatives={name: self.fields_in(found) for name, found in self.physics.items()})
        quantities = [*self.unknowns, *self.equations]
        for group, entries in (("observed", self.observed), ("exact", self.exact), ("test", self.test)):
            for name in entries:
                if name not in quantities:
                    raise ConfigError(
                        f"problem.{group}.{name} is neither a field nor an equation: {nearest(name, quantities)}"
                    )
        keep(
            sources={
                name: self.source(values, f"problem.observed.{name}", name) for name, values in self.observed.items()
            }
        )
        keep(tests={name: self.source(values, f"problem.test.{name}", name) for name, values in self.test.items()})
        if not self.sources:
            raise ConfigError("problem.observed is empty: name at least one quantity with its readings.")
        keep(
            truth={name: self.of_coordinates(text, f"problem.exact.{name}", name) for name, text in self.exact.items()}
        )
        noises = {name: self.noise_of(name) for name in quantities}
        keep(noises=noises, held=construct(HoldOut, self.hold_out, "problem.hold_out"))
        for name, needs in self.slices.items():
            for coordinate, value in needs.items():
                self.check_coordinate(coordinate, float(value), f"problem.slices.{name}")
        for name, point in self.probe.items():
            if name not in quantities or len(point) != len(self.coordinates_of(name)):
                raise ConfigError(
                    f"problem.probe.{name}={point} should be a quantity with one number for each coordinate."
                )
        for name in self.grid:
            if name not in self.coordinates:
                raise ConfigError(f"problem.grid.{name} is no coordinate: {nearest(name, self.coordinates)}")

    # Checks

    def check_declarations(self) -> None:
        """Names are usable and distinct, ranges are ranges, fields depend on coordinates."""
        seen: dict[str, str] = {}
        groups = ("coordinates", "unknowns", "parameters", "constants", "equations")
        for group in groups:
            for name in getattr(self, group):
                check_name(name, f"problem.{group}")
                if name in seen:
                    raise ConfigError(
                        f"problem.{group}.{name} has the name of one of problem.{seen[name]}: rename one."
                    )
                seen[name] = group
        if not self.coordinates or not self.unknowns:
            raise ConfigError("problem needs at least one of coordinates and one of unknowns.")
        for name, bounds in self.coordinates.items():
            if len(bounds) != 2 or not bounds[0] < bounds[1]:
                raise ConfigError(f"problem.coordinates.{name}={bounds} should be a range [low, high] with low < high.")
        for name, needs in self.unknowns.items():
            for coordinate in needs:
                if coordinate not in self.coordinates:
                    advice = nearest(coordinate, self.coordinates)
                    raise ConfigError(f"problem.unknowns.{name}: {coordinate} is no coordinate: {advice}")
            if not needs or len(set(needs)) < len(needs):
                raise ConfigError(
                    f"problem.unknowns.{name}={needs} should name the coordinates of the field, each once: "
                    "an unknown number belongs under problem.parameters."
                )

    def check_coordinate(self, name: str, value: float, label: str) -> None:
        if name not in self.coordinates:
            raise ConfigError(f"{label}: {name} is no coordinate: {nearest(name, self.coordinates)}")
        low, high = self.coordinates[name]
        if not low <= value <= high:
            raise ConfigError(f"{label}: {name}={value:g} is outside of the range [{low}, {high}] of {name}.")

    def expression(self, text: str | float, label: str) -> Expression:
        """An expression of fields, their derivatives, parameters, constants and coordinates."""
        found = parse(str(text), label)
        check_names(found, [*self.coordinates, *self.parameters, *self.constants], self.unknowns, label)
        return found

    def fields_in(self, expression: Expression) -> dict[str, tuple[str, str]]:
        """The fields and derivatives in an expression: the field and what is asked of it, by name."""
        found = {}
        for name in sorted(expression.names):
            owner = derivative_of(name, self.unknowns)
            if name in self.unknowns:
                found[name] = (name, VALUE)
            elif owner is not None:
                found[name] = (owner[0], name.removeprefix(f"{owner[0]}_"))
        return found

    def of_coordinates(self, text: str | float, label: str, quantity: str) -> Expression:
        """An expression without unknowns."""
        found = parse(str(text), label)
        needs = self.coordinates_of(quantity)
        check_names(found, [*needs, *self.constants], {}, label)
        return found

    def source(self, values: Any, label: str, quantity: str) -> Source:
        if not isinstance(values, Mapping):
            raise ConfigError(f"{label} should say where readings come from: {{file: ...}} or {{value: ...}}.")
        found = construct(Source, values, label)
        needs = self.coordinates_of(quantity)
        for name, fixed in {**{n: [v] for n, v in found.at.items()}, **found.repeat}.items():
            if name not in needs:
                raise ConfigError(f"{label}: {quantity} does not depend on {name}: {nearest(name, needs)}")
            for value in fixed:
                self.check_coordinate(name, float(value), label)
        for name in found.columns:
            if name not in (*needs, quantity):
                raise ConfigError(f"{label}.columns: {name} is not read: {nearest(name, [*needs, quantity])}")
        if found.value is not None:
            self.of_coordinates(found.value, f"{label}.value", quantity)
        return found

    def noise_of(self, quantity: str) -> Noise:
        if quantity not in self.sources:
            return UNOBSERVED
        label, given = f"problem.observed.{quantity}.noise", self.sources[quantity].noise
        if given is None:
            raise ConfigError(
                f"{label} is missing: write a number, {{kind: learned}}, {{kind: exact, scale: 0.01}} ..."
            )
        if given == "exact":
            given = {"kind": "exact", "scale": 0.01}
        elif isinstance(given, str):
            given = {"kind": given}
        elif not isinstance(given, Mapping):
            given = {"scale": given}
        found = construct(NoiseSettings, given, label).build()
        if found.kind == "heteroscedastic":
            carrier = found.group or quantity
            if carrier not in self.unknowns or not set(self.unknowns[carrier]) <= set(self.coordinates_of(quantity)):
                fitting = [f for f, n in self.unknowns.items() if set(n) <= set(self.coordinates_of(quantity))]
                raise ConfigError(
                    f"{label}.group={carrier!r} should be the field whose network predicts the noise too, depending on "
                    f"no more than {quantity} does: one of {', '.join(fitting) or 'none'}."
                )
        return found

    # The problem

    @property
    def noise(self) -> Mapping[str, Noise]:
        return self.noises

    @property
    def scalars(self) -> Mapping[str, Parameter]:
        return self.priors

    @property
    def probes(self) -> Mapping[str, Sequence[float]]:
        return self.probe

    @property
    def n_calibration_points(self) -> int:
        return self.held.calibration if any(item.file for item in self.sources.values()) else 0

    def coordinates_of(self, quantity: str) -> tuple[str, ...]:
        if quantity in self.unknowns:
            return tuple(self.unknowns[quantity])
        needed = {name for name in self.physics[quantity].names if name in self.coordinates}
        for owner, _ in self.derivatives[quantity].values():
            needed |= set(self.unknowns[owner])
        return tuple(name for name in self.coordinates if name in needed)

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        if quantity in self.unknowns:
            return unknowns[quantity](x)
        values: dict[str, Tensor] = {name: x[..., i, None] for i, name in enumerate(self.coordinates_of(quantity))}
        values |= {name: x.new_full((), float(value)) for name, value in self.constants.items()}
        values |= unknowns.parameters
        jets: dict[str, Any] = {}
        for name, (owner, suffix) in self.derivatives[quantity].items():
            if owner not in jets:
                jets[owner] = unknowns[owner].at(x)
            values[name] = getattr(jets[owner], suffix)
        found = self.physics[quantity].evaluate(values)
        return found.expand(*torch.broadcast_shapes(found.shape, (1, x.shape[-2], 1)))

    def dataset(self, rng: np.random.Generator) -> Dataset:
        return {name: self.quantity(name, rng) for name in self.noise}

    # Data

    def quantity(self, name: str, rng: np.random.Generator) -> QuantityData:
        """Everything known about one quantity."""
        needs, source = self.coordinates_of(name), self.sources.get(name)
        nothing = Readings(np.empty((0, len(needs))), np.empty((0, 1)))
        train = calibration = validation = nothing
        if source is not None:
            x, y, copies = self.read(name, source, f"problem.observed.{name}")
            if source.file is None:
                train = Readings(x, y, copies)
            else:
                train, calibration, validation = self.split(name, x, y, copies, rng)
        if name in self.tests:
            test_x, test_y, _ = self.read(name, self.tests[name], f"problem.test.{name}")
            order = np.lexsort(test_x.T[::-1])
            test_x, test_y = test_x[order], test_y[order]
        else:
            size = DEFAULT_GRID.get(len(needs), 5)
            fixed = {} if source is None else {c: [value] for c, value in source.at.items()}
            if source is not None and source.file is None:
                fixed |= source.repeat  # a condition at some places is judged there alone
            axes = [
                np.array(fixed[c], dtype=float) if c in fixed else np.linspace(low, high, self.grid.get(c, size))
                for c, (low, high) in ((c, self.coordinates[c]) for c in needs)
            ]
            test_x = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)
            test_y = None
        reference = (
            self.evaluate(self.truth[name], needs, test_x) if name in self.truth else np.full((len(test_x), 1), np.nan)
        )
        noise = self.noise[name]
        if test_y is None:  # readings as noisy as those in training, where it is known how noisy these are
            test_y = reference.copy()
            if noise.kind == "known" and noise.family == "gaussian":
                test_y = test_y + noise.scale * rng.standard_normal(test_y.shape)
        return QuantityData(
            train=train,
            calibration=calibration,
            test=Readings(test_x, test_y),
            reference=reference,
            splits={"id": np.ones(len(test_x), dtype=bool), **self.slices_of(needs, test_x)},
            validation=validation,
            coordinates=needs,
            clean_rl2e=True,
        )

    def read(self, name: str, source: Source, label: str) -> tuple[Array, Array, int]:
        """Points, readings and how many rows stand for one reading."""
        needs = self.coordinates_of(name)
        free = [c for c in needs if c not in source.at and c not in source.repeat]
        values: dict[str, Array] = {}
        if source.file is not None:
            path = Path(self.file).parent / source.file
            columns = {key: source.columns.get(key, key) for key in [*free, name]}
            found = read_columns(path, list(dict.fromkeys(columns.values())), label)
            values = {key: found[column] for key, column in columns.items()}
            inside(values, {c: (float(a), float(b)) for c, (a, b) in self.coordinates.items()}, path, label)
            count = len(values[name])
        else:
            values = dict(zip(free, spread(source.points, [self.coordinates[c] for c in free]), strict=True))
            count = len(next(iter(values.values()))) if free else 1
        values |= {c: np.full(count, float(value)) for c, value in source.at.items()}
        repeats = np.meshgrid(*source.repeat.values(), indexing="ij") if source.repeat else []
        copies = repeats[0].size if repeats else 1
        values = {key: np.tile(part, copies) for key, part in values.items()}
        for c, part in zip(source.repeat, repeats, strict=True):
            values[c] = np.repeat(part.ravel().astype(float), count)
        x = np.stack([values[c] for c in needs], axis=1) if needs else np.empty((count, 0))
        if source.value is not None:
            y, copies = self.evaluate(self.of_coordinates(source.value, f"{label}.value", name), needs, x), 1
        else:
            y = values[name][:, None]
        return x, y, copies

    def split(
        self, name: str, x: Array, y: Array, copies: int, rng: np.random.Generator
    ) -> tuple[Readings, Readings, Readings]:
        """Set readings aside, all copies of one together; those set aside count every copy."""
        count = len(x) // copies
        sizes = (self.held.calibration, self.held.validation)
        if sum(sizes) >= count:
            raise ConfigError(
                f"problem.hold_out sets {sum(sizes)} readings aside, and problem.observed.{name} has {count}: too few."
            )
        order = rng.permutation(count)
        cuts = np.split(order, np.cumsum(sizes))
        rows = [np.concatenate([np.sort(part) + k * count for k in range(copies)]) for part in cuts]
        calibration, validation, train = (Readings(x[part], y[part]) for part in rows)
        return Readings(train.x, train.y, copies), calibration, validation

    def evaluate(self, expression: Expression, needs: Sequence[str], x: Array) -> Array:
        """An expression of coordinates at points, ``[N, 1]``."""
        columns = {name: torch.as_tensor(x[:, i, None]) for i, name in enumerate(needs)}
        constants = {name: torch.tensor(float(value), dtype=torch.float64) for name, value in self.constants.items()}
        found: Array = expression.evaluate({**columns, **constants}).expand(len(x), 1).numpy().copy()
        return found

    def slices_of(self, needs: Sequence[str], x: Array) -> dict[str, Array]:
        """Masks of the lines asked for: the nearest of the grid."""
        found = {}
        for name, fixed in self.slices.items():
            if set(fixed) <= set(needs):
                columns = [(x[:, needs.index(c)], float(value)) for c, value in fixed.items()]
                nearest_lines = [part == part[np.abs(part - value).argmin()] for part, value in columns]
                found[name] = np.logical_and.reduce(nearest_lines)
        return found


def spread(n: int, bounds: Sequence[Sequence[float]]) -> list[Array]:
    """Points that fill a box evenly: equidistant in one dimension, a Halton sequence in more."""
    if len(bounds) <= 1:
        return [np.linspace(low, high, n) for low, high in bounds]
    unit = qmc.Halton(len(bounds), scramble=False).random(n + 1)[1:]
    return [low + (high - low) * column for (low, high), column in zip(bounds, unit.T, strict=True)]


def read_prior(values: Mapping[str, Any], label: str) -> Parameter:
    """The prior of an unknown number, in the words of the YAML file."""
    kind = values.get("prior")
    if kind not in PRIORS:
        raise ConfigError(f"{label}.prior={kind!r} is not a prior: {nearest(str(kind), PRIORS)}")
    names = PRIORS[kind]
    known = ("prior", *names, "reference", "start")
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"{label}.{name} is not a setting of a {kind} prior: {nearest(name, known)}")
        if name != "prior" and (
            isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value)
        ):
            raise ConfigError(f"{label}.{name}={value!r} should be a finite number.")
    for name in names:
        if name not in values:
            raise ConfigError(f"{label}.{name} is missing: a {kind} prior has {names[0]} and {names[1]}.")
    a, b = float(values[names[0]]), float(values[names[1]])
    if kind == "uniform" and not a < b:
        raise ConfigError(f"{label}: low={a:g} should be less than high={b:g}.")
    if kind != "uniform" and b <= 0:
        raise ConfigError(f"{label}.{names[1]}={b:g} should be positive.")
    if kind == "lognormal" and a <= 0:
        raise ConfigError(f"{label}.median={a:g} should be positive.")
    found = Parameter(kind, a, b, values.get("reference"), values.get("start"))
    if found.start is not None and not np.isfinite(_standard(found)):
        raise ConfigError(f"{label}.start={found.start:g} is impossible under the prior.")
    return found


def _standard(parameter: Parameter) -> float:
    try:
        return parameter.standard(parameter.start or 0.0)
    except ValueError:
        return float("nan")
