"""Bayesian neural networks: one network per unknown field, a Gaussian prior on all weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from sciuq_runner.models.asked_derivatives import columns_of, derivatives_asked
from sciuq_runner.models.base import BoundModel, Model, Prior
from sciuq_runner.networks import MLP, ModuleNetwork, Network
from sciuq_runner.networks.activations import Activation
from sciuq_runner.networks.base import Drop
from sciuq_runner.networks.layered import Init
from sciuq_runner.networks.scaled import Scaled
from sciuq_runner.physics.fields import Field, Jet, Unknowns
from sciuq_runner.physics.problem import FieldSpec, InverseGamma, Noise, Observations, Problem, Unit
from sciuq_runner.physics.taylor import Order
from sciuq_runner.schema import Count, Factory, Positive


@dataclass(frozen=True)
class BNN(Model):
    r"""Fully connected networks :math:`u_\theta(x)` with prior :math:`\theta \sim \mathcal N(0, \sigma_\theta^2)`.

    With ``learn_prior`` the scale :math:`\sigma_\theta` is inferred under an inverse-Gamma hyperprior of its square
    (``prior_shape`` h1 and ``prior_hyper_scale`` h2 of the paper). ``network`` names any ``torch.nn.Module`` class to
    take the place of the built-in one; it is made with ``n_inputs``, ``n_outputs`` and its own settings.
    """

    takes_units: ClassVar[bool] = True

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

    def bind(
        self, problem: Problem, noise: Mapping[str, Noise], observations: Mapping[str, Observations] | None = None
    ) -> BoundModel:
        predicted = {name: item for name, item in noise.items() if item.kind == "heteroscedastic"}
        carriers = {item.group or name for name, item in predicted.items()}
        networks = {
            name: in_units(
                self.make_network(len(spec.coordinates), spec.n_outputs * (2 if name in carriers else 1)), spec
            )
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


def in_units(network: Network, spec: FieldSpec) -> Network:
    """The network of a field, in the units that the problem gives for it."""
    return Scaled(network, spec.units, spec.unit, spec.n_outputs) if spec.has_units else network


class NetworkField(Field):
    """A field that is a network, with the derivatives that the physics of one quantity asks for."""

    def __init__(
        self, network: Network, theta: Tensor, columns: list[int], n_outputs: int, orders: Mapping[str, Order]
    ) -> None:
        self.network, self.theta, self.columns = network, theta, columns
        self.n_outputs, self.orders = n_outputs, orders

    def points(self, x: Tensor) -> Tensor:
        """The coordinates that the field depends on."""
        return x if self.columns == list(range(x.shape[-1])) else x[..., self.columns]

    def __call__(self, x: Tensor) -> Tensor:
        return self.network(self.theta, self.points(x))[..., : self.n_outputs]

    def at(self, x: Tensor) -> Any:
        values = self.network.derivatives(self.theta, self.points(x), tuple(self.orders.values()))
        return Jet(self.orders, [value[..., : self.n_outputs] for value in values])


class BoundBNN(BoundModel):
    r"""Networks of a problem's fields side by side in one flat theta, then its unknown numbers.

    The network that carries heteroscedastic noise has one more output s per component, and
    :math:`\sigma(x) = \mathrm{softplus}(s(x) + c)` with c such that s = 0 gives the scale that the noise starts from,
    all in the unit of the quantity that has the noise.
    """

    is_pointwise = True

    def __init__(
        self,
        problem: Problem,
        networks: Mapping[str, Network],
        prior: Prior,
        predicted: Mapping[str, Noise] | None = None,
    ) -> None:
        self.problem, self.prior = problem, prior
        self.predicted = dict(predicted or {})
        self.scalars = dict(problem.scalars)
        self.n_scalars = len(self.scalars)
        self.set_networks(networks)
        self.columns = {quantity: columns_of(problem, quantity) for quantity in problem.noise}
        self.asked = {quantity: derivatives_asked(problem, quantity) for quantity in problem.noise}

    def set_networks(self, networks: Mapping[str, Network]) -> None:
        """Lay out theta."""
        self.networks = dict(networks)
        self.sizes = [network.n_params for network in self.networks.values()]
        self.n_params = sum(self.sizes) + self.n_scalars

    def parts(self, theta: Tensor) -> dict[str, Tensor]:
        """The weights of every network."""
        return dict(zip(self.networks, torch.split(theta[:, : sum(self.sizes)], self.sizes, dim=1), strict=True))

    def parameters(self, z: Tensor) -> dict[str, Tensor]:
        return {name: item.value(z[:, i]) for i, (name, item) in enumerate(self.scalars.items())}

    def observe(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        parts, asked = self.parts(theta), self.asked[quantity]
        fields = {
            name: NetworkField(
                self.networks[name], parts[name], columns, self.problem.fields[name].n_outputs, asked[name]
            )
            for name, columns in self.columns[quantity].items()
        }
        return self.problem.observe(quantity, Unknowns(fields, self.numbers(theta)), x)

    def numbers(self, theta: Tensor) -> dict[str, Tensor]:
        """The unknown numbers as physics sees them."""
        found = self.parameters(theta[:, self.n_params - self.n_scalars :])
        return {name: value[:, None, None] for name, value in found.items()}

    def noise_scale(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        noise = self.predicted[quantity]
        carrier = noise.group or quantity
        unit = self.unit(quantity).scale
        start = float(noise.scale) / unit
        offset = start + math.log(-math.expm1(-start))  # log(exp(start) - 1), for large scales too
        outputs = self.networks[carrier](self.parts(theta)[carrier], x[..., self.columns[quantity][carrier]])
        raw = outputs[..., self.problem.fields[carrier].n_outputs :]
        return unit * (torch.nn.functional.softplus(raw + offset) + 1e-4 * start)

    def init(self, n_members: int, generator: Generator) -> Tensor:
        parts = [network.init(n_members, generator) for network in self.networks.values()]
        starts = [item.standard(item.start) if item.start is not None else 0.0 for item in self.scalars.values()]
        return torch.cat([*parts, torch.tensor(starts, dtype=torch.float64).expand(n_members, -1)], dim=1)

    def unit(self, quantity: str) -> Unit:
        return self.problem.unit_of(quantity)

    def is_direct(self, quantity: str) -> bool:
        return quantity in self.problem.direct

    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor:
        parts = [network.dropout_masks(n, rate, kind, generator) for network in self.networks.values()]
        return torch.cat([*parts, torch.ones(n, self.n_scalars, dtype=torch.float64)], dim=1)

    def last_layer(self) -> Tensor:
        parts = [network.last_layer() for network in self.networks.values()]
        return torch.cat([*parts, torch.ones(self.n_scalars, dtype=torch.bool)])

    def blocks(self) -> list[tuple[int, int]]:
        parts = [block for network in self.networks.values() for block in network.blocks()]
        return [*parts, *[(1, 1)] * self.n_scalars]
