"""One term of a likelihood: what is observed of a quantity, and what the model gives there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import ClassVar

import numpy as np
import torch
from scipy.linalg import helmert
from torch import Tensor

from sciuq_runner.models.base import BoundModel
from sciuq_runner.models.operators import BoundOperatorModel
from sciuq_runner.physics.noise import Noise
from sciuq_runner.physics.observations import Array, Observations, OperatorPairs, RepeatedObservations

MakeTensor = Callable[[object], Tensor]
"""Puts numbers where the target lives."""

Standardise = Callable[[Array], Tensor]
"""Functions at the sensors of an operator, in the units in which it is learned."""


@dataclass(frozen=True)
class Term:
    """The likelihood of the observations of one quantity, one row of y at each of its points."""

    quantity: str
    x: Tensor
    y: Tensor
    noise: Noise
    known_scale: Tensor  # scalar, or one per observation: [N, 1]
    slot: int | None  # where log sigma sits among the learned scales

    is_condition: ClassVar[bool] = False  # no observation, but something that should hold beside them
    n_indices: ClassVar[int] = 1  # how many tensors of indices :meth:`select` takes

    @property
    def n_observations(self) -> int:
        """How many observations a mini-batch can choose from."""
        return len(self.y)

    @property
    def n_data(self) -> int:
        """How many observations count where a likelihood is divided by their number."""
        return self.n_observations

    def values(self, model: BoundModel, weights: Tensor) -> Tensor:
        """What the model gives at the points of the term, ``[M, N, D_q]``."""
        return model.observe(weights, self.quantity, self.x)

    def combine(self, values: Tensor) -> Tensor:
        """What is observed of the values at all points."""
        return values

    def select(self, *indices: Tensor) -> Term:
        """The same term over some of its observations."""
        (index,) = indices
        return replace(self, x=self.x[index], y=self.y[index], known_scale=self.scale_of(index))

    def scale_of(self, index: Tensor) -> Tensor:
        """The known scale of some observations."""
        return self.known_scale if self.known_scale.dim() == 0 else self.known_scale[index]


@dataclass(frozen=True)
class CombinedTerm(Term):
    """The likelihood of combinations of the values at the copies of a point, see :class:`RepeatedObservations`.

    The rows of ``mix[rows for each observation, copies]`` are these combinations.
    """

    mix: Tensor

    @property
    def n_observations(self) -> int:
        return len(self.x) // self.mix.shape[1]

    def combine(self, values: Tensor) -> Tensor:
        copies = torch.unflatten(values, 1, (self.mix.shape[1], -1))
        return torch.einsum("kc,mcnd->mknd", self.mix, copies).flatten(1, 2)

    def select(self, *indices: Tensor) -> Term:
        (index,) = indices
        x, y = (
            torch.unflatten(part, 0, (times, -1))[:, index].flatten(0, 1)
            for part, times in ((self.x, self.mix.shape[1]), (self.y, self.mix.shape[0]))
        )
        return replace(self, x=x, y=y, known_scale=self.scale_of(index))


@dataclass(frozen=True)
class SteadyTerm(CombinedTerm):
    """How alike the values at the copies of a point are: contrasts between them are zero, up to a scale."""

    is_condition: ClassVar[bool] = True


@dataclass(frozen=True)
class OperatorTerm(Term):
    """The likelihood of what an operator makes of the functions ``inputs[R, S]``: one column of y for each."""

    inputs: Tensor

    n_indices: ClassVar[int] = 2  # of points and of functions

    @property
    def n_data(self) -> int:
        return self.y.numel()

    def values(self, model: BoundModel, weights: Tensor) -> Tensor:
        return operate(model, weights, self.quantity, self.x, self.inputs)

    def select(self, *indices: Tensor) -> Term:
        points, functions = indices
        y = self.y.index_select(0, points).index_select(1, functions)
        scale = self.scale_of(points)
        return replace(self, x=self.x[points], y=y, known_scale=scale, inputs=self.inputs[functions])


def operate(model: BoundModel, weights: Tensor, quantity: str, x: Tensor, inputs: Tensor) -> Tensor:
    """What a model of an operator makes of standardised functions ``inputs[R, S]`` at ``x[N, D]``, ``[M, N, R]``."""
    assert isinstance(model, BoundOperatorModel)
    return model.operate(weights, quantity, x, inputs)


@singledispatch
def terms_of(observed: Observations, term: Term, tensor: MakeTensor, standardised: Standardise) -> list[Term]:
    """The terms of some observations, made from the plain ``term`` of them."""
    return [term]


@terms_of.register
def repeated_terms(
    observed: RepeatedObservations, term: Term, tensor: MakeTensor, standardised: Standardise
) -> list[Term]:
    """One term for the means over copies, and one for the contrasts between them."""
    copies, drift = observed.copies, observed.drift
    means, contrasts = tensor(np.full((1, copies), 1 / copies)), tensor(helmert(copies))
    mean = CombinedTerm(term.quantity, term.x, term.y, term.noise, term.known_scale, term.slot, means)
    zeros = torch.zeros_like(term.y).repeat(copies - 1, 1)
    steady = SteadyTerm(term.quantity, term.x, zeros, Noise("exact", drift), tensor(drift), None, contrasts)
    return [mean, steady]


@terms_of.register
def operator_terms(observed: OperatorPairs, term: Term, tensor: MakeTensor, standardised: Standardise) -> list[Term]:
    """One term for all functions."""
    inputs = standardised(observed.inputs)
    return [OperatorTerm(term.quantity, term.x, term.y, term.noise, term.known_scale, term.slot, inputs)]


def log_density(residual: Tensor, scale: Tensor, noise: Noise) -> Tensor:
    """Elementwise log density of noise with this scale; broadcasts."""
    standard = residual / scale
    if noise.family == "student_t":
        nu = noise.degrees_of_freedom
        constant = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
        return constant - scale.log() - 0.5 * (nu + 1) * torch.log1p(standard**2 / nu)
    return -0.5 * standard**2 - scale.log() - 0.5 * math.log(2 * math.pi)
