"""Approximation of a discontinuous function of one variable (Section 6.1 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt
from torch import Tensor

from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.problem import (
    Dataset,
    FieldSpec,
    History,
    InverseGamma,
    Noise,
    Observations,
    PointObservations,
    Problem,
    QuantityData,
)
from sciuq_runner.schema import Count, Positive

KNOWN_REGIONS = ((-0.8, -0.2), (0.2, 0.8))
"""Where there are training data: in-distribution. The rest of [-1, 1] is out of distribution."""


@dataclass(frozen=True)
class Function(Problem):
    r"""The function

    .. math::
        u(x) = \tfrac12 [\sin^3(2\pi x) - 1] \; (-1 \le x < 0), \qquad
        u(x) = \tfrac12 [\sin^3(3\pi x) + 1] \; (0 \le x \le 1)

    read at ``n_train`` equidistant points, half of them in [-0.8, -0.2], half in [0.2, 0.8]. The test grid
    covers [-1, 1] evenly and carries noisy observations of its own; calibration and validation points are drawn
    uniformly from the regions of the training data.

    The cases differ in the noise of the observations and in what the model is told about it:

    - ``known``: Gaussian with standard deviation ``noise_scale``, which the model knows;
    - ``unknown``: the same noise, its scale is learned;
    - ``heteroscedastic``: Gaussian with standard deviation 0.5 |x|, a function that is learned;
    - ``student_t``: 0.5 |x| times Student-t with 5 degrees of freedom, likewise.

    ``likelihood`` is the family that the model assumes, right or wrong.
    """

    case: Literal["known", "unknown", "heteroscedastic", "student_t"] = "known"
    n_train: Annotated[int, Ge(2)] = 32
    noise_scale: Positive = 0.1
    likelihood: Literal["gaussian", "student_t"] = "gaussian"
    degrees_of_freedom: Annotated[float, Gt(2)] = 5.0
    noise_shape: Positive = 2.0
    noise_hyper_scale: Positive = 10.0
    n_calibration: Annotated[int, Ge(0)] = 50
    n_validation: Annotated[int, Ge(0)] = 50
    n_test: Count = 1001

    direct: ClassVar[tuple[str, ...]] = ("u",)
    fields: ClassVar[Mapping[str, FieldSpec]] = {"u": FieldSpec(("x",))}  # type: ignore[misc]

    @property
    def n_calibration_points(self) -> int:
        return self.n_calibration

    @property
    def noise(self) -> Mapping[str, Noise]:
        kind: Literal["known", "learned", "heteroscedastic"] = "heteroscedastic"
        scale = 0.25  # where learning starts: of the order of the observations, and not the truth
        if self.case == "known":
            kind, scale = "known", self.noise_scale
        elif self.case == "unknown":
            kind, scale = "learned", 0.05  # small: first follow the observations, then find out how noisy they are
        hyperprior = InverseGamma(self.noise_shape, self.noise_hyper_scale)
        return {"u": Noise(kind, scale, self.likelihood, self.degrees_of_freedom, hyperprior)}

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        return unknowns[quantity](x)

    def dataset(self, rng: np.random.Generator) -> Dataset:
        left = (self.n_train + 1) // 2
        sides = (np.linspace(*KNOWN_REGIONS[0], left), np.linspace(*KNOWN_REGIONS[1], self.n_train - left))
        test_x = np.linspace(-1.0, 1.0, self.n_test)
        distance = np.abs(test_x)
        inside = (distance > 0.2 - 1e-9) & (distance < 0.8 + 1e-9)
        u = QuantityData(
            train=self.read(np.concatenate(sides), rng),
            calibration=self.read(inner_points(self.n_calibration, rng), rng),
            test=self.read(test_x, rng),
            reference=exact(test_x)[:, None],
            splits={"id": inside, "ood": ~inside},
            validation=self.read(inner_points(self.n_validation, rng), rng),
            coordinates=self.coordinates_of("u"),
            noise_reference=self.true_noise_std(test_x)[:, None],
        )
        return {"u": u}

    def history(self, rng: np.random.Generator, n: int) -> Mapping[str, History]:
        """Functions drawn from a random network with two layers of 50 units and standard normal weights, read with the
        noise of the case where that depends on x, and exactly otherwise."""
        x = np.linspace(-1, 1, 41)
        layers = [
            (rng.standard_normal((n, a, b)), rng.standard_normal((n, 1, b))) for a, b in ((1, 50), (50, 50), (50, 1))
        ]
        values = np.broadcast_to(x[:, None], (n, len(x), 1))
        for depth, (weight, bias) in enumerate(layers):
            values = (values if depth == 0 else np.tanh(values)) @ weight + bias
        clean = values[..., 0].T
        if self.case in ("known", "unknown"):
            return {"u": History(x[:, None], clean)}
        noise = self.true_noise_scale(x)[:, None] * self.standard_noise(clean.shape, rng)
        return {"u": History(x[:, None], clean + noise, None)}

    def true_noise_scale(self, x: np.ndarray) -> np.ndarray:
        """The scale of the noise that the observations really have."""
        if self.case in ("known", "unknown"):
            return np.full_like(x, self.noise_scale)
        scale: np.ndarray = 0.5 * np.abs(x)
        return scale

    def true_noise_std(self, x: np.ndarray) -> np.ndarray:
        """Its standard deviation, which for heavy tails is more than the scale."""
        nu = self.degrees_of_freedom
        factor = np.sqrt(nu / (nu - 2)) if self.case == "student_t" else 1.0
        return factor * self.true_noise_scale(x)

    def read(self, x: np.ndarray, rng: np.random.Generator) -> Observations:
        """Noisy observations of the function at ``x[N]``."""
        standard = self.standard_noise(x.shape, rng)
        return PointObservations(x[:, None], (exact(x) + self.true_noise_scale(x) * standard)[:, None])

    def standard_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Noise of scale one."""
        if self.case == "student_t":
            return rng.standard_t(self.degrees_of_freedom, shape)
        return rng.standard_normal(shape)


def inner_points(n: int, rng: np.random.Generator) -> np.ndarray:
    """Points drawn uniformly from the regions of the training data."""
    return rng.choice([-1.0, 1.0], n) * rng.uniform(0.2, 0.8, n)


def exact(x: np.ndarray) -> np.ndarray:
    """The function itself."""
    left = 0.5 * (np.sin(2 * np.pi * x) ** 3 - 1)
    right = 0.5 * (np.sin(3 * np.pi * x) ** 3 + 1)
    return np.where(x < 0, left, right)
