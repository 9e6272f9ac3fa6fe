"""Fields that generators make of a common random input, and the quantities that follow from them by physics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge
from torch import Generator as RandomGenerator
from torch import Tensor

from sciuq_runner.models.asked_derivatives import columns_of, derivatives_asked
from sciuq_runner.models.gan_training import Adversarial
from sciuq_runner.networks import MLP
from sciuq_runner.networks.activations import Activation
from sciuq_runner.networks.generator import Generator, JointGenerator, SplitGenerator
from sciuq_runner.networks.layered import Init
from sciuq_runner.physics.fields import Field, Jet, Unknowns
from sciuq_runner.physics.problem import History, Problem
from sciuq_runner.physics.taylor import Order
from sciuq_runner.schema import Count, Fraction


@dataclass(frozen=True)
class GeneratorSettings:
    """How generators of the fields of a problem are made and trained."""

    latent: Count = 20
    width: Count = 128
    depth: Annotated[int, Ge(0)] = 2
    activation: Activation = "tanh"
    init: Init = "he_normal"
    generator: Literal["split", "joint"] = "split"
    held_out: Fraction = 0.1
    gan: Adversarial = field(default_factory=Adversarial)

    def make_generator(self, n_inputs: int) -> Generator:
        kind = SplitGenerator if self.generator == "split" else JointGenerator
        return kind(n_inputs, self.latent, (self.width,) * self.depth, self.activation, self.init)


class GeneratorField(Field):
    """A field made by a generator for many inputs z, with the derivatives that the physics of one quantity asks for.

    ``arrange`` brings values ``[M, N, R]`` into the shape that the reader of the quantity expects.
    """

    def __init__(
        self,
        generator: Generator,
        beta: Tensor,
        z: Tensor,
        columns: Sequence[int],
        orders: Mapping[str, Order],
        unit: float,
        arrange: Callable[[Tensor], Tensor],
    ) -> None:
        self.generator, self.beta, self.z, self.unit = generator, beta, z, unit
        self.columns, self.orders, self.arrange = list(columns), orders, arrange

    def __call__(self, x: Tensor) -> Tensor:
        return self.unit * self.arrange(self.generator(self.beta, self.z, x[..., self.columns]))

    def at(self, x: Tensor) -> Any:
        orders = tuple(self.orders.values())
        values = self.generator.derivatives(self.beta, self.z, x[..., self.columns], orders)
        return Jet(self.orders, [self.unit * self.arrange(value) for value in values])


def members_first(values: Tensor) -> Tensor:
    """One generator, every input a member: ``[1, N, M]`` as ``[M, N, 1]``."""
    return values[0].transpose(0, 1)[..., None]


def as_they_are(values: Tensor) -> Tensor:
    """Every input a realisation: ``[M, N, R]``."""
    return values


class GeneratedFields:
    """Generators of all fields of a problem side by side in one flat ``beta``, then networks of learned noise.

    A field of which there is a history is generated in the unit of its values there.
    """

    def __init__(
        self,
        settings: GeneratorSettings,
        problem: Problem,
        learned_noise: Sequence[str] = (),
        noise_network: tuple[int, ...] = (),
    ) -> None:
        self.problem, self.latent = problem, settings.latent
        self.generators = {
            name: settings.make_generator(len(spec.coordinates)) for name, spec in problem.fields.items()
        }
        self.noises = {
            name: MLP(len(problem.coordinates_of(name)), 1, noise_network, "relu", "he_normal")
            for name in learned_noise
        }
        self.units = dict.fromkeys(problem.fields, 1.0)  # numbers, not tensors: constants of what is compiled
        self.makers: list[Generator | MLP] = [*self.generators.values(), *self.noises.values()]
        self.sizes = [part.n_params for part in self.makers]
        self.n_params = sum(self.sizes)
        self.columns = {name: columns_of(problem, name) for name in problem.noise}
        self.asked = {name: derivatives_asked(problem, name) for name in problem.noise}

    def take_units(self, history: Mapping[str, History]) -> None:
        """Let the values of a history be of the order of one."""
        for name in self.units.keys() & history.keys():
            self.units[name] = float(np.sqrt(np.square(history[name].y).mean()))

    def init(self, n_members: int, generator: RandomGenerator) -> Tensor:
        return torch.cat([part.init(n_members, generator) for part in self.makers], dim=1)

    def parts(self, beta: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The weights of every generator and of every network of noise."""
        pieces = beta.split(self.sizes, dim=1)
        n = len(self.generators)
        return dict(zip(self.generators, pieces[:n], strict=True)), dict(zip(self.noises, pieces[n:], strict=True))

    def observe(
        self, beta: Tensor, z: Tensor, quantity: str, x: Tensor, arrange: Callable[[Tensor], Tensor] = as_they_are
    ) -> Tensor:
        """A quantity at ``x[N, D]`` for every input, ``[M, N, R]`` before it is arranged."""
        weights, asked = self.parts(beta)[0], self.asked[quantity]
        fields = {
            name: GeneratorField(
                self.generators[name], weights[name], z, columns, asked[name], self.units[name], arrange
            )
            for name, columns in self.columns[quantity].items()
        }
        return self.problem.observe(quantity, Unknowns(fields), x)

    def noise_scale(self, beta: Tensor, quantity: str, x: Tensor) -> Tensor:
        """The learned scale of the noise, ``[M, N, 1]``."""
        raw = self.noises[quantity](self.parts(beta)[1][quantity], x)
        return torch.nn.functional.softplus(raw - 2.0) + 1e-4  # starts near 0.1
