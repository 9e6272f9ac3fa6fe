"""A problem of your own, described in a YAML file: coordinates, unknowns, equations, observations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.stats import qmc
from torch import Tensor

from sciuq_runner.errors import ConfigError
from sciuq_runner.memory import Need, refuse
from sciuq_runner.physics.data_files import inside, read_columns
from sciuq_runner.physics.expressions import Expression
from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.observations import no_observations, observations_at
from sciuq_runner.physics.problem import Array, Dataset, Observations, PointObservations, QuantityData

from .user_description import Description  # relative for mypy, as there
from .user_settings import DRIFT, Source
from .user_units import advice_on_units

GRID_SIZE = {1: 201, 2: 41}
"""Points of the test grid along each coordinate, by their number; some 2000 in all beyond two."""


@dataclass(frozen=True)
class UserProblem(Description):
    """The physics and the data of what a YAML file describes."""

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        if quantity in self.fields:
            return unknowns[quantity](x)
        return self.physics[quantity].observe(unknowns, x)

    @property
    def n_calibration_points(self) -> int:
        return min((item.calibration for item in self.held.values() if item.calibration), default=0)

    def dataset(self, rng: np.random.Generator) -> Dataset:
        return {name: self.quantity(name, rng) for name in self.quantities}

    def advice(self, dataset: Dataset) -> list[str]:
        ranges = {name: np.array(bounds) for name, bounds in self.domain.items()}
        return advice_on_units(ranges, {name: dataset[name].train.y for name in self.fields}, self.scales)

    def quantity(self, name: str, rng: np.random.Generator) -> QuantityData:
        """Everything known about one quantity."""
        train, calibration, validation = self.observations(name, rng)
        x, given = self.tested(name)
        reference = np.full((len(x), 1), np.nan)
        if name in self.truth:
            reference = self.evaluate(name, self.truth[name], x, f"problem.exact.{name}")
        noise_std, draws = self.true_noise(name, len(x), rng)
        return QuantityData(
            train=train,
            calibration=calibration,
            test=PointObservations(x, reference + draws if given is None else given),
            reference=reference,
            splits={"id": np.ones(len(x), dtype=bool), **self.slices_of(name, x)},
            validation=validation,
            coordinates=self.coordinates_of(name),
            noise_reference=noise_std,
            clean_rl2e=True,
        )

    def observations(self, name: str, rng: np.random.Generator) -> tuple[Observations, Observations, Observations]:
        """Observations for training, calibration and validation."""
        nothing = no_observations(len(self.coordinates_of(name)))
        if name not in self.sources:
            return nothing, nothing, nothing
        source, label = self.sources[name], f"problem.observed.{name}"
        if source.value is not None:
            free = {c: self.domain[c] for c in self.free(name, source)}
            if not free and (source.points or 1) > 1:
                raise ConfigError(
                    f"{label}.points={source.points} has no meaning where no coordinate is left free: leave it out, or "
                    "fix fewer."
                )
            n = (source.points or 100) if free else 1
            copies = math.prod(len(values) for values in source.repeat.values())
            require_memory(f"{label}.points={n}", n * copies, len(self.coordinates_of(name)))
            x, _ = self.points(name, source, dict(zip(free, spread(n, list(free.values())), strict=True)), n)
            y = self.evaluate(name, self.known(name, source.value, f"{label}.value"), x, f"{label}.value")
            return PointObservations(x, y), nothing, nothing
        x, y, copies = self.read(name, source, label)
        return self.split(name, x, y, copies, rng)

    def tested(self, name: str) -> tuple[Array, Array | None]:
        """Where a quantity is judged, with observations there if the file gives any."""
        if name in self.tests:
            x, y, _ = self.read(name, self.tests[name], f"problem.test.{name}")
            order = np.lexsort(x.T[::-1])
            return x[order], y[order]
        needs, source = self.coordinates_of(name), self.sources.get(name)
        fixed: dict[str, Sequence[float]] = {}
        if source is not None and name not in self.fields:  # conditions are judged where they hold, fields everywhere
            fixed = {coordinate: [value] for coordinate, value in source.at.items()}
            fixed |= source.repeat if source.value is not None else {}
        size = GRID_SIZE.get(len(needs), max(2, round(2000 ** (1 / len(needs)))))
        count = math.prod(len(fixed[c]) if c in fixed else self.sizes.get(c, size) for c in needs)
        require_memory("problem.grid", count, len(needs))
        axes = [fixed[c] if c in fixed else self.axis(c, size) for c in needs]
        return np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1).astype(float), None

    def axis(self, coordinate: str, size: int) -> Array:
        """Values of a coordinate on the test grid: even, with those of slices among them."""
        low, high = self.domain[coordinate]
        values = np.linspace(low, high, self.sizes.get(coordinate, size))
        for fixed in self.lines.values():
            if coordinate in fixed:
                others = values[~self.is_at(coordinate, values, fixed[coordinate])]
                values = np.sort(np.append(others, fixed[coordinate]))
        return values

    def true_noise(self, name: str, n: int, rng: np.random.Generator) -> tuple[Array | None, Array]:
        """The standard deviation of the noise, where it is known, and draws of it; none where it is not."""
        settings = self.noise_settings.get(name)
        return (None, np.zeros((n, 1))) if settings is None else settings.draw(n, rng)

    def read(self, name: str, source: Source, label: str) -> tuple[Array, Array, int]:
        """Points, observations of a file, and how many rows stand for one observation."""
        path = self.path_of(source)
        columns = {key: source.columns.get(key, key) for key in [*self.free(name, source), name]}
        found = read_columns(path, list(dict.fromkeys(columns.values())), label)
        values = {key: found[column] for key, column in columns.items()}
        y = values.pop(name)
        inside(values, self.domain, path, label)
        x, copies = self.points(name, source, values, len(y))
        return x, np.tile(y, copies)[:, None], copies

    def path_of(self, source: Source) -> Path:
        assert source.file is not None
        try:
            return Path(self.file).parent / Path(source.file).expanduser()
        except RuntimeError as error:
            raise ConfigError(
                f"problem: file={source.file} is in the home folder of a user who is not known here: write the whole "
                "path."
            ) from error

    @property
    def data_files(self) -> tuple[Path, ...]:
        """The file that describes the problem and those that :meth:`dataset` reads, each once."""
        named = [item for item in (*self.sources.values(), *self.tests.values()) if item.file is not None]
        own = [Path(self.file)] if self.file else []
        return tuple(dict.fromkeys([*own, *(self.path_of(item) for item in named)]))

    def points(self, name: str, source: Source, free: Mapping[str, Array], n: int) -> tuple[Array, int]:
        """The ``n`` points given by their free coordinates, for each value of ``repeat``; and how many these are."""
        repeats = np.meshgrid(*source.repeat.values(), indexing="ij")
        copies = repeats[0].size if repeats else 1
        columns = {c: np.tile(part, copies) for c, part in free.items()}
        columns |= {c: np.full(n * copies, value) for c, value in source.at.items()}
        columns |= {c: np.repeat(part.ravel(), n) for c, part in zip(source.repeat, repeats, strict=True)}
        return np.stack([columns[c] for c in self.coordinates_of(name)], axis=1), copies

    def split(
        self, name: str, x: Array, y: Array, copies: int, rng: np.random.Generator
    ) -> tuple[Observations, Observations, Observations]:
        """Set observations aside; one that holds at several points is then compared at one of them."""
        count, held = len(x) // copies, self.held[name]
        if held.calibration + held.validation >= count:
            raise ConfigError(
                f"problem.hold_out sets {held.calibration + held.validation} of the {count} readings of {name} aside: "
                "leave at least one for training."
            )
        cuts = np.cumsum([held.calibration, held.validation])
        calibration, validation, train = np.split(rng.permutation(count), cuts)
        rows = [part + count * rng.integers(copies, size=len(part)) for part in (calibration, validation)]
        rest = np.concatenate([np.sort(train) + count * k for k in range(copies)])
        drift = self.sources[name].drift or DRIFT * self.unit_of(name).scale
        held_out, validated = (PointObservations(x[part], y[part]) for part in rows)
        return observations_at(x[rest], y[rest], copies, drift), held_out, validated

    def evaluate(self, quantity: str, expression: Expression, x: Array, label: str) -> Array:
        """An expression of the coordinates of a quantity at points, ``[N, 1]``."""
        names = self.coordinates_of(quantity)
        columns = {name: torch.as_tensor(x[:, i, None]) for i, name in enumerate(names)}
        found: Array = expression.evaluate(columns).expand(len(x), 1).numpy().copy()
        if not np.isfinite(found).all():
            point = x[np.argmin(np.isfinite(found[:, 0]))]
            place = ", ".join(f"{name}={value:g}" for name, value in zip(names, point, strict=True))
            raise ConfigError(f"{label}={expression.text} gives no finite number at {place}.")
        return found

    def is_at(self, coordinate: str, x: Array, value: float) -> Array:
        """Where a coordinate has a value, but for rounding in a file."""
        low, high = self.domain[coordinate]
        return np.asarray(np.abs(x - value) <= 1e-6 * (high - low))

    def slices_of(self, quantity: str, x: Array) -> dict[str, Array]:
        """Masks of the lines asked for, as far as the test data have them."""
        found: dict[str, Array] = {}
        needs = self.coordinates_of(quantity)
        for name, fixed in self.lines.items():
            if set(fixed) <= set(needs):
                mask = np.logical_and.reduce([self.is_at(c, x[:, needs.index(c)], v) for c, v in fixed.items()])
                found |= {name: mask} if mask.sum() > 2 else {}
        return found


def require_memory(key: str, n_points: int, n_coordinates: int) -> None:
    """Refuse points that do not even fit by themselves: each is made, copied and read with its value."""
    refuse([Need(key, f"{n_points} points", 4.0 * 8 * n_points * (n_coordinates + 1))])


def spread(n: int, bounds: Sequence[tuple[float, float]]) -> list[Array]:
    """Points that fill a box evenly: equidistant in one dimension, a Halton sequence in more."""
    if len(bounds) <= 1:
        return [np.linspace(low, high, n) for low, high in bounds]
    unit = qmc.Halton(len(bounds), scramble=False).random(n + 1)[1:]
    return [low + (high - low) * column for (low, high), column in zip(bounds, unit.T, strict=True)]
