"""What is known exactly: derivatives, and the posterior of Bayesian linear regression in the ordinary target code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from sciuq_runner.models.base import Prior
from sciuq_runner.models.bnn import BoundBNN
from sciuq_runner.networks import MLP
from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.problem import (
    Dataset,
    FieldSpec,
    InverseGamma,
    Noise,
    Parameter,
    PointObservations,
    Problem,
    RepeatedObservations,
)
from sciuq_runner.target.density import Target


def along(function: Callable[[Tensor], Tensor], i: int = 0) -> Callable[[Tensor], Tensor]:
    """The derivative of a function of points ``[N, D]`` by their coordinate ``i``, by forward differentiation."""

    def derivative(points: Tensor) -> Tensor:
        unit = torch.zeros_like(points)
        unit[:, i] = 1
        return torch.func.jvp(function, (points,), (unit,))[1]

    return derivative


@dataclass(frozen=True)
class Plane(Problem):
    """u = x w + b with known noise; nothing to do with files or grids."""

    direct: ClassVar = ("u",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", {"u": FieldSpec(("x1", "x2"))})

    @property
    def noise(self) -> Mapping[str, Noise]:
        return {"u": Noise("known", 0.3)}

    @property
    def n_calibration_points(self) -> int:
        return 0

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        return unknowns[quantity](x)

    def dataset(self, rng: np.random.Generator) -> Dataset:
        raise AssertionError("the tests bring their own data")


@dataclass(frozen=True)
class ExactRegression:
    """A linear-Gaussian target with its posterior mean and covariance."""

    target: Target
    mean: np.ndarray
    covariance: np.ndarray
    features: np.ndarray
    y: np.ndarray


def linear_regression(
    n: int = 12, seed: int = 0, noise: Noise | None = None, temperature: float = 1.0, prior_scale: float = 1.0
) -> ExactRegression:
    """Correlated inputs, so that the posterior is correlated too."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    noise = noise or Noise("known", 0.3)
    scale = float(np.mean(noise.scale))
    y = x @ np.array([[0.8], [-0.5]]) + 0.2 + scale * rng.standard_normal((n, 1))
    problem = Plane()
    model = BoundBNN(problem, {"u": MLP(2, 1, hidden=())}, Prior(prior_scale))
    target = Target(model, {"u": noise}, {"u": PointObservations(x, y)}, temperature=temperature, dtype=torch.float64)
    features = np.concatenate([x, np.ones((n, 1))], axis=1)
    precision = (features.T @ features / scale**2 + np.eye(3) / prior_scale**2) / temperature
    covariance = np.linalg.inv(precision)
    mean = covariance @ (features.T @ y[:, 0]) / scale**2 / temperature
    return ExactRegression(target, mean, covariance, features, y)


@dataclass(frozen=True)
class Many(Plane):
    """The same with more weights than readings."""

    n_inputs: int = 400

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", {"u": FieldSpec(tuple(f"x{i}" for i in range(self.n_inputs)))})


def many_weights(n: int = 20, n_inputs: int = 400) -> tuple[Target, Callable[[np.ndarray], np.ndarray]]:
    """Linear regression of few readings with a learned prior scale, and the log density of the logarithm of that scale,
    up to a constant: with the weights integrated out, readings are Gaussian."""
    rng = np.random.default_rng(0)
    x, noise, hyperprior = rng.standard_normal((n, n_inputs)), 0.5, InverseGamma(2.0, 1.0)
    y = 0.3 * x @ rng.standard_normal((n_inputs, 1)) + noise * rng.standard_normal((n, 1))
    model = BoundBNN(Many(n_inputs=n_inputs), {"u": MLP(n_inputs, 1, hidden=())}, Prior(1.0, hyperprior))
    readings = {"u": PointObservations(x, y)}
    target = Target(model, {"u": Noise("known", noise)}, readings, dtype=torch.float64)
    features = np.concatenate([x, np.ones((n, 1))], axis=1)
    values, vectors = np.linalg.eigh(features @ features.T)
    squares = np.square(vectors.T @ y[:, 0])

    def log_density(log_scale: np.ndarray) -> np.ndarray:
        scale = np.exp(log_scale)[:, None]
        variance = scale**2 * values + noise**2
        evidence = -0.5 * (np.log(variance) + squares / variance).sum(1)
        return evidence - 2 * hyperprior.shape * log_scale - np.exp(-2 * log_scale) / hyperprior.scale

    return target, log_density


@dataclass(frozen=True)
class Warped(Plane):
    """u = x w + b + k x1 x2 with an unknown number k."""

    direct: ClassVar = ()

    @property
    def scalars(self) -> Mapping[str, Parameter]:
        return {"k": Parameter("normal", 0.4, 0.5)}

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        return unknowns[quantity](x) + unknowns.parameters["k"] * x[:, :1] * x[:, 1:]


def warped_regression(n: int = 12, prior_scale: float = 0.7) -> ExactRegression:
    """A prior of the weights other than that of z, where k = 0.4 + 0.5 z, and copies of readings that count once."""
    plain = linear_regression(n)
    scale, drift = 0.3, 0.5
    places = [plain.features[:, :2] + shift for shift in (0.0, np.array([0.4, -0.2]))]  # where each reading holds
    bends = [x[:, :1] * x[:, 1:] for x in places]
    y = plain.y + 0.8 * bends[0]
    model = BoundBNN(Warped(), {"u": MLP(2, 1, hidden=())}, Prior(prior_scale))
    readings = RepeatedObservations(np.concatenate(places), np.tile(y, (2, 1)), copies=2, drift=drift)
    target = Target(model, {"u": Noise("known", scale)}, {"u": readings}, dtype=torch.float64)
    rows = [np.concatenate([x, np.ones((n, 1)), bend], axis=1) for x, bend in zip(places, bends, strict=True)]
    # the mean of both places is read, their difference over the root of two vanishes up to the drift
    whole = np.concatenate([(rows[0] + rows[1]) / 2 / scale, (rows[0] - rows[1]) / 2**0.5 / drift])
    observed = np.concatenate([y[:, 0] / scale, np.zeros(n)]) - 0.4 * whole[:, 3]
    features = whole * np.array([1, 1, 1, 0.5])
    covariance = np.linalg.inv(features.T @ features + np.diag([1 / prior_scale**2] * 3 + [1.0]))
    mean = covariance @ features.T @ observed
    return ExactRegression(target, mean, covariance, features, y)
