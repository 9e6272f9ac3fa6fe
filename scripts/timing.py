"""How long a call takes, for the benchmarks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def elapsed(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Median time of a call, which is not the first: that one may compile or fill caches."""
    return statistics.median(elapsed(call) for _ in range(repeats))


def side_by_side(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The same of several calls in turn: what else the machine does in the meantime slows all of them alike."""
    taken = [{name: elapsed(call) for name, call in calls.items()} for _ in range(repeats)]
    return {name: statistics.median(times[name] for times in taken) for name in calls}
