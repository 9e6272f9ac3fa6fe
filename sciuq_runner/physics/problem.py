"""What a problem is: quantities, data and physics. It knows nothing of models and methods.

All that a problem is made of can be imported from here.
"""

from __future__ import annotations

import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np
from torch import Tensor

from sciuq_runner.physics.dataset import Dataset, History, QuantityData
from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.noise import InverseGamma, Noise
from sciuq_runner.physics.observations import (
    Array,
    Observations,
    OperatorPairs,
    PointObservations,
    Realisations,
    RepeatedObservations,
)
from sciuq_runner.physics.parameters import Parameter
from sciuq_runner.physics.units import PLAIN, Unit

if TYPE_CHECKING:
    from sciuq_runner.physics.standardisation import Standardisation

__all__ = [
    "Array",
    "Dataset",
    "FieldSpec",
    "History",
    "InverseGamma",
    "Noise",
    "Observations",
    "Operator",
    "OperatorPairs",
    "Parameter",
    "PointObservations",
    "Problem",
    "ProblemKind",
    "QuantityData",
    "Realisations",
    "RepeatedObservations",
    "Unit",
    "Unknowns",
]


ProblemKind: TypeAlias = Literal["fields", "random fields", "operator"]
"""What is unknown: fields, fields of which there are many realisations, or an operator between functions."""


@dataclass(frozen=True)
class FieldSpec:
    """One unknown field: the coordinates it depends on and how many components it has; and the units in which models
    see them, those of the coordinates in their order."""

    coordinates: tuple[str, ...]
    n_outputs: int = 1
    unit: Unit = PLAIN
    units: tuple[Unit, ...] = ()

    @property
    def has_units(self) -> bool:
        return any(unit != PLAIN for unit in (self.unit, *self.units))


@dataclass(frozen=True)
class Operator:
    """A map from the function ``input`` to the quantity ``output``; both are standardised, see
    :meth:`Problem.transforms`, and the places of the former's standardisation are the sensors that read it. What is
    predicted of new functions are observations with their noise if these are what is known of all others (``noisy``).
    The output may be known to be ``positive`` whatever the input."""

    input: str
    output: str
    noisy: bool = False
    positive: bool = False


def is_known(module: str) -> bool:
    """Whether a module is ours or Python's."""
    return module.split(".")[0] in {__name__.split(".")[0], *sys.stdlib_module_names}


def source_of(module: str) -> str:
    """Nothing of one that has no file."""
    try:
        return inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return ""


@dataclass(frozen=True)
class Problem(ABC):
    """A question about some fields, with the data to answer it.

    Subclasses are frozen dataclasses whose fields are the settings of ``problem.*``.
    """

    fields: Mapping[str, FieldSpec] = field(init=False, repr=False)
    direct: ClassVar[tuple[str, ...]] = ()  # quantities that are fields themselves
    split_label: ClassVar[str] = ""  # what the numbers of :attr:`split_values` are
    random_inputs: ClassVar[tuple[str, ...]] = ()  # random quantities that all others follow from, where there are any
    calibration_setting: ClassVar[str] = "problem.n_calibration"  # what sets how many observations are held out

    @property
    def scalars(self) -> Mapping[str, Parameter]:
        """The parameters of the equation, unknown beside the fields."""
        return {}

    @property
    def kind(self) -> ProblemKind:
        """What a model of it has to make."""
        if self.operator is not None:
            return "operator"
        return "random fields" if self.random_inputs else "fields"

    @property
    def operator(self) -> Operator | None:
        """The operator to be learned, where there is one."""
        return None

    @property
    def probes(self) -> Mapping[str, Sequence[float]]:
        """Quantities whose prior and posterior at one point are shown, with the point."""
        return {}

    @property
    def data_files(self) -> Sequence[Path]:
        """The files that :meth:`dataset` reads, if any: a run is resumed only if they are as they were."""
        return ()

    @property
    def laws(self) -> str:
        """What tells its equations from those of others, so that what was learned under them is not mistaken: of
        classes that are not ours, their modules and all settings. What these modules import does not count."""
        theirs = dict.fromkeys(kind.__module__ for kind in type(self).__mro__ if not is_known(kind.__module__))
        sources = [source_of(module) for module in theirs]
        with np.printoptions(threshold=sys.maxsize):
            return "".join([*sources, repr(self)]) if theirs else ""

    @abstractmethod
    def dataset(self, rng: np.random.Generator) -> Dataset:
        """Make or load the data; the same generator state gives the same data."""

    def history(self, rng: np.random.Generator, n: int) -> Mapping[str, History]:
        """``n`` earlier realisations of some quantities, where there are any."""
        return {}

    def noise_of_history(self) -> Mapping[str, float | None]:
        """The noise of the history of every quantity that has one, see :class:`History`; a problem that takes long to
        make its history says this without it."""
        return {name: item.noise for name, item in self.history(np.random.default_rng(0), 1).items()}

    def pairs(self) -> OperatorPairs | None:
        """Functions and what an operator made of them, from which it can be learned beforehand."""
        return None

    def imbalance(self, functions: Array, x: Array, values: Array) -> Array | None:
        """How far an operator's outputs ``values[N, R]`` at ``x[N, D]`` are from the equation that they should fulfil
        with their inputs ``functions[R, S]``: one number each, where there is such an equation."""
        return None

    @property
    def split_values(self) -> Mapping[str, float]:
        """A number that tells the splits of the test functions apart, for a figure, if there is one."""
        return {}

    def transforms(self) -> Mapping[str, Standardisation]:
        """The units in which quantities and functions are compared and learned; all others as they are."""
        return {}

    @abstractmethod
    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        """Return the noise-free ``quantity`` at the points ``x[N, D]`` given the unknowns, ``[M, N, D_q]``.

        The columns of x are ``coordinates_of(quantity)``; a field takes those that it depends on. What is found at a
        point must not depend on the others: they are evaluated in parts.
        """

    def unit_of(self, quantity: str) -> Unit:
        """What counts as one of a quantity."""
        return self.fields[quantity].unit if quantity in self.fields else PLAIN

    def advice(self, dataset: Dataset) -> list[str]:
        """Sentences on units for the person who set the problem, before any work."""
        return []

    def coordinates_of(self, quantity: str) -> tuple[str, ...]:
        """What a quantity depends on; those of the field of the same name unless the problem says otherwise."""
        return self.fields[quantity].coordinates

    @property
    @abstractmethod
    def noise(self) -> Mapping[str, Noise]:
        """The noise of every observed quantity, as the model is to assume it."""

    @property
    @abstractmethod
    def n_calibration_points(self) -> int:
        """How many observations the calibration split holds."""
