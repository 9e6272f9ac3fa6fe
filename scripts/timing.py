"""How long a call takes, for the benchmarks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def elapsed(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Median time of a call, which is not the first: that one may compile or fill caches."""
    return statistics.median(elapsed(call) for _ in range(repeats))
