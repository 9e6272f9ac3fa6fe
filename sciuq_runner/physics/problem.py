"""What a problem is: quantities, data and physics. It knows nothing of models and methods."""

from __future__ import annotations

import inspect
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from sciuq_runner.physics.fields import Unknowns

if TYPE_CHECKING:
    from sciuq_runner.physics.standardisation import Standardisation

Array = np.ndarray


@dataclass(frozen=True)
class Unit:
    """What counts as one: a number is ``offset`` and so many times ``scale``."""

    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class FieldSpec:
    """One unknown field: the coordinates it depends on and how many components it has; and the units in which models
    see them, those of the coordinates in their order."""

    coordinates: tuple[str, ...]
    n_outputs: int = 1
    unit: Unit = Unit()
    units: tuple[Unit, ...] = ()

    @property
    def has_units(self) -> bool:
        return any(unit != Unit() for unit in (self.unit, *self.units))


@dataclass(frozen=True)
class Parameter:
    r"""One unknown number and its prior, written as a function of a standard normal variable z.

    - ``normal``: :math:`a + b z`;
    - ``lognormal``: :math:`a\, e^{b z}`, positive with median a and a spread of b in its logarithm;
    - ``uniform``: between a and b.

    So every method moves in z, whose prior is N(0, 1) whatever the scale of the weights is.
    """

    prior: Literal["normal", "lognormal", "uniform"]
    a: float
    b: float
    reference: float | None = None  # the truth, where it is known
    start: float | None = None  # where optimisers and chains begin; the prior's median unless given

    def value(self, z: Tensor) -> Tensor:
        """The parameter for standard normal z."""
        match self.prior:
            case "normal":
                return self.a + self.b * z
            case "lognormal":
                return self.a * torch.exp(self.b * z)
            case "uniform":
                return self.a + (self.b - self.a) * torch.special.ndtr(z)

    def standard(self, value: float) -> float:
        """The z of a value."""
        match self.prior:
            case "normal":
                return (value - self.a) / self.b
            case "lognormal":
                return math.log(value / self.a) / self.b
            case "uniform":
                return float(torch.special.ndtri(torch.tensor((value - self.a) / (self.b - self.a)).double()))


@dataclass(frozen=True)
class InverseGamma:
    r"""Hyperprior of a variance: :math:`p(v) \propto v^{-(a+1)} \exp(-1/(b v))`, the paper's (h1, h2) or (h3, h4).

    ``shape`` is a, ``scale`` is b (so that 1/v is Gamma distributed with this shape and scale).
    """

    shape: float
    scale: float


@dataclass(frozen=True)
class Noise:
    r"""The noise of the readings of one quantity.

    - ``known``: the scale is given, one number or one per reading;
    - ``learned``: one scale is inferred together with theta under ``hyperprior`` (``scale`` starts it);
      quantities with the same ``group`` share it;
    - ``heteroscedastic``: the model predicts a scale at every point (``scale`` is its value at the start) by a further
      output of the network of the field ``group``; of the quantity's own field unless another is named;
    - ``exact``: there is no noise; ``scale`` is how far the model may be off, and no part of the predicted spread.

    ``family`` is the likelihood: Gaussian, or Student-t with ``degrees_of_freedom`` and the same scale.
    """

    kind: Literal["known", "learned", "heteroscedastic", "exact"] = "known"
    scale: float | Array = 1.0
    family: Literal["gaussian", "student_t"] = "gaussian"
    degrees_of_freedom: float = 5.0
    hyperprior: InverseGamma = InverseGamma(2.0, 10.0)
    group: str = ""

    @property
    def is_given(self) -> bool:
        """Whether the scale of the likelihood is a setting, with nothing to learn."""
        return self.kind in ("known", "exact")

    @property
    def variance_factor(self) -> float:
        r"""Variance of the noise over its squared scale: 1 for Gaussian, :math:`\nu/(\nu-2)` for Student-t."""
        nu = self.degrees_of_freedom
        return nu / (nu - 2) if self.family == "student_t" else 1.0


@dataclass(frozen=True)
class Readings:
    """Readings ``y[N, D_q]`` of one quantity at the points ``x[N, D]``.

    A reading that holds at several points (of a steady source, at several times) is listed once for each, all first
    copies, then all second ones. It is compared with the mean of the quantity over its ``copies``, as the one reading
    that it is; and that the quantity is the same at all of them is a condition, met up to a standard deviation
    ``drift``.

    Readings of a ``random`` field have one column for every realisation of it. Those of what an operator gives have one
    for every function that it was applied to, whose values at the sensors are the rows of ``inputs[R, S]``. Of these,
    R / ``positions`` are functions of their own; the same ones in their other positions follow, in the same order.
    What an operator gives is without noise unless it is ``noisy``.
    """

    x: Array
    y: Array
    copies: int = 1
    drift: float = 0.05
    random: bool = False
    inputs: Array | None = None
    positions: int = 1
    noisy: bool = False

    def columns(self, chosen: slice | Array) -> Readings:
        """Some of the realisations or functions."""
        inputs = None if self.inputs is None else self.inputs[chosen]
        return replace(self, y=self.y[:, chosen], inputs=inputs, positions=1)

    @property
    def n_units(self) -> int:
        """How many readings there are to calibrate with, or of a random field how many realisations."""
        return self.y.shape[1] if self.random and len(self.x) else self.count

    @property
    def is_clean_output(self) -> bool:
        """Whether they are what an operator gives, without noise."""
        return self.inputs is not None and not self.noisy

    @property
    def count(self) -> int:
        """How many readings there are, whatever the number of copies."""
        return len(self.x) // self.copies

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class History:
    """Earlier realisations ``y[N, R]`` of one quantity at the points ``x[N, D]``, from which a prior can be learned.

    ``noise`` is the known scale of their noise; None if it is to be learned, a function of the place.
    """

    x: Array
    y: Array
    noise: float | None = 0.0


@dataclass(frozen=True)
class Operator:
    """A map from the function ``input`` to the quantity ``output``; both are standardised, see
    :meth:`Problem.transforms`, and the places of the former's standardisation are the sensors that read it. What is
    predicted of new functions are readings with their noise if these are what is known of all others (``noisy``).
    The output may be known to be ``positive`` whatever the input."""

    input: str
    output: str
    noisy: bool = False
    positive: bool = False


@dataclass(frozen=True)
class QuantityData:
    """Everything known about one quantity.

    ``train`` alone is seen by inference, ``validation`` only decides when to stop; ``calibration`` is for calibrators;
    ``test`` (noisy readings on a fixed grid) with its clean ``reference`` only for metrics and figures; not-a-number
    where neither is known. ``splits`` are masks of the test grid, or ``[N, R]`` of its points and functions. For a
    random field ``test`` and ``reference`` are unseen realisations, and ``sensed`` is what sensors placed as in
    training read of them, if it is one that the others follow from.
    """

    train: Readings
    test: Readings
    reference: Array
    splits: Mapping[str, Array]
    calibration: Readings
    validation: Readings
    coordinates: tuple[str, ...]
    noise_reference: Array | None = None  # true standard deviation of the noise on the test grid, where known
    clean_rl2e: bool = False  # whether rl2e is taken against the reference or the noisy test readings
    sensed: Readings | None = None
    statistic_of: str = ""  # the random field, if this is a statistic of one


Dataset = Mapping[str, QuantityData]


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
    calibration_setting: ClassVar[str] = "problem.n_calibration"  # what sets how many readings are held out

    @property
    def scalars(self) -> Mapping[str, Parameter]:
        """The unknown numbers beside the fields."""
        return {}

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

    def pairs(self) -> Readings | None:
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
        return self.fields[quantity].unit if quantity in self.fields else Unit()

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
        """How many readings the calibration split holds."""
