"""What models of random fields offer beside those of fields."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from sciuq_runner.models.base import BoundModel, Model
from sciuq_runner.physics.problem import Array, ProblemKind


class RandomFieldModel(Model):
    """The settings of a model whose fields are random: there are many realisations of each."""

    kind: ClassVar[ProblemKind] = "random fields"


class BoundRandomFieldModel(BoundModel):
    """Random fields as functions of the weights.

    :meth:`observe` gives the realisations that the model itself has, those of its training observations or drawn ones:
    ``[M, N, R]``, which are the components of the quantity.
    """

    @property
    @abstractmethod
    def n_realisations(self) -> int:
        """How many realisations that are."""

    @abstractmethod
    def realise(self, theta: Tensor, quantity: str, x: Tensor, sensed: Mapping[str, Array]) -> Tensor:
        """New realisations ``[M, N, R]`` of a quantity at ``x[N, D]``: as many as those whose random inputs
        ``sensed[N_q, R]`` were read, and the same ones where the model can tell."""
