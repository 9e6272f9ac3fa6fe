"""What a run will hold in memory, as far as that is known before it starts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sciuq_runner.errors import ConfigError

LIMITS = (  # of a container: what it may use, what it uses
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


@dataclass(frozen=True)
class Need:
    """So many bytes at once, because of the setting ``key``; ``what`` they are for."""

    key: str
    what: str
    size: float


def free_memory() -> int:
    """Bytes that can be had: of the machine, or of the container where that is less."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    except (OSError, ValueError):
        pass  # not on Linux
    for limit, usage in LIMITS:
        try:
            found.append(int(Path(limit).read_text()) - int(Path(usage).read_text()))
        except (OSError, ValueError):
            continue  # no such file, or "max"
    return max(0, min(found))


def refuse(needs: Iterable[Need]) -> None:
    """Refuse what cannot fit, by the largest of the needs."""
    largest = max(needs, key=lambda need: need.size, default=None)
    if largest is None:
        return
    free = free_memory()
    if largest.size > free:
        raise ConfigError(
            f"{largest.key} is too large for the memory: {largest.what} take about {gigabytes(largest.size)}, and "
            f"{gigabytes(free)} are free: choose less, or a smaller model or grid."
        )


def is_shortage(error: Exception) -> bool:
    """Whether memory could not be had: numpy, torch and the system each say so in words of their own."""
    said = ("allocate", "overflow", "Maximum allowed dimension", "array is too big", "Maximum allowed size exceeded")
    return isinstance(error, MemoryError | OverflowError) or (
        isinstance(error, RuntimeError | ValueError) and any(text in str(error) for text in said)
    )


def gigabytes(size: float) -> str:
    return f"{size / 1e9:.3g} GB"
