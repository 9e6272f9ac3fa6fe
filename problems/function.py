"""Approximation of a discontinuous function of one variable (Section 6.1 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge
from torch import Tensor

from sciuq_runner.problem import Dataset, Fields, FieldSpec, Noise, Problem, QuantityData, Readings
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
    covers [-1, 1] evenly and carries noisy readings of its own; calibration points are drawn uniformly from
    the regions of the training data.
    """

    case: Literal["known"] = "known"
    n_train: Annotated[int, Ge(2)] = 32
    noise_scale: Positive = 0.1
    n_calibration: Annotated[int, Ge(0)] = 50
    n_test: Count = 1001

    fields: ClassVar[Mapping[str, FieldSpec]] = {"u": FieldSpec(("x",))}  # type: ignore[misc]

    @property
    def n_calibration_points(self) -> int:
        return self.n_calibration

    @property
    def noise(self) -> Mapping[str, Noise]:
        return {"u": Noise("known", self.noise_scale)}

    def observe(self, quantity: str, fields: Fields, x: Tensor) -> Tensor:
        return fields[quantity](x)

    def dataset(self, rng: np.random.Generator) -> Dataset:
        left = (self.n_train + 1) // 2
        train_x = np.concatenate([
            np.linspace(*KNOWN_REGIONS[0], left),
            np.linspace(*KNOWN_REGIONS[1], self.n_train - left),
        ])  # fmt: skip
        calibration_x = rng.choice([-1.0, 1.0], self.n_calibration) * rng.uniform(0.2, 0.8, self.n_calibration)
        test_x = np.linspace(-1.0, 1.0, self.n_test)
        distance = np.abs(test_x)
        inside = (distance > 0.2 - 1e-9) & (distance < 0.8 + 1e-9)
        u = QuantityData(
            train=self.read(train_x, rng),
            calibration=self.read(calibration_x, rng),
            test=self.read(test_x, rng),
            reference=exact(test_x)[:, None],
            splits={"id": inside, "ood": ~inside},
            coordinates=self.coordinates("u"),
        )
        return {"u": u}

    def read(self, x: np.ndarray, rng: np.random.Generator) -> Readings:
        """Noisy readings of the function at ``x[N]``."""
        noise = self.noise_scale * rng.standard_normal(x.shape)
        return Readings(x[:, None], (exact(x) + noise)[:, None])


def exact(x: np.ndarray) -> np.ndarray:
    """The function itself."""
    left = 0.5 * (np.sin(2 * np.pi * x) ** 3 - 1)
    right = 0.5 * (np.sin(3 * np.pi * x) ** 3 + 1)
    return np.where(x < 0, left, right)
