"""What models of operators offer beside those of fields."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from sciuq_runner.errors import ConfigError
from sciuq_runner.models.base import BoundModel, Model, Prior
from sciuq_runner.networks.base import Drop
from sciuq_runner.networks.operator import OperatorNetwork
from sciuq_runner.physics.problem import Array, Noise, Observations, OperatorPairs, Problem, ProblemKind


class OperatorModel(Model):
    """The settings of a model that maps functions to functions."""

    kind: ClassVar[ProblemKind] = "operator"

    @abstractmethod
    def make_network(self, sensors: Array, low: Array, high: Array) -> OperatorNetwork:
        """A network of functions read at ``sensors[S, D]`` and of points between the corners ``low`` and ``high``.

        Raises :class:`ConfigError` with a sentence where the sensors do not fit.
        """

    @property
    @abstractmethod
    def prior(self) -> Prior:
        """That of the weights."""

    def bind(
        self, problem: Problem, noise: Mapping[str, Noise], observations: Mapping[str, Observations] | None = None
    ) -> BoundModel:
        assert problem.operator is not None
        bound = BoundOperatorNetwork(self)
        if observations is not None:
            if not isinstance(observations[problem.operator.output], OperatorPairs):
                raise ConfigError(
                    "model: the readings are of one field and not of many that an operator could be learned from: "
                    "use model=pa_gan_fp or pa_bnn_fp."
                )
            x = observations[problem.operator.output].x
            bound.place(problem.transforms()[problem.operator.input].x, x.min(0), x.max(0))
        return bound


class BoundOperatorModel(BoundModel):
    """An operator as a function of the weights."""

    @abstractmethod
    def operate(self, theta: Tensor, quantity: str, x: Tensor, inputs: Tensor) -> Tensor:
        """What the operator makes of functions ``inputs[R, S]`` at ``x[N, D]``, ``[M, N, R]``."""

    def observe(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        raise AssertionError("an operator needs the function that it is applied to")


class BoundOperatorNetwork(BoundOperatorModel):
    """A network as an operator, with a Gaussian prior on all of its weights."""

    network: OperatorNetwork
    places: dict[str, Tensor]  # sensors and corners

    def __init__(self, settings: OperatorModel) -> None:
        self.settings, self.prior = settings, settings.prior

    def place(self, sensors: Array, low: Array, high: Array) -> None:
        """Make the network for these places."""
        self.network = self.settings.make_network(sensors, low, high)
        self.n_params = self.network.n_params
        self.places = {"sensors": torch.tensor(sensors), "low": torch.tensor(low), "high": torch.tensor(high)}

    def state(self) -> dict[str, Tensor]:
        return self.places

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.place(*(np.asarray(state[name].double()) for name in ("sensors", "low", "high")))

    def operate(self, theta: Tensor, quantity: str, x: Tensor, inputs: Tensor) -> Tensor:
        return self.network(theta, x, inputs)

    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor:
        return self.network.dropout_masks(n, rate, kind, generator)

    def last_layer(self) -> Tensor:
        return self.network.last_layer()

    def blocks(self) -> list[tuple[int, int]]:
        return self.network.blocks()

    def init(self, n_members: int, generator: Generator) -> Tensor:
        return self.network.init(n_members, generator)
