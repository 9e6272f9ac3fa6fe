"""What every model offers. Models know nothing of methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from torch import Generator, Tensor

from sciuq_runner.networks.base import Drop
from sciuq_runner.physics.problem import Array, InverseGamma, Noise, Observations, Problem, ProblemKind, Unit
from sciuq_runner.training.loop import Loop

InferenceKind: TypeAlias = Literal["likelihood", "prior", "adversarial"]
"""What a model leaves to a method: a posterior; only the prior of theta, where pre-training has used the observations;
or nothing but to start the training against a critic, where there is no likelihood."""


@dataclass(frozen=True)
class Prior:
    r"""Independent :math:`\mathcal N(0, \sigma_\theta^2)` on every weight.

    With a ``hyperprior`` the scale is learned together with theta and ``scale`` only starts it.
    """

    scale: float = 1.0
    hyperprior: InverseGamma | None = None


class Pretraining(ABC):
    """A stage of its own before inference, whose product is kept and found again by the hash of what makes it."""

    @abstractmethod
    def key(self) -> str:
        """The hash of all that the product depends on."""

    @abstractmethod
    def run(self, loop: Loop) -> dict[str, Tensor]:
        """Train; returns the product, as far as it came where the loop was interrupted."""

    @abstractmethod
    def load(self, product: Mapping[str, Tensor]) -> None:
        """Give the model what was trained."""

    @abstractmethod
    def kept(self) -> dict[str, Tensor]:
        """The last product that was good, where a training fails; empty if none was yet."""

    @abstractmethod
    def judge(self) -> tuple[dict[str, float], Mapping[str, Array]]:
        """How good the product that the model holds is: numbers, and arrays for a figure."""


class BoundModel(ABC):
    """A model of the unknowns of one problem: functions of the weights ``theta[M, K]``.

    The last ``n_scalars`` of them are unknown numbers of the problem in the coordinate z of their priors: standard
    normal, whatever the scale of the others is.
    """

    n_params: int
    prior: Prior
    n_scalars: int = 0
    n_starts: int = 1  # draws of :meth:`init` for every member or chain, which begins at the likeliest of them
    is_pointwise: bool = False  # values at a point need no others, and cost the same alone
    inference: InferenceKind = "likelihood"

    @abstractmethod
    def observe(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        """The noise-free quantity at ``x[N, D]`` for every member, ``[M, N, D_q]``."""

    def alternatives(self, quantity: str) -> int:
        """How many models of a quantity there are for the same theta, whose values stand in place of components."""
        return 1

    def assumed(self, quantity: str, n: int, rng: np.random.Generator) -> Array | None:
        """Prior draws ``[n]`` of a quantity anywhere, from a model whose theta already encodes the observations; None
        where it cannot say."""
        return None

    def noise_scale(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        """The predicted noise scale of a heteroscedastic quantity, ``[M, N, D_q]``; of models that predict any."""
        raise AssertionError(f"{type(self).__name__} predicts no noise")

    def parameters(self, z: Tensor) -> dict[str, Tensor]:
        """The unknown numbers of the problem by name, ``[M]`` each, of the last weights ``z[M, n_scalars]``."""
        return {}

    def unit(self, quantity: str) -> Unit:
        """What counts as one of a quantity, where the model knows units."""
        return Unit()

    def is_direct(self, quantity: str) -> bool:
        """Whether observations of a quantity are of a network's own output, with no physics between."""
        return False

    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor | None:
        """Factors ``[n, K]`` of theta that drop weights or hidden units; None if the model has none."""
        return None

    def last_layer(self) -> Tensor | None:
        """Which weights belong to the last layer, a mask ``[K]``; None if there is no such thing."""
        return None

    def blocks(self) -> list[tuple[int, int]]:
        """The weights as a row of matrices of these shapes; one column if the model has no layers."""
        return [(self.n_params, 1)]

    def conditions(self) -> Mapping[str, tuple[Observations, Noise]]:
        """What must hold beside the observations: values of further quantities of :meth:`observe`, and how well."""
        return {}

    def pretraining(self) -> Sequence[Pretraining]:
        """What has to be learned before theta, one after another."""
        return ()

    def state(self) -> dict[str, Tensor]:
        """What the model holds beside theta: pre-trained weights, statistics of observations. Saved with samples."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what :meth:`state` gave."""
        assert not state, "this model holds nothing beside theta"

    @abstractmethod
    def init(self, n_members: int, generator: Generator) -> Tensor:
        """Starting points for optimisers and chains, ``[n_members, K]`` in float64."""


class BoundAdversarialModel(BoundModel):
    """A model without likelihood, which is trained against a critic: it does that itself."""

    inference: InferenceKind = "adversarial"

    @abstractmethod
    def train(self, start: Tensor, generator: Generator, loop: Loop) -> Tensor:
        """Train members from their starting points ``[M, K]``."""


class Model(ABC):
    """The settings ``model.*``; binding them to a problem makes the functions."""

    kind: ClassVar[ProblemKind] = "fields"  # what it makes, see :attr:`Problem.kind`
    takes_units: ClassVar[bool] = False  # those of :class:`FieldSpec`
    inference: ClassVar[InferenceKind] = "likelihood"

    @abstractmethod
    def bind(
        self, problem: Problem, noise: Mapping[str, Noise], observations: Mapping[str, Observations] | None = None
    ) -> BoundModel:
        """Make the functions of theta for the fields of ``problem`` and its heteroscedastic noise.

        Some models depend on the training ``observations``; without them they wait for :meth:`BoundModel.load_state`.
        """
