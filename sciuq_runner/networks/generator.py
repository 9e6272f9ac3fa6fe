"""Generators: networks of a random input z and a point x, batched over members, points and draws of z."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Generator as RandomGenerator
from torch import Tensor

from sciuq_runner.networks.activations import Activation
from sciuq_runner.networks.layered import Init
from sciuq_runner.networks.mlp import MLP
from sciuq_runner.physics.taylor import Order


class Generator(ABC):
    r"""A random function :math:`u_z(x; \beta)` with :math:`z \sim \mathcal N(0, I)`.

    Shapes:
        ``beta`` is ``[M, P]`` with one member per row, ``z`` is ``[R, K]`` (shared by all members) or ``[M, R, K]``,
        ``x`` is ``[N, D]``; values and derivatives are ``[M, N, R]``.
    """

    n_inputs: int
    latent: int
    n_params: int

    def __call__(self, beta: Tensor, z: Tensor, x: Tensor) -> Tensor:
        return self.derivatives(beta, z, x, [(0,) * self.n_inputs])[0]

    @abstractmethod
    def derivatives(self, beta: Tensor, z: Tensor, x: Tensor, orders: Sequence[Order]) -> list[Tensor]:
        """Derivatives with respect to x, by how often along each coordinate; (0, 0) is the value."""

    @abstractmethod
    def init(self, n_members: int, generator: RandomGenerator) -> Tensor:
        """Draw starting weights, ``[n_members, P]`` in float64 on the CPU."""


class SplitGenerator(Generator):
    r"""Two networks that meet in an inner product, :math:`u_z(x) = \sum_k a_k(z)\, t_k(x)` (Meng et al. 2022).

    Derivatives are those of t alone, taken once for all draws of z: what makes inference in z cheap.
    """

    def __init__(
        self, n_inputs: int, latent: int, hidden: Sequence[int], activation: Activation, init: Init = "xavier_normal"
    ) -> None:
        self.n_inputs, self.latent = n_inputs, latent
        self.branch = MLP(latent, latent, hidden, activation, "xavier_normal")
        self.trunk = MLP(n_inputs, latent, hidden, activation, init)
        self.n_params = self.branch.n_params + self.trunk.n_params

    def derivatives(self, beta: Tensor, z: Tensor, x: Tensor, orders: Sequence[Order]) -> list[Tensor]:
        branch, trunk = beta.split([self.branch.n_params, self.trunk.n_params], dim=1)
        modes = torch.cat(self.trunk.derivatives(trunk, x, orders), dim=1)
        values = torch.bmm(modes, self.branch(branch, z).transpose(1, 2))
        return list(values.tensor_split(len(orders), dim=1))

    def init(self, n_members: int, generator: RandomGenerator) -> Tensor:
        """The first units of the trunk turn over at places drawn from [-1, 1]: with biases of zero all of its functions
        would be odd, and their structure be around zero alone."""
        branch, trunk = (net.init(n_members, generator) for net in (self.branch, self.trunk))
        weight, bias = self.trunk.layers(trunk)[0]
        places = 2 * torch.rand(weight.shape, generator=generator, dtype=weight.dtype) - 1
        bias.copy_(-(weight * places).sum(1, keepdim=True))
        return torch.cat([branch, trunk], dim=1)


class JointGenerator(Generator):
    """One network that takes z and x side by side (Yang et al. 2020).

    In the first layer both have a matrix of their own: z is multiplied once for all points, x once for all draws.
    """

    def __init__(
        self, n_inputs: int, latent: int, hidden: Sequence[int], activation: Activation, init: Init = "xavier_normal"
    ) -> None:
        self.n_inputs, self.latent = n_inputs, latent
        self.network = MLP(n_inputs + latent, 1, hidden, activation, init)
        self.n_params = self.network.n_params

    def derivatives(self, beta: Tensor, z: Tensor, x: Tensor, orders: Sequence[Order]) -> list[Tensor]:
        (first, offset), *following = self.network.layers(beta)
        along_x, along_z = first.split([self.n_inputs, self.latent], dim=1)
        from_x, from_z = torch.matmul(x, along_x), torch.matmul(z, along_z) + offset
        every = (from_x[:, :, None] + from_z[:, None]).flatten(1, 2)  # draw at every point
        values = self.network.sweep(every, along_x, following, orders)
        return [value.reshape(len(beta), len(x), z.shape[-2]) for value in values]

    def init(self, n_members: int, generator: RandomGenerator) -> Tensor:
        return self.network.init(n_members, generator)
