"""A forward problem: the solution from noisy observations of the source and of both ends (Section 6.4 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge
from torch import Tensor

from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.problem import (
    Array,
    Dataset,
    FieldSpec,
    Noise,
    Observations,
    PointObservations,
    Problem,
    QuantityData,
)
from sciuq_runner.schema import Positive

DIFFUSION, REACTION = 0.01, 0.7


@dataclass(frozen=True)
class ForwardPDE(Problem):
    r"""The steady diffusion-reaction equation

    .. math:: D u_{xx} - \lambda u^3 = f(x), \qquad -1 \le x \le 1, \qquad D = 0.01, \; \lambda = 0.7

    whose exact solution is :math:`u = \sin^3(6x)`, with observations of u at both ends and of f at 15 (``n15``) or 6
    (``n6``) places: the middles of as many equal cells, so that none is at an end. All noise is Gaussian with the known
    scale ``noise_scale``. The relative error is that of the mean against the exact fields.
    """

    case: Literal["n15", "n6"] = "n15"
    noise_scale: Positive = 0.1
    n_calibration: Annotated[int, Ge(0)] = 50
    n_validation: Annotated[int, Ge(0)] = 50
    n_test: Annotated[int, Ge(2)] = 201

    direct: ClassVar[tuple[str, ...]] = ("u",)
    fields: ClassVar[Mapping[str, FieldSpec]] = {"u": FieldSpec(("x",))}  # type: ignore[misc]

    @property
    def n_calibration_points(self) -> int:
        return self.n_calibration

    @property
    def noise(self) -> Mapping[str, Noise]:
        return dict.fromkeys(("u", "f"), Noise("known", self.noise_scale))

    @property
    def probes(self) -> Mapping[str, tuple[float, ...]]:
        return {"f": (1.0,)}

    def coordinates_of(self, quantity: str) -> tuple[str, ...]:
        return ("x",)

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        if quantity == "f":
            u = unknowns["u"].at(x)
            found: Tensor = DIFFUSION * u.xx - REACTION * u.value**3
            return found
        return unknowns[quantity](x)

    def dataset(self, rng: np.random.Generator) -> Dataset:
        n_source = {"n15": 15, "n6": 6}[self.case]
        places = {"u": np.array([-1.0, 1.0]), "f": (2 * np.arange(n_source) + 1) / n_source - 1}
        test_x = np.linspace(-1, 1, self.n_test)

        def read(quantity: str, x: Array) -> Observations:
            noise = self.noise_scale * rng.standard_normal(len(x))
            return PointObservations(x[:, None], (TRUTH[quantity](x) + noise)[:, None])

        return {
            name: QuantityData(
                train=read(name, places[name]),
                calibration=read(name, rng.uniform(-1, 1, self.n_calibration)),
                test=read(name, test_x),
                reference=TRUTH[name](test_x)[:, None],
                splits={"id": np.ones(len(test_x), dtype=bool)},
                validation=read(name, rng.uniform(-1, 1, self.n_validation)),
                coordinates=("x",),
                noise_reference=np.full((len(test_x), 1), self.noise_scale),
                clean_rl2e=True,
            )
            for name in ("u", "f")
        }


def solution(x: Array) -> Array:
    found: Array = np.sin(6 * x) ** 3
    return found


def source(x: Array) -> Array:
    """What the equation gives for the solution, with its second derivative taken by hand."""
    sine, cosine = np.sin(6 * x), np.cos(6 * x)
    found: Array = DIFFUSION * 108 * sine * (2 * cosine**2 - sine**2) - REACTION * sine**9
    return found


TRUTH = {"u": solution, "f": source}
