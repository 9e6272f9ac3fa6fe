"""Mini-batches: some of the observations, standing for all of them; and pieces, which make up all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Generator, Tensor

from sciuq_runner.target.terms import OperatorTerm, Term

Batch: TypeAlias = Mapping[str, tuple[Tensor, ...]]
"""A mini-batch: for every quantity the indices of the observations that take part, and of functions for operators."""

OPERATOR_POINTS = 400
"""Points of a mini-batch for an operator: each costs as much as a function, and they are shared by all functions."""

PIECE_ROWS, PIECE_POINTS = 2000, 100
"""Points of a piece of the observations at least, of all members together and of one: then its arithmetic takes longer
than its calls, and what it holds still fits into the caches."""

REPEATED_SHARE = 0.05
"""The share of all points by which pieces may add to the work, because some observations are in each."""


@dataclass(frozen=True)
class Batches:
    """Choices among the observations of some terms; ``is_divisible`` if work in pieces is as good as whole."""

    every: Sequence[Term]
    device: torch.device
    is_divisible: bool

    @property
    def terms(self) -> list[Term]:
        """The terms that are chosen from: conditions follow the observations of their quantity."""
        return [term for term in self.every if not term.is_condition]

    @property
    def n_observations(self) -> int:
        """How many observations there are in all."""
        return sum(term.n_data for term in self.terms)

    def draw(self, size: int, generator: Generator) -> Batch:
        """Indices of a random mini-batch: about ``size`` observations, split over quantities by their number.

        For operators that many functions, at some of the points.
        """
        share = min(1.0, size / self.n_observations)
        return {term.quantity: self.draw_from(term, size, share, generator) for term in self.terms}

    def draw_from(self, term: Term, size: int, share: float, generator: Generator) -> tuple[Tensor, ...]:
        """The indices of one term in a mini-batch."""
        if isinstance(term, OperatorTerm):
            points = self.draw_some(term.n_observations, OPERATOR_POINTS, generator)
            return points, self.draw_some(len(term.inputs), size, generator)
        take = max(1, round(share * term.n_observations))
        return (self.draw_some(term.n_observations, take, generator),)

    def draw_some(self, count: int, take: int, generator: Generator) -> Tensor:
        """Some of the first ``count`` numbers in random order."""
        order = torch.randperm(count, generator=generator, device=generator.device)
        return order[: min(take, count)].to(self.device)

    def draw_several(self, size: int, n_batches: int, generator: Generator) -> tuple[Tensor, ...]:
        """Several mini-batches as tensors that :meth:`unpack` takes one row each of."""
        drawn = [self.draw(size, generator) for _ in range(n_batches)]
        return tuple(
            torch.stack([batch[name][part] for batch in drawn])
            for name in drawn[0]
            for part in range(len(drawn[0][name]))
        )

    def pieces(self, n_members: int) -> tuple[Tensor, ...]:
        """Mini-batches that make up all observations, a row of every tensor each, as of :meth:`draw_several`.

        None where one piece is best. Their likelihoods, each scaled up to stand for all observations, have that of all
        observations as their mean. Quantities whose number of observations does not divide are whole in every piece.
        """
        if not self.is_divisible or self.device.type != "cpu":
            return ()
        points = sum(len(term.x) for term in self.terms)
        for count in range(min(points // PIECE_POINTS, n_members * points // PIECE_ROWS), 1, -1):
            repeated = sum(len(term.x) for term in self.terms if term.n_observations % count)
            if (count - 1) * repeated <= REPEATED_SHARE * points:
                every = [torch.arange(term.n_observations) for term in self.terms]
                return tuple(
                    index.expand(count, -1) if len(index) % count else index.view(count, -1) for index in every
                )
        return ()

    def unpack(self, picks: Sequence[Tensor]) -> Batch | None:
        """The mini-batch of some tensors of indices; of none, all observations."""
        if not picks:
            return None
        remaining = iter(picks)
        return {term.quantity: tuple(next(remaining) for _ in range(term.n_indices)) for term in self.terms}
