"""A Gaussian process as the input of a learned operator (the second row of the paper's table on operator problems)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from sciuq_runner.models.base import BoundModel, Model, Prior
from sciuq_runner.models.operator_fields import OperatorFieldModel
from sciuq_runner.physics.problem import Array, Noise, Observations, Problem
from sciuq_runner.schema import Count


@dataclass(frozen=True)
class PAGPFP(OperatorFieldModel):
    """The input is a Gaussian process with squared-exponential covariance, whose variance and correlation length fit
    the observations of the input best; theta are the standardised coefficients of its ``n_terms`` leading terms."""

    n_terms: Count = 100

    def prior_model(self) -> Model:
        return GaussianProcessModel(self.n_terms)


@dataclass(frozen=True)
class GaussianProcessModel(Model):
    """A random function that is linear in theta."""

    n_terms: Count = 100

    def bind(
        self, problem: Problem, noise: Mapping[str, Noise], observations: Mapping[str, Observations] | None = None
    ) -> BoundModel:
        (name,) = problem.fields
        bound = BoundGaussianProcess(self.n_terms)
        if observations is not None:
            transform = problem.transforms()[name]
            part = observations[name]
            bound.learn(transform.x, part.x, transform.apply(part.y, part.x), float(np.mean(noise[name].scale)))
        return bound


class BoundGaussianProcess(BoundModel):
    r"""The projection of the process on its values at S places,

    .. math:: f_\theta(x) = \sum_{k \le K} \theta_k\, \mu_k^{-1/2}\, v_k \cdot k(X, x), \qquad K(X, X) v_k = \mu_k v_k,

    with standard normal theta: at the places themselves the truncated process, in between its best linear prediction.
    """

    def __init__(self, n_terms: int) -> None:
        self.n_terms, self.n_params, self.prior = n_terms, n_terms, Prior(1.0)

    def learn(self, places: Array, x: Array, y: Array, noise: float) -> None:
        """Find variance and correlation length by the marginal likelihood of values ``y[N, 1]`` at ``x[N, D]``."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel

        extent = float(np.ptp(places, axis=0).max()) or 1.0
        kernel = ConstantKernel(1.0, (0.05, 20.0)) * RBF(extent / 4, (extent / 20, extent * 4))
        process = GaussianProcessRegressor(kernel, alpha=noise**2, n_restarts_optimizer=5, random_state=0)
        with warnings.catch_warnings():  # of a parameter at the end of its range
            warnings.simplefilter("ignore", ConvergenceWarning)
            process.fit(x, y[:, 0])
        variance, length = np.exp(process.kernel_.theta)
        self.set_process(places, float(variance), float(length))

    def set_process(self, places: Array, variance: float, length: float) -> None:
        self.places = torch.tensor(places)
        self.variance, self.length = variance, length
        values, vectors = np.linalg.eigh(self.covariance(self.places).numpy())
        values, vectors = values[::-1][: self.n_terms], vectors[:, ::-1][:, : self.n_terms]
        scale = np.where(values > 1e-10 * values[0], 1 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
        factor = np.zeros((len(places), self.n_terms))
        factor[:, : len(values)] = vectors * scale
        self.factor = torch.tensor(factor)

    def covariance(self, x: Tensor) -> Tensor:
        """Between the points ``x[N, D]`` and the places, ``[N, S]``."""
        squares = (x[:, None] - self.places.to(x)).square().sum(-1)
        return self.variance * torch.exp(-squares / (2 * self.length**2))

    def observe(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        modes = self.covariance(x.cpu().double()) @ self.factor
        return (theta @ modes.to(theta).T)[..., None]

    def init(self, n_members: int, generator: Generator) -> Tensor:
        return torch.randn(n_members, self.n_params, generator=generator, dtype=torch.float64)

    def state(self) -> dict[str, Tensor]:
        return {"places": self.places, "process": torch.tensor([self.variance, self.length], dtype=torch.float64)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        variance, length = state["process"].tolist()
        self.set_process(np.asarray(state["places"].double()), variance, length)
