"""The predictive distribution of a quantity: mean, aleatoric and epistemic variance, member functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from sciuq_runner.methods.base import Posterior
from sciuq_runner.problem import Array, Noise
from sciuq_runner.target import Target

CHUNK = 250_000
"""Members times points that are evaluated at once: a few hundred megabytes with derivatives."""


@dataclass(frozen=True)
class Predictive:
    r"""Total variance of a Bayesian model average (Sections 3.1 of the paper),

    .. math::
        \bar\mu(x) = \frac1M \sum_j u_{\theta_j}(x), \qquad
        \bar\sigma^2(x) = \underbrace{\frac1M \sum_j \sigma^2_{\theta_j}(x)}_{\text{aleatoric}}
        + \underbrace{\frac1M \sum_j (u_{\theta_j}(x) - \bar\mu(x))^2}_{\text{epistemic}}.

    Shapes:
        ``members`` is ``[M, N, D_q]``, everything else ``[N, D_q]``.
    """

    mean: Array
    aleatoric_var: Array
    epistemic_var: Array
    members: Array
    noise_std: tuple[Array, Array]  # mean and spread over the members of the predicted noise

    @classmethod
    def of_members(cls, members: Array, noise_var: Array) -> Predictive:
        """Combine member functions ``[M, N, D_q]`` with their noise variances, broadcastable to the same."""
        mean = members.mean(0)
        variances = np.broadcast_to(noise_var, members.shape)
        scales = np.sqrt(variances)
        return cls(mean, variances.mean(0), members.var(0), members, (scales.mean(0), scales.std(0)))

    @property
    def std(self) -> Array:
        """Total standard deviation."""
        return np.sqrt(self.aleatoric_var + self.epistemic_var)

    @property
    def aleatoric_std(self) -> Array:
        return np.sqrt(self.aleatoric_var)

    @property
    def epistemic_std(self) -> Array:
        return np.sqrt(self.epistemic_var)


def predict(target: Target, posterior: Posterior, quantity: str, x: Array) -> Predictive:
    """Push the samples of a posterior through the model at ``x[N, D]``."""
    points = target.tensor(x)

    def value(theta: Tensor) -> Tensor:
        return target.model.observe(target.weights(theta), quantity, points)

    def noise(theta: Tensor) -> Tensor:
        return target.noise_scale(theta, quantity, points).expand(len(theta), -1, -1)

    chunk = max(1, min(256, CHUNK // max(1, len(x))))
    members = posterior.evaluate(value, chunk).cpu().double().numpy()
    scale = posterior.evaluate_scale(noise).cpu().double().numpy()
    return Predictive.of_members(members, scale**2 * variance_factor(target.noise[quantity]))


def variance_factor(noise: Noise) -> float:
    r"""Variance of the noise over its squared scale: 1 for Gaussian, :math:`\nu/(\nu-2)` for Student-t."""
    if noise.family == "student_t":
        return noise.degrees_of_freedom / (noise.degrees_of_freedom - 2)
    return 1.0
