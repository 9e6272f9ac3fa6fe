"""What a run costs: seconds, gradient evaluations and memory."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass, field

from sciuq_runner.evaluation.metrics import Measure

COSTS = {
    "train_s": Measure("seconds of training or sampling"),
    "total_s": Measure("seconds in all"),
    "grad_evals": Measure("gradient evaluations"),
    "peak_rss_mb": Measure("largest memory in MB"),
}
"""The numbers of ``cost`` in ``metrics.json``."""


@dataclass
class Clock:
    """Seconds of a run: those since this was made and ``earlier`` ones, of a run that goes on."""

    earlier: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return self.earlier + time.perf_counter() - self.started


def peak_memory() -> float:
    """Largest resident memory of this process so far, in MB."""
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
