"""A stochastic elliptic equation: random solution and conductivity, from realisations (Section 6.3 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge
from scipy.interpolate import CubicSpline
from torch import Tensor

from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.problem import Array, Dataset, FieldSpec, Noise, Problem, QuantityData, Realisations
from sciuq_runner.schema import Positive

from .elliptic import solve

DIFFUSION = 0.1
MEAN_SOURCE, STD_SOURCE, STD_LOG = 0.5, 0.15, 0.1
N_CELLS = 400
"""Cells of the reference solution, whose error is then below 1e-5 of its size."""

OBSERVED = ("u", "f", "lambda")


@dataclass(frozen=True)
class SPDE(Problem):
    r"""The stochastic elliptic equation

    .. math:: -\frac{1}{10} \frac{d}{dx} \Big( \lambda \frac{du}{dx} \Big) = f, \quad |x| \le 1, \qquad u(\pm 1) = 0

    with the Gaussian process :math:`f \sim GP(\tfrac12, \tfrac{9}{400} k)` and
    :math:`\lambda = \exp(\tfrac15 \sin(\tfrac32 \pi (x + 1)) + \tilde\lambda)`,
    :math:`\tilde\lambda \sim GP(0, \tfrac{1}{100} k)`, where :math:`k = \exp(-(x_1 - x_2)^2)`. What is known are
    ``n_realisations`` of all three, read at ``n_u``, ``n_f`` and ``n_lambda`` equidistant sensors, both ends among
    them: clean (``clean``; the model may be off by ``tolerance``) or with noise of scale ``noise_scale`` (``noisy``).

    An observation is one column per realisation. ``calibration`` holds ``n_calibration`` further realisations at the
    same sensors, ``test`` ``n_test_realisations`` unseen ones, always clean, on an even grid; ``sensed`` is what the
    sensors read of the unseen f and lambda. u is by finite differences on a finer grid.
    """

    case: Literal["clean", "noisy"] = "clean"
    noise_scale: Positive = 0.01
    tolerance: Positive = 0.01
    n_realisations: Annotated[int, Ge(2)] = 1000
    n_u: Annotated[int, Ge(2)] = 9
    n_f: Annotated[int, Ge(2)] = 13
    n_lambda: Annotated[int, Ge(2)] = 5
    n_calibration: Annotated[int, Ge(0)] = 50
    n_test_realisations: Annotated[int, Ge(2)] = 500
    n_test: Annotated[int, Ge(2)] = 201

    direct: ClassVar[tuple[str, ...]] = ("u", "lambda")
    random_inputs: ClassVar[tuple[str, ...]] = ("f", "lambda")
    fields: ClassVar[Mapping[str, FieldSpec]] = {  # type: ignore[misc]
        "u": FieldSpec(("x",)),
        "lambda": FieldSpec(("x",)),
    }

    @property
    def n_calibration_points(self) -> int:
        return self.n_calibration

    @property
    def noise(self) -> Mapping[str, Noise]:
        noisy = self.case == "noisy"
        return dict.fromkeys(OBSERVED, Noise("known", self.noise_scale) if noisy else Noise("exact", self.tolerance))

    def coordinates_of(self, quantity: str) -> tuple[str, ...]:
        return ("x",)

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        if quantity == "f":
            u, conductivity = unknowns["u"].at(x), unknowns["lambda"].at(x)
            found: Tensor = -DIFFUSION * (conductivity.x * u.x + conductivity.value * u.xx)
            return found
        return unknowns[quantity](x)

    def dataset(self, rng: np.random.Generator) -> Dataset:
        draw = GaussianProcess(np.linspace(-1, 1, 2 * N_CELLS + 1))  # nodes and the middles between them
        sizes = (self.n_realisations, self.n_calibration, self.n_test_realisations)
        seen, held_out, unseen = (self.realise(draw, n, rng) for n in sizes)
        sensors = {"u": self.n_u, "f": self.n_f, "lambda": self.n_lambda}
        grid = np.linspace(-1, 1, self.n_test)
        nothing = Realisations(np.empty((0, 1)), np.empty((0, 1)))

        def read(fields: Mapping[str, CubicSpline], name: str) -> Realisations:
            x = np.linspace(-1, 1, sensors[name])
            y = fields[name](x)
            noise = self.noise_scale * rng.standard_normal(y.shape) if self.case == "noisy" else 0.0
            return Realisations(x[:, None], y + noise, noisy=self.case == "noisy")

        return {
            name: QuantityData(
                train=read(seen, name),
                calibration=read(held_out, name),
                test=Realisations(grid[:, None], unseen[name](grid)),
                reference=unseen[name](grid),
                splits={"id": np.ones(self.n_test, dtype=bool)},
                validation=nothing,
                coordinates=("x",),
                clean_rl2e=True,
                sensed=read(unseen, name) if name in self.random_inputs else None,
            )
            for name in OBSERVED
        }

    def realise(self, draw: GaussianProcess, n: int, rng: np.random.Generator) -> dict[str, CubicSpline]:
        """Realisations of all quantities as functions of ``x[N]`` with values ``[N, n]``."""
        x = draw.x
        source = MEAN_SOURCE + STD_SOURCE * draw(n, rng)
        conductivity = np.exp(np.sin(1.5 * np.pi * (x + 1))[:, None] / 5 + STD_LOG * draw(n, rng))
        u = solve(DIFFUSION * conductivity[1::2], source[::2], width=2.0)
        return {"u": CubicSpline(x[::2], u), "f": CubicSpline(x, source), "lambda": CubicSpline(x, conductivity)}


class GaussianProcess:
    r"""Draws at ``x[N]`` of the process with mean zero and covariance :math:`\exp(-(x_1 - x_2)^2)`.

    By the leading eigenvectors of the covariance matrix; the others are nothing but rounding errors.
    """

    def __init__(self, x: Array) -> None:
        self.x = x
        values, vectors = np.linalg.eigh(np.exp(-((x[:, None] - x) ** 2)))
        kept = values > len(x) * np.finfo(float).eps * values[-1]
        self.factor = vectors[:, kept] * np.sqrt(values[kept])

    def __call__(self, n: int, rng: np.random.Generator) -> Array:
        """``n`` draws, ``[N, n]``."""
        found: Array = self.factor @ rng.standard_normal((self.factor.shape[1], n))
        return found
