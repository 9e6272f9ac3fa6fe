"""Polynomial chaos whose modes are networks, for stochastic equations (Section 4.5 and Appendix B.5 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge
from torch import Generator, Tensor

from sciuq_runner.errors import ConfigError
from sciuq_runner.models.base import Prior
from sciuq_runner.models.bnn import BoundBNN, NetworkField
from sciuq_runner.models.polynomial_chaos import PCA, ChaosBasis, Encoding
from sciuq_runner.models.random_fields import BoundRandomFieldModel, RandomFieldModel
from sciuq_runner.networks import MLP, Network
from sciuq_runner.networks.activations import Activation
from sciuq_runner.networks.layered import Init
from sciuq_runner.networks.parallel import Parallel
from sciuq_runner.physics.fields import Jet, Unknowns
from sciuq_runner.physics.problem import Array, Noise, Observations, Problem, Realisations
from sciuq_runner.physics.taylor import Order
from sciuq_runner.schema import Count, Positive, Share
from sciuq_runner.training.optimisers import AdamState, adam, cosine_cycles

N_ATTEMPTS, WARM_RATE = 4, 2e-2  # at a starting point, and the learning rate towards it


@dataclass(frozen=True)
class NNPC(RandomFieldModel):
    r"""Random fields as expansions in random variables :math:`\xi` that are found from the observations.

    The random inputs of a problem, here f and lambda, are encoded by their principal components
    :math:`\xi = [\xi_f; \xi_\lambda]`, as many as hold ``share`` of the variance. An input that is itself a field has
    the Karhunen-Loève expansion, every other field one in polynomials of total degree ``order`` that are orthonormal on
    the sample,

    .. math::
        \lambda(x, \xi) = \lambda_0(x) + \sum_j \sqrt{q_j}\, \lambda_j(x)\, \xi_{\lambda j}, \qquad
        u(x, \xi) = \sum_{p=0}^P u_p(x)\, \rho_p(\xi).

    The mean :math:`u_0` is one network (``mean_depth`` hidden layers of ``mean_width``), all modes another
    (``depth`` of ``width``; ``input_depth`` for inputs). Observations of a quantity that follows from the fields, such
    as f, are compared with what the physics makes of them.

    Optimisers and chains start where ``warm_start`` steps of Adam on every network alone have brought it towards the
    modes that observations of its field give at the sensors, by least squares and without physics; of four such
    attempts for each member the best counts. From random weights a mean of so few units as in the paper is often stuck
    at a constant, and misfits of fields that the equation couples hinder each other.
    """

    order: Count = 2
    share: Share = 0.99
    mean_width: Count = 32
    mean_depth: Count = 2
    width: Count = 32
    depth: Count = 4
    input_depth: Count = 2
    activation: Activation = "tanh"
    init: Init = "xavier_normal"
    warm_start: Annotated[int, Ge(0)] = 2000
    prior_scale: Positive = 1.0

    def bind(
        self, problem: Problem, noise: Mapping[str, Noise], observations: Mapping[str, Observations] | None = None
    ) -> BoundNNPC:
        bound = BoundNNPC(problem, self)
        if observations is not None:
            bound.learn(observations)
        return bound

    def network(self, n_inputs: int, n_modes: int, depth: int) -> Network:
        """The mean and the modes of one expansion."""
        shapes = ((1, (self.mean_width,) * self.mean_depth), (n_modes, (self.width,) * depth))
        return Parallel(
            [MLP(n_inputs, n, hidden, self.activation, self.init, self.prior_scale) for n, hidden in shapes]
        )


class RandomField(NetworkField):
    """Modes that are outputs of a network, times what each realisation multiplies them with: ``matrix[P + 1, R]``."""

    def __init__(
        self, network: Network, theta: Tensor, columns: list[int], orders: Mapping[str, Order], matrix: Tensor
    ) -> None:
        super().__init__(network, theta, columns, network.n_outputs, orders)
        self.matrix = matrix

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x) @ self.matrix

    def at(self, x: Tensor) -> Any:
        modes = super().at(x)
        stacked = torch.stack([getattr(modes, name) for name in self.orders], dim=1)
        return Jet(self.orders, (stacked @ self.matrix).unbind(1))


class BoundNNPC(BoundBNN, BoundRandomFieldModel):
    """The expansions of a problem's fields.

    What was learned of the inputs, and the realisations of training, are its state; :meth:`observe` is of the latter.
    """

    is_pointwise = False  # observations are realisations at the same places
    encoding: Encoding
    seen: dict[str, Tensor]  # observations of the random inputs of training, [N_q, R]
    matrices: dict[str, Tensor]  # of the same, by field
    observations: Mapping[str, Observations]

    def __init__(self, problem: Problem, settings: NNPC) -> None:
        super().__init__(problem, {}, Prior(settings.prior_scale))
        self.settings = settings

    @property
    def decoded(self) -> Sequence[str]:
        """Random inputs that follow from the fields, and have an expansion of their own nevertheless."""
        return ()

    @property
    def n_realisations(self) -> int:
        return next(iter(self.seen.values())).shape[1]

    def learn(self, observations: Mapping[str, Observations]) -> None:
        """Find the random variables of the training observations."""
        inputs = {name: observations[name].y for name in self.problem.random_inputs}
        try:
            encoding = Encoding.fit(inputs, self.settings.share, self.settings.order)
        except ValueError as error:
            raise ConfigError(f"{error}: use more realisations, or a smaller model.order or model.share.") from error
        self.set_encoding(encoding, inputs)
        self.observations = observations

    def set_encoding(self, encoding: Encoding, inputs: Mapping[str, Array]) -> None:
        """Take random variables with the realisations of training, and make networks of the right size."""
        self.encoding = encoding
        self.seen = {name: torch.tensor(y) for name, y in inputs.items()}
        self.matrices = self.expansions(inputs)
        dimensions = {name: len(spec.coordinates) for name, spec in self.problem.fields.items()}
        dimensions |= {name: len(self.problem.coordinates_of(name)) for name in self.decoded}
        self.set_networks(
            {
                name: self.settings.network(
                    dimensions[name],
                    len(self.matrices[name]) - 1,
                    self.settings.input_depth if name in self.problem.random_inputs else self.settings.depth,
                )
                for name in dimensions
            }
        )

    def expansions(self, inputs: Mapping[str, Array]) -> dict[str, Tensor]:
        """What multiplies the modes of every field, for the realisations of which these inputs were read."""
        found = {name: torch.tensor(values) for name, values in self.encoding.matrices(inputs).items()}
        return {name: found.get(name, found[""]) for name in (*self.problem.fields, *self.decoded)}

    def observe(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        return self.values(theta, quantity, x, self.matrices)

    def realise(self, theta: Tensor, quantity: str, x: Tensor, sensed: Mapping[str, Array]) -> Tensor:
        return self.values(theta, quantity, x, self.expansions(sensed))

    def values(self, theta: Tensor, quantity: str, x: Tensor, matrices: Mapping[str, Tensor]) -> Tensor:
        """A quantity for all realisations that the matrices are of, ``[M, N, R]``."""
        parts, asked = self.parts(theta), self.asked[quantity]
        fields = {
            name: RandomField(self.networks[name], parts[name], columns, asked[name], matrices[name].to(theta))
            for name, columns in self.columns[quantity].items()
        }
        return self.problem.observe(quantity, Unknowns(fields, self.numbers(theta)), x)

    def init(self, n_members: int, generator: Generator) -> Tensor:
        if not self.settings.warm_start:
            return super().init(n_members, generator)
        start = super().init(N_ATTEMPTS * n_members, generator)
        parts = self.parts(start)
        found = [self.approach(network, parts[name], name) for name, network in self.networks.items()]
        return torch.cat([*found, start[:n_members, self.n_params - self.n_scalars :]], dim=1)

    def approach(self, network: Network, theta: Tensor, name: str) -> Tensor:
        """Weights ``[M, K]`` with which a network comes near the modes of its observations: the best attempt."""
        observations, matrix = self.observations[name], self.matrices[name]
        x = torch.tensor(observations.x)
        modes = torch.linalg.lstsq(matrix.T, torch.tensor(observations.y).T).solution.T

        def misfit(weights: Tensor) -> Tensor:
            found: Tensor = (network(weights, x) - modes).square().sum((1, 2))
            return found

        n_steps = self.settings.warm_start
        rate = cosine_cycles(n_steps, 1, WARM_RATE, 0.01 * WARM_RATE)
        zeros = torch.zeros_like(theta)
        begin = AdamState(theta, zeros, zeros, theta.new_zeros(()))
        end = adam(misfit, begin, theta.new_tensor([rate(step) for step in range(n_steps)]))[0].theta
        with torch.no_grad():
            attempts = misfit(end).view(N_ATTEMPTS, -1)
        return torch.unflatten(end, 0, attempts.shape)[attempts.argmin(0), torch.arange(attempts.shape[1])]

    def state(self) -> dict[str, Tensor]:
        found = {"basis": torch.tensor(self.encoding.basis.factor)}
        for name, pca in self.encoding.inputs.items():
            parts = {"centre": pca.centre, "vectors": pca.vectors, "values": pca.values}
            found |= {f"{name}.{part}": torch.tensor(values) for part, values in parts.items()}
            found[f"{name}.seen"] = self.seen[name]
        return found

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        arrays = {name: np.asarray(value.double()) for name, value in state.items()}
        names = self.problem.random_inputs
        inputs = {name: PCA(*(arrays[f"{name}.{part}"] for part in ("centre", "vectors", "values"))) for name in names}
        basis = ChaosBasis(self.settings.order, arrays["basis"])
        self.set_encoding(Encoding(inputs, basis), {name: arrays[f"{name}.seen"] for name in names})


@dataclass(frozen=True)
class NNPCPlus(NNPC):
    r"""NNPC with a decoder for every random input that is not a field, here f:

    .. math:: f'(x, \xi) = f'_0(x) + \sum_j \sqrt{q_j}\, f'_j(x)\, \xi_{f j}.

    Observations of f are compared with f', which knows no more of a realisation than its encoding, and the physics
    with f' in turn: the condition :math:`f - f' = 0`, met up to the noise scale of f at ``n_collocation`` points along
    each coordinate, evenly between the outermost sensors. The prior of the weights keeps the decoder smooth.
    """

    n_collocation: Count = 25

    def bind(
        self, problem: Problem, noise: Mapping[str, Noise], observations: Mapping[str, Observations] | None = None
    ) -> BoundNNPC:
        bound = BoundNNPCPlus(problem, self, noise)
        if observations is not None:
            bound.learn(observations)
        return bound


class BoundNNPCPlus(BoundNNPC):
    """The expansions of a problem's fields, and of those inputs that are none."""

    def __init__(self, problem: Problem, settings: NNPCPlus, noise: Mapping[str, Noise]) -> None:
        super().__init__(problem, settings)
        self.n_collocation, self.noise = settings.n_collocation, noise
        self.collocation: dict[str, Array] = {}

    @property
    def decoded(self) -> Sequence[str]:
        return [name for name in self.problem.random_inputs if name not in self.problem.fields]

    def learn(self, observations: Mapping[str, Observations]) -> None:
        super().learn(observations)
        self.collocation = {name: even(observations[name].x, self.n_collocation) for name in self.decoded}

    def conditions(self) -> Mapping[str, tuple[Observations, Noise]]:
        return {
            f"{BALANCE}{name}": (
                Realisations(x, np.zeros((len(x), self.seen[name].shape[1]))),
                Noise("exact", self.noise[name].scale),
            )
            for name, x in self.collocation.items()
        }

    def values(self, theta: Tensor, quantity: str, x: Tensor, matrices: Mapping[str, Tensor]) -> Tensor:
        name = quantity.removeprefix(BALANCE)
        if name not in self.decoded:
            return super().values(theta, quantity, x, matrices)
        decoded = self.networks[name](self.parts(theta)[name], x) @ matrices[name].to(theta)
        if name == quantity:
            return decoded
        return super().values(theta, name, x, matrices) - decoded


BALANCE = "balance of "
"""Begins the name of the condition that physics and decoder agree."""


def even(x: Array, n: int) -> Array:
    """A grid of ``n`` points along each coordinate over the range of ``x[N, D]``."""
    axes = [np.linspace(low, high, n) for low, high in zip(x.min(0), x.max(0), strict=True)]
    return np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)
