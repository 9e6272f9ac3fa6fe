"""What every method offers, and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from sciuq_runner.loop import Loop
from sciuq_runner.target import Target


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
        with torch.no_grad():
            return torch.cat([function(part) for part in self.theta.split(chunk)])

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        """The samples as named tensors with metadata, for a file."""
        return {"theta": self.theta}, {"n_chains": str(self.n_chains)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Posterior:
        """The samples read back from a file."""
        return cls(tensors["theta"], int(metadata["n_chains"]))


class Method(ABC):
    """The settings ``method.*`` and the algorithm; subclasses are frozen dataclasses."""

    @abstractmethod
    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        """Infer. Random numbers come from ``generator`` (on the CPU) alone; iterations go through ``loop``."""
