"""What a run is made under: where progress is shown, what stops it early, and who is told its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sciuq_runner.training.loop import Display, Silent

Stop = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""A context in which something may ask the work to end after its current step."""

Tell = Callable[[Mapping[str, Any], Path, str | None], None]
"""Is told the metrics of a run, its folder, and the command that compares runs."""


def _nobody(metrics: Mapping[str, Any], folder: Path, ui_command: str | None) -> None: ...


@dataclass(frozen=True)
class Surroundings:
    """Those of a library, unless others are given: nothing is shown, no signal is handled, nobody is told, and the log
    is the caller's own matter."""

    display: Display = field(default_factory=Silent)
    stop: Stop = field(default=lambda request_stop: nullcontext())
    tell: Tell = _nobody
    log: Callable[[Path], AbstractContextManager[None]] = field(default=lambda folder: nullcontext())


def terminal() -> Surroundings:
    """Those of a person at a terminal: a bar or lines, Ctrl-C, and a table at the end."""
    from sciuq_runner.runs.console import make_display, print_summary
    from sciuq_runner.runs.signals import stop_on_signal

    return Surroundings(make_display(), stop_on_signal, print_summary)
