"""The YAML file of a problem as a whole: its parts, read one after another, and checked against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar

from annotated_types import Ge
from pydantic import FiniteFloat

from sciuq_runner.errors import ConfigError, nearest
from sciuq_runner.physics.expression_names import check_names, derivative_of
from sciuq_runner.physics.expressions import Expression
from sciuq_runner.physics.fields import order_of
from sciuq_runner.physics.problem import FieldSpec, Noise, Parameter, Problem, Unit
from sciuq_runner.physics.python_equations import PythonEquation, is_python, read_function

from .user_settings import (  # relative: so mypy, which knows this folder by its place in the tree, follows it
    Equation,
    HoldOut,
    NoiseSettings,
    Source,
    check_distinct,
    check_shared_scales,
    check_test_settings,
    entries,
    read_equation,
    read_expression,
    read_hold_out,
    read_noise,
    read_prior,
    read_ranges,
    read_slices,
    read_source,
    read_units,
)
from .user_units import guessed_unit

UNOBSERVED, PRIOR_SCALE = Noise("exact", 1.0), "prior"
PREDICTED_COLUMNS = (
    *("mean", "std", "aleatoric_std", "epistemic_std", "lower", "upper"),
    *("cal_mean", "cal_std", "cal_lower", "cal_upper"),
)
"""What stands beside the coordinates of points in a table of predictions."""

PARTS = (
    *("domain", "scales", "fields", "scalars", "numbers", "physics", "sources", "noise", "held"),
    *("truth", "tests", "sizes", "lines", "probes"),
)
"""What the file says, in the order in which one part needs another."""


@dataclass(frozen=True)
class Description(Problem):
    """Everything that a YAML file says about a problem.

    - ``coordinates``: their names and ranges; ``unknowns``: fields and the coordinates each depends on;
    - ``parameters``: unknown numbers with a prior; ``constants``: known ones;
    - ``equations``: further quantities as expressions of fields, derivatives (``u_xx``), parameters and coordinates;
    - ``observed``: for fields and equations, where observations come from and how noisy they are;
    - ``exact`` and ``test``: what is known of the truth, for metrics and figures only;
    - ``units``: what counts as one, of coordinates, fields and equations;
    - ``grid``: points of the test grid along each coordinate; ``slices``: lines of it to judge and draw by themselves;
    - ``probe``: quantities whose prior and posterior at one point are drawn;
    - ``hold_out``: observations of every file set aside for calibration and validation.

    Names of data files are relative to the folder of ``file``, the YAML file itself; without it to the working folder.
    """

    coordinates: dict[str, Any]
    unknowns: dict[str, Any]
    observed: dict[str, Any]
    parameters: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    equations: dict[str, Any] = field(default_factory=dict)
    exact: dict[str, Any] = field(default_factory=dict)
    test: dict[str, Any] = field(default_factory=dict)
    units: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, Any] = field(default_factory=dict)
    slices: dict[str, Any] = field(default_factory=dict)
    probe: dict[str, Any] = field(default_factory=dict)
    hold_out: dict[str, Any] = field(default_factory=dict)
    file: str = ""

    calibration_setting: ClassVar[str] = "problem.hold_out.calibration"
    synonyms: ClassVar[Mapping[str, str]] = {  # what others call them
        **dict.fromkeys(("fields", "variables", "functions"), "unknowns"),
        **dict.fromkeys(("domain", "geometry", "ranges"), "coordinates"),
        **dict.fromkeys(("data", "readings", "observations", "measurements"), "observed"),
        **dict.fromkeys(("pde", "ode", "residuals", "physics"), "equations"),
        **dict.fromkeys(("params", "coefficients", "priors"), "parameters"),
        **dict.fromkeys(("solution", "truth", "reference"), "exact"),
    }

    def __post_init__(self) -> None:
        """Read every part once, so that a mistake is found before any work."""
        self.check_names()
        for part in PARTS:
            getattr(self, part)
        self.check_everything_is_used()

    @property
    def laws(self) -> str:
        return f"{super().laws}{self.equations} {self.constants} {self.parameters} {self.unknowns}"

    # What the file says, part by part

    @cached_property
    def domain(self) -> Mapping[str, tuple[float, float]]:
        """The range of every coordinate."""
        return read_ranges(self.coordinates, "problem.coordinates")

    @cached_property  # type: ignore[misc]
    def fields(self) -> Mapping[str, FieldSpec]:
        found = entries(self.unknowns, list[str], "problem.unknowns")
        for name, needs in found.items():
            for coordinate in needs:
                self.check_coordinate(coordinate, f"problem.unknowns.{name}")
            if not needs or len(set(needs)) < len(needs):
                raise ConfigError(
                    f"problem.unknowns.{name}={needs} should name the coordinates of the field, each once: "
                    "an unknown number belongs under problem.parameters."
                )
        return {
            name: FieldSpec(tuple(needs), 1, self.unit_of(name), tuple(self.unit_of(item) for item in needs))
            for name, needs in found.items()
        }

    @cached_property
    def scales(self) -> Mapping[str, Unit]:
        """The units, read."""
        known = [*self.coordinates, *self.unknowns, *self.equations]
        for name in self.units:
            if name not in known:
                advice = nearest(str(name), known)
                raise ConfigError(f"problem.units.{name} is neither a coordinate nor a field nor an equation: {advice}")
        return read_units(self.units, self.equations, "problem.units")

    def unit_of(self, name: str) -> Unit:
        """What counts as one of a coordinate, a field or an equation; of the last it follows from the others."""
        if self.scales and name in self.equations and name not in self.scales:
            return self.guesses[name]
        return self.scales.get(name, Unit())

    @cached_property
    def guesses(self) -> Mapping[str, Unit]:
        """Units of equations, as those of their fields and coordinates let expect them."""
        return {
            name: guessed_unit(
                partial(self.observe, name), self.fields, self.scalars, [self.domain[c] for c in item.coordinates]
            )
            for name, item in self.physics.items()
        }

    @property
    def direct(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.fields)

    @cached_property
    def scalars(self) -> Mapping[str, Parameter]:
        self.check_no_derivatives("parameters")
        return {name: read_prior(values, f"problem.parameters.{name}") for name, values in self.parameters.items()}

    @cached_property
    def numbers(self) -> Mapping[str, float]:
        """The constants."""
        self.check_no_derivatives("constants")
        return entries(self.constants, float, "problem.constants")

    @cached_property
    def physics(self) -> Mapping[str, Equation | PythonEquation]:
        """The equations, read."""
        return {name: self.equation(text, f"problem.equations.{name}") for name, text in self.equations.items()}

    def equation(self, text: Any, label: str) -> Equation | PythonEquation:
        """One of the equations: an expression, or the name of a Python function."""
        depends = {name: spec.coordinates for name, spec in self.fields.items()}
        known = self.domain, depends, list(self.scalars), self.numbers, label
        return read_function(text, *known) if is_python(text) else read_equation(text, *known, self.equations)

    @cached_property
    def quantities(self) -> tuple[str, ...]:
        """All that is predicted: the fields, then the equations."""
        return (*self.fields, *self.physics)

    def coordinates_of(self, quantity: str) -> tuple[str, ...]:
        return self.fields[quantity].coordinates if quantity in self.fields else self.physics[quantity].coordinates

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """Where the observations of every observed quantity come from."""
        if not self.observed:
            raise ConfigError("problem.observed is empty: name at least one quantity with its readings.")
        return {name: self.source(name, values, "observed") for name, values in self.observed.items()}

    @cached_property
    def tests(self) -> Mapping[str, Source]:
        """Where test observations come from that are given."""
        for name, values in self.test.items():
            check_test_settings(values, f"problem.test.{name}")
        return {name: self.source(name, values, "test") for name, values in self.test.items()}

    def source(self, quantity: str, values: Any, group: str) -> Source:
        label = f"problem.{group}.{quantity}"
        self.check_quantity(quantity, group)
        found = read_source(values, label)
        needs = self.coordinates_of(quantity)
        for name, given in found.fixed.items():
            if name not in needs:
                raise ConfigError(f"{label}: {quantity} does not depend on {name}: {nearest(name, needs)}")
            for value in given:
                self.check_inside(name, value, label)
        read = [*self.free(quantity, found), quantity]
        for name in found.columns:
            if name not in read:
                raise ConfigError(f"{label}.columns.{name} is not read from the file: {nearest(name, read)}")
        if found.file is not None:
            owners: dict[str, str] = {}
            for name in read:
                column = found.columns.get(name, name)
                if owners.setdefault(column, name) != name:
                    raise ConfigError(
                        f"{label}.columns: the column {column!r} cannot be {owners[column]} and {name} at once: name "
                        "the column of each."
                    )
        if found.value is not None:
            self.known(quantity, found.value, f"{label}.value")
        return found

    def free(self, quantity: str, source: Source) -> list[str]:
        """The coordinates that a file must give, or over which points are spread."""
        return [name for name in self.coordinates_of(quantity) if name not in source.fixed]

    def known(self, quantity: str, text: Any, label: str) -> Expression:
        """An expression of the coordinates of a quantity, without unknowns."""
        found = read_expression(text, self.numbers, label)
        check_names(found, [*self.coordinates_of(quantity), *self.numbers], {}, label)
        return found

    @cached_property
    def noise(self) -> Mapping[str, Noise]:
        settings = self.noise_settings
        found = {
            name: settings[name].build(self.unit_of(name).scale) if name in settings else UNOBSERVED
            for name in self.quantities
        }
        check_shared_scales(found, "problem.observed")
        for name, noise in found.items():
            if noise.kind == "learned" and (noise.group or name) == PRIOR_SCALE:
                raise ConfigError(
                    f"problem.observed.{name}.noise.group should have another name than {PRIOR_SCALE!r}, under which "
                    f"the scale of the weights is found: {name}_noise, say."
                )
        for name, noise in found.items():
            if noise.kind == "heteroscedastic":
                self.check_carrier(name, noise.group or name, f"problem.observed.{name}.noise")
        return found

    @cached_property
    def noise_settings(self) -> Mapping[str, NoiseSettings]:
        return {name: read_noise(item.noise, f"problem.observed.{name}.noise") for name, item in self.sources.items()}

    def check_carrier(self, quantity: str, carrier: str, label: str) -> None:
        """Noise that varies is a further output of the network of a field."""
        needs = set(self.coordinates_of(quantity))
        needs -= set(self.sources[quantity].repeat)  # an observation has one noise, wherever it holds
        fitting = [name for name, spec in self.fields.items() if set(spec.coordinates) <= needs]
        if carrier not in fitting:
            raise ConfigError(
                f"{label}.group={carrier!r} should be the field whose network predicts the noise too, depending on "
                f"no more than {quantity} does: one of {', '.join(fitting) or 'none'}."
            )

    @cached_property
    def held(self) -> Mapping[str, HoldOut]:
        """What is set aside of every quantity read from a file."""
        return read_hold_out(self.hold_out, self.sources, "problem")

    @cached_property
    def truth(self) -> Mapping[str, Expression]:
        """Exact solutions."""
        for name in self.exact:
            self.check_quantity(name, "exact")
        return {name: self.known(name, text, f"problem.exact.{name}") for name, text in self.exact.items()}

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Points of the test grid along the coordinates for which the file says it."""
        for name in self.grid:
            self.check_coordinate(name, "problem.grid")
        return entries(self.grid, Annotated[int, Ge(2)], "problem.grid")

    @cached_property
    def lines(self) -> Mapping[str, Mapping[str, float]]:
        """Slices: the coordinates that each fixes."""
        found = read_slices(self.slices, "problem.slices")
        for name, fixed in found.items():
            for coordinate, value in fixed.items():
                self.check_inside(coordinate, value, f"problem.slices.{name}")
        return found

    @cached_property
    def probes(self) -> Mapping[str, Sequence[float]]:
        found = entries(self.probe, list[FiniteFloat], "problem.probe")
        for name, point in found.items():
            self.check_quantity(name, "probe")
            needs = self.coordinates_of(name)
            if len(point) != len(needs):
                raise ConfigError(f"problem.probe.{name}={point} should be one point: [{', '.join(needs)}].")
            for coordinate, value in zip(needs, point, strict=True):
                self.check_inside(coordinate, value, f"problem.probe.{name}")
        return found

    # Checks

    def check_names(self) -> None:
        """Names can be used in expressions, and each means one thing."""
        groups = ("coordinates", "unknowns", "parameters", "constants", "equations")
        check_distinct({group: getattr(self, group) for group in groups}, "problem")
        if not self.coordinates or not self.unknowns:
            raise ConfigError("problem needs at least one of coordinates and one of unknowns.")
        for name in self.coordinates:
            if name in PREDICTED_COLUMNS:
                raise ConfigError(f"problem.coordinates.{name} is the name of a column of predictions: rename it.")
            others = [other for other in self.coordinates if other != name]
            if order_of(name, others) is not None:  # "value" is one of these: it means no derivative at all
                raise ConfigError(f"problem.coordinates.{name} cannot be told apart in derivatives: rename it.")

    def check_no_derivatives(self, group: str) -> None:
        """A number must not look like the derivative of a field."""
        for name in getattr(self, group):
            derivative = derivative_of(name, {field: spec.coordinates for field, spec in self.fields.items()})
            if derivative is not None:
                raise ConfigError(f"problem.{group}.{name} is the name of a derivative of {derivative[0]}: rename it.")

    def check_everything_is_used(self) -> None:
        """Fields and numbers on which nothing observed depends would stay as unknown as before."""
        equations = [self.physics[name] for name in self.sources if name in self.physics]
        fields = set(self.sources).union(*(item.fields for item in equations))
        names = fields.union(*(item.names for item in equations))
        for group, declared in (("unknowns", self.fields), ("parameters", self.scalars)):
            for name in declared:
                if name not in names:
                    raise ConfigError(
                        f"problem.{group}.{name}: nothing under problem.observed depends on {name}: "
                        "observe an equation with it, or leave it out."
                    )

    def check_quantity(self, name: str, group: str) -> None:
        if name not in self.quantities:
            advice = nearest(name, self.quantities)
            raise ConfigError(f"problem.{group}.{name} is neither a field nor an equation: {advice}")

    def check_coordinate(self, name: str, label: str) -> None:
        if name not in self.domain:
            raise ConfigError(f"{label}: {name} is no coordinate: {nearest(name, self.domain)}")

    def check_inside(self, name: str, value: float, label: str) -> None:
        self.check_coordinate(name, label)
        low, high = self.domain[name]
        if not low <= value <= high:
            raise ConfigError(f"{label}: {name}={value:g} is outside of the range [{low:g}, {high:g}] of {name}.")
