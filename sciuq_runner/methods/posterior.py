"""What a method returns: samples, and how functions of them are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.func import vmap

from sciuq_runner.training.loop import Loop


@dataclass
class Posterior:
    """Samples ``theta[M, size]`` of the flat vectors of a target, whatever "sample" means for the method.

    Chains come one after another: sample ``s`` of chain ``c`` is row ``c * (M / n_chains) + s``. Independent
    samples (ensemble members, draws of a fitted distribution) have ``n_chains = 0``.
    """

    theta: Tensor
    n_chains: int = 0
    diagnostics: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    gradient_evaluations: int = 0

    def evaluate(self, function: Callable[[Tensor], Tensor], chunk: int = 256) -> Tensor:
        """Apply a batched function to all samples, in chunks that keep memory bounded."""
        return torch.cat(list(self.chunks(function, chunk)))

    def chunks(self, function: Callable[[Tensor], Tensor], chunk: int) -> Iterator[Tensor]:
        """The same chunk by chunk, for what is too large to keep of all samples."""
        for part in self.theta.split(chunk):
            with torch.no_grad():
                yield function(part)

    def evaluate_scale(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """The same for a noise or prior scale, which is never linearised or combined."""
        return self.evaluate(function)

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        """The samples as named tensors with metadata, for a file."""
        return {"theta": self.theta}, {"n_chains": str(self.n_chains)}


@dataclass
class LinearisedPosterior(Posterior):
    r"""Samples of the linearised model :math:`u_{\hat\theta}(x) + \nabla u_{\hat\theta}(x)^T (\theta - \hat\theta)`.

    The model that a Gauss-Newton Hessian belongs to (Immer et al. 2021), hence the one to predict with.
    """

    centre: Tensor = field(default_factory=lambda: torch.empty(0))

    def chunks(self, function: Callable[[Tensor], Tensor], chunk: int) -> Iterator[Tensor]:
        def single(theta: Tensor) -> Tensor:
            return function(theta[None])[0]

        def tangent(direction: Tensor) -> Tensor:
            parts: tuple[Tensor, ...] = torch.func.jvp(single, (self.centre,), (direction,))
            return parts[0] + parts[1]

        for part in self.theta.split(chunk):
            with torch.no_grad():
                yield vmap(tangent)(part - self.centre)

    def evaluate_scale(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        with torch.no_grad():
            value = function(self.centre[None])
        return value.expand(len(self.theta), *[-1] * (value.dim() - 1))

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        tensors, metadata = super().tensors()
        return {**tensors, "centre": self.centre}, metadata


@dataclass
class CombinedPosterior(Posterior):
    """Functions that are weighted sums of basis functions: ``weights[M, R]`` times those of ``theta[R, size]``."""

    weights: Tensor = field(default_factory=lambda: torch.empty(0))

    def chunks(self, function: Callable[[Tensor], Tensor], chunk: int) -> Iterator[Tensor]:
        with torch.no_grad():
            yield torch.tensordot(self.weights, torch.cat(list(super().chunks(function, chunk))), dims=1)

    def evaluate_scale(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        with torch.no_grad():
            value = function(self.theta[:1])
        return value.expand(len(self.weights), *[-1] * (value.dim() - 1))

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        tensors, metadata = super().tensors()
        return {**tensors, "weights": self.weights}, metadata


def chain_posterior(state: Mapping[str, Tensor], loop: Loop, n_chains: int, thin: int = 1) -> Posterior:
    """What ``n_chains`` have sampled so far, chain after chain, of ``state["samples"][S, C, K]``."""
    sampled = loop.done.get("sampling", 0)
    kept = state["samples"][: sampled // thin]
    theta = kept.transpose(0, 1) if len(kept) else state["theta"][:, None]
    posterior = Posterior(theta.flatten(0, 1), n_chains)
    posterior.gradient_evaluations = (loop.done.get("burn-in", 0) + sampled) * n_chains
    if not len(kept):
        posterior.warnings = ["Stopped before the first sample: the states kept are not samples of the posterior."]
    return posterior


def read_posterior(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Posterior:
    """The posterior that a file holds; which kind it is follows from what is in it."""
    n_chains = int(metadata["n_chains"])
    if "centre" in tensors:
        return LinearisedPosterior(tensors["theta"], n_chains, centre=tensors["centre"])
    if "weights" in tensors:
        return CombinedPosterior(tensors["theta"], n_chains, weights=tensors["weights"])
    return Posterior(tensors["theta"], n_chains)
