"""Stochastic gradient Hamiltonian Monte Carlo with cyclical step sizes (Chen et al. 2014; Zhang et al. 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from sciuq_runner.methods.sgld import SGLD
from sciuq_runner.schema import Fraction, Positive


@dataclass(frozen=True)
class SGHMC(SGLD):
    r"""Mini-batch Langevin dynamics with momentum: with friction :math:`\alpha` and step size :math:`\epsilon`,

    .. math::
        v \leftarrow (1 - \alpha) v + \frac\epsilon2 \tilde\nabla \log p(\theta \mid D)
        + \sqrt{\alpha \epsilon}\, n, \qquad \theta \leftarrow \theta + v,

    which samples the posterior as :math:`\epsilon \to 0`: velocities have variance :math:`\epsilon / 2`, the
    temperature of the dynamics with mass 2. Cycles and mini-batches as in ``sgld``.
    """

    step_size: Positive | None = 2e-6
    final_step_size: Positive | None = 2e-7
    friction: Fraction = 0.1

    def update(
        self, state: dict[str, Tensor], gradient: Tensor, size: float, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        normal = torch.randn(gradient.shape, generator=generator, dtype=gradient.dtype).to(gradient.device)
        kick = 0.5 * size * gradient + math.sqrt(self.friction * size) * normal
        velocity = (1 - self.friction) * state["velocity"] + kick
        return state["theta"] + velocity, velocity
