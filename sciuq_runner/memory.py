"""What a run will hold in memory, as far as that is known before it starts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sciuq_runner.errors import ConfigError

LIMITS = (  # of a container: its folder, what it may use, what it uses, and how much of that are files read before
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
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
    for folder, limit, usage, cached in LIMITS:
        try:
            used = int(Path(folder, usage).read_text()) - cached_files(Path(folder), cached)
            found.append(int(Path(folder, limit).read_text()) - used)
        except (OSError, ValueError):
            continue  # no such file, or "max"
    return max(0, min(found))


def cached_files(folder: Path, name: str) -> int:
    """Bytes that the system gives back when they are needed: it counts the files that it keeps as used."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@dataclass(frozen=True)
class Share:
    """What one job may have: an equal part of what is free, or ``size`` bytes where somebody else hands them out."""

    jobs: int = 1
    size: float | None = None

    def limit(self) -> tuple[float, str]:
        """Bytes, and how to say so."""
        if self.size is not None:
            return self.size, f"a job has {gigabytes(self.size)} (sweep.memory_gb)"
        free = free_memory() / self.jobs
        if self.jobs == 1:
            return free, f"{gigabytes(free)} are free"
        return free, f"{gigabytes(free)} are free for each of {self.jobs} jobs at once"


def refuse(needs: Iterable[Need], share: Share | None = None) -> None:
    """Refuse what cannot fit, by the largest of the needs."""
    largest = max(needs, key=lambda need: need.size, default=None)
    if largest is None:
        return
    limit, told = (share or Share()).limit()
    if largest.size > limit:
        raise ConfigError(
            f"{largest.key} is too large for the memory: {largest.what} take about {gigabytes(largest.size)}, and "
            f"{told}: choose less, or a smaller model or grid."
        )


def is_shortage(error: Exception) -> bool:
    """Whether memory could not be had: numpy, torch and the system each say so in words of their own."""
    said = ("allocate", "overflow", "Maximum allowed dimension", "array is too big", "Maximum allowed size exceeded")
    return isinstance(error, MemoryError | OverflowError) or (
        isinstance(error, RuntimeError | ValueError) and any(text in str(error) for text in said)
    )


def gigabytes(size: float) -> str:
    return f"{size / 1e9:.3g} GB"
