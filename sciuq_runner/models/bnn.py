"""Bayesian neural networks: one network per unknown field, a Gaussian prior on all weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor

from sciuq_runner.models.base import BoundModel, Model, Prior
from sciuq_runner.networks import MLP, ModuleNetwork, Network
from sciuq_runner.networks.base import Drop
from sciuq_runner.networks.mlp import Activation, Init
from sciuq_runner.problem import InverseGamma, Noise, Problem
from sciuq_runner.schema import Count, Factory, Positive


@dataclass(frozen=True)
class BNN(Model):
    r"""Fully connected networks :math:`u_\theta(x)` with prior :math:`\theta \sim \mathcal N(0, \sigma_\theta^2)`.

    With ``learn_prior`` the scale :math:`\sigma_\theta` is inferred under an inverse-Gamma hyperprior of its square
    (``prior_shape`` h1 and ``prior_hyper_scale`` h2 of the paper). ``network`` names any ``torch.nn.Module`` class to
    take the place of the built-in one; it is made with ``n_inputs``, ``n_outputs`` and its own settings.
    """

    width: Count = 50
    depth: Count = 2
    activation: Activation = "tanh"
    init: Init = "xavier_normal"
    prior_scale: Positive = 1.0
    learn_prior: bool = False
    prior_shape: Positive = 2.0
    prior_hyper_scale: Positive = 0.25
    network: Factory | None = None

    def __post_init__(self) -> None:
        if self.network is not None and not issubclass(self.network.cls, torch.nn.Module):
            raise ValueError(f"network={self.network.cls.__name__} should be a torch.nn.Module.")

    def bind(self, problem: Problem, noise: Mapping[str, Noise]) -> BoundModel:
        predicted = {name: item for name, item in noise.items() if item.kind == "heteroscedastic"}
        networks = {
            name: self.make_network(len(spec.coordinates), spec.n_outputs * (2 if name in predicted else 1))
            for name, spec in problem.fields.items()
        }
        hyperprior = InverseGamma(self.prior_shape, self.prior_hyper_scale) if self.learn_prior else None
        return BoundBNN(problem, networks, Prior(self.prior_scale, hyperprior), predicted)

    def make_network(self, n_inputs: int, n_outputs: int) -> Network:
        """One network of the kind that the settings describe."""
        if self.network is not None:
            return ModuleNetwork(
                partial(self.network.make, n_inputs=n_inputs, n_outputs=n_outputs), n_inputs, n_outputs
            )
        return MLP(n_inputs, n_outputs, (self.width,) * self.depth, self.activation, self.init, self.prior_scale)


class BoundBNN(BoundModel):
    r"""Networks of a problem's fields side by side in one flat theta.

    The network of a field with heteroscedastic noise has one more output s per component, and
    :math:`\sigma(x) = \mathrm{softplus}(s(x) + c)` with c such that s = 0 gives the scale that the noise starts from.
    """

    def __init__(
        self,
        problem: Problem,
        networks: Mapping[str, Network],
        prior: Prior,
        predicted: Mapping[str, Noise] | None = None,
    ) -> None:
        self.problem, self.networks, self.prior = problem, dict(networks), prior
        self.predicted = dict(predicted or {})
        self.sizes = [network.n_params for network in self.networks.values()]
        self.n_params = sum(self.sizes)

    def outputs(self, theta: Tensor, name: str, x: Tensor) -> Tensor:
        """All outputs of the network of one field."""
        parts = dict(zip(self.networks, torch.split(theta, self.sizes, dim=1), strict=True))
        return self.networks[name](parts[name], x)

    def field(self, theta: Tensor, name: str, x: Tensor) -> Tensor:
        """One field, without the noise that its network may predict as well."""
        return self.outputs(theta, name, x)[..., : self.problem.fields[name].n_outputs]

    def observe(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        fields = {name: partial(self.field, theta, name) for name in self.networks}
        return self.problem.observe(quantity, fields, x)

    def noise_scale(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        start = float(self.predicted[quantity].scale)
        offset = math.log(math.expm1(start))
        raw = self.outputs(theta, quantity, x)[..., self.problem.fields[quantity].n_outputs :]
        return torch.nn.functional.softplus(raw + offset) + 1e-4 * start

    def init(self, n_members: int, generator: Generator) -> Tensor:
        return torch.cat([network.init(n_members, generator) for network in self.networks.values()], dim=1)

    def is_direct(self, quantity: str) -> bool:
        return quantity in self.problem.direct

    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor:
        parts = [network.dropout_masks(n, rate, kind, generator) for network in self.networks.values()]
        return torch.cat(parts, dim=1)

    def last_layer(self) -> Tensor:
        return torch.cat([network.last_layer() for network in self.networks.values()])

    def blocks(self) -> list[tuple[int, int]]:
        return [block for network in self.networks.values() for block in network.blocks()]
