"""What every method offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from torch import Generator

from sciuq_runner.memory import Need
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.models.base import InferenceKind
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop


def vectors(key: str, count: int, size: int, itemsize: int) -> Need:
    """Samples of the flat vector of a target, twice: where they are made, and where they are used."""
    return Need(f"{key}={count}", f"{count} samples of {size} numbers", 2.0 * count * size * itemsize)


class Method(ABC):
    """The settings ``method.*`` and the algorithm; subclasses are frozen dataclasses."""

    inferences: ClassVar[Sequence[InferenceKind]] = ("likelihood",)  # what it can do, see :data:`InferenceKind`

    def objection(self, target: Target) -> str | None:
        """One sentence on why this method cannot serve a target, where mathematics does not allow it."""
        return None

    @property
    def kept(self) -> tuple[str, int]:
        """The setting that says how many samples there will be, and their number; zero where that is not known."""
        key = next((name for name in ("n_samples", "n_members") if hasattr(self, name)), "")
        return f"method.{key}", getattr(self, key, 0)

    def needs(self, target: Target) -> list[Need]:
        """What will be held in memory, as far as it grows with settings: the samples, to begin with."""
        key, count = self.kept
        return [vectors(key, count, target.size, target.dtype.itemsize)]

    @abstractmethod
    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        """Infer. Random numbers come from ``generator`` (on the CPU) alone; iterations go through ``loop``."""
