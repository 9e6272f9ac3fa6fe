"""What a problem is: quantities, data and physics. It knows nothing of models and methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

Array = np.ndarray
Fields = Mapping[str, Callable[[Tensor], Tensor]]
"""The unknown fields of a problem as functions of points: ``fields["u"](x[N, D]) -> [M, N, D_u]``."""


@dataclass(frozen=True)
class FieldSpec:
    """One unknown field: the coordinates it depends on and how many components it has."""

    coordinates: tuple[str, ...]
    n_outputs: int = 1


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
    - ``heteroscedastic``: the model predicts a scale at every point (``scale`` is its value at the start).

    ``family`` is the likelihood: Gaussian, or Student-t with ``degrees_of_freedom`` and the same scale.
    """

    kind: Literal["known", "learned", "heteroscedastic"] = "known"
    scale: float | Array = 1.0
    family: Literal["gaussian", "student_t"] = "gaussian"
    degrees_of_freedom: float = 5.0
    hyperprior: InverseGamma = InverseGamma(2.0, 10.0)
    group: str = ""


@dataclass(frozen=True)
class Readings:
    """Readings ``y[N, D_q]`` of one quantity at the points ``x[N, D]``."""

    x: Array
    y: Array

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class QuantityData:
    """Everything known about one quantity.

    ``train`` alone is seen by inference, ``validation`` only decides when to stop; ``calibration`` is for calibrators;
    ``test`` (noisy readings on a fixed grid) with its clean ``reference`` only for metrics and figures. ``splits`` are
    masks of the test grid.
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


Dataset = Mapping[str, QuantityData]


@dataclass(frozen=True)
class Problem(ABC):
    """A question about some fields, with the data to answer it.

    Subclasses are frozen dataclasses whose fields are the settings of ``problem.*``.
    """

    fields: Mapping[str, FieldSpec] = field(init=False, repr=False)
    direct: ClassVar[tuple[str, ...]] = ()  # quantities that are fields themselves

    @abstractmethod
    def dataset(self, rng: np.random.Generator) -> Dataset:
        """Make or load the data; the same generator state gives the same data."""

    @abstractmethod
    def observe(self, quantity: str, fields: Fields, x: Tensor) -> Tensor:
        """Return the noise-free ``quantity`` at the points ``x[N, D]`` given the unknown fields."""

    def coordinates(self, quantity: str) -> tuple[str, ...]:
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
