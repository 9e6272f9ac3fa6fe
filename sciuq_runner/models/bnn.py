"""Bayesian neural networks: one network per unknown field, a Gaussian prior on all weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor

from sciuq_runner.models.base import BoundModel, Model, Prior
from sciuq_runner.networks import MLP, Network
from sciuq_runner.networks.mlp import Activation, Init
from sciuq_runner.problem import Noise, Problem
from sciuq_runner.schema import Count, Positive


@dataclass(frozen=True)
class BNN(Model):
    r"""Fully connected networks :math:`u_\theta(x)` with prior :math:`\theta \sim \mathcal N(0, \sigma_\theta^2)`."""

    width: Count = 50
    depth: Count = 2
    activation: Activation = "tanh"
    init: Init = "xavier_normal"
    prior_scale: Positive = 1.0

    def bind(self, problem: Problem, noise: Mapping[str, Noise]) -> BoundModel:
        hidden = (self.width,) * self.depth
        networks: dict[str, Network] = {
            name: MLP(len(spec.coordinates), spec.n_outputs, hidden, self.activation, self.init)
            for name, spec in problem.fields.items()
        }
        return BoundBNN(problem, networks, Prior(self.prior_scale))


class BoundBNN(BoundModel):
    """Networks of a problem's fields side by side in one flat theta."""

    def __init__(self, problem: Problem, networks: Mapping[str, Network], prior: Prior) -> None:
        self.problem, self.networks, self.prior = problem, dict(networks), prior
        self.n_params = sum(network.n_params for network in self.networks.values())

    def observe(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        parts = torch.split(theta, [network.n_params for network in self.networks.values()], dim=1)
        named = zip(self.networks.items(), parts, strict=True)
        fields = {name: partial(network, part) for (name, network), part in named}
        return self.problem.observe(quantity, fields, x)

    def noise_scale(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        raise ValueError(f"no noise is predicted for {quantity}")

    def init(self, n_members: int, generator: Generator) -> Tensor:
        return torch.cat([network.init(n_members, generator) for network in self.networks.values()], dim=1)
