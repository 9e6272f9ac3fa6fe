"""The iterations of a method: progress for the person watching, a clean stop on request, and checkpoints."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from torch import Generator, Tensor

from sciuq_runner import files
from sciuq_runner.errors import ConfigError

log = logging.getLogger(__name__)

SECONDS = "seconds"
"""In a checkpoint, beside the counts of steps: how long it took to get there."""


class Display(Protocol):
    """Where progress is shown."""

    def start(self, name: str, total: int) -> None: ...
    def update(self, done: int, numbers: dict[str, float]) -> None: ...
    def stop(self) -> None: ...


class Silent:
    """Shows nothing: for tests and libraries."""

    def start(self, name: str, total: int) -> None: ...
    def update(self, done: int, numbers: dict[str, float]) -> None: ...
    def stop(self) -> None: ...


class Loop:
    """Handed to every method; ``for step in loop.steps("burn-in", n)`` is all that a method has to write.

    When a stop is requested the iteration ends early, ``interrupted`` is true, and the method returns what it
    has so far. What a method keeps in the dictionary that it gives to :meth:`track` is saved at intervals; a loop
    made from such a file puts it back and goes on where it stopped, with the same random numbers.
    """

    def __init__(
        self, display: Display | None = None, checkpoint: Path | None = None, interval: float = math.inf
    ) -> None:
        self.display: Display = display or Silent()
        self.numbers: dict[str, float] = {}
        self.interrupted = False
        self.done: dict[str, int] = {}
        self.checkpoint, self.interval = checkpoint, interval
        self.state: dict[str, Tensor] = {}
        self.generator: Generator | None = None
        self.inner: Loop | None = None
        self.begun = self.saved = time.monotonic()
        self.before, self.failed = 0.0, False

    def request_stop(self) -> None:
        """Ask the method to return after its current step."""
        self.interrupted = True
        if self.inner is not None:
            self.inner.request_stop()

    def stage(self, checkpoint: Path) -> Loop:
        """A loop for work that comes before the method's own: the same display, a checkpoint of its own."""
        self.before = self.earlier
        self.inner = Loop(self.display, checkpoint if self.checkpoint is not None else None, self.interval)
        self.inner.interrupted = self.interrupted
        return self.inner

    @property
    def earlier(self) -> float:
        """Seconds that processes before this one have worked on what goes on here."""
        return self.before + (self.inner.earlier if self.inner is not None else 0.0)

    def show(self, **numbers: float) -> None:
        """Numbers worth watching: loss, acceptance rate, step size."""
        self.numbers.update(numbers)

    def track(self, state: dict[str, Tensor], generator: Generator) -> dict[str, Tensor]:
        """Register all that a method needs to go on later; values of an earlier, unfinished run replace those given."""
        self.state, self.generator = state, generator
        if self.checkpoint is not None and self.checkpoint.exists():
            found, metadata = files.read_tensors(self.checkpoint)
            if found.keys() - {"generator"} != state.keys():
                raise ConfigError(f"{self.checkpoint.name} was left by another version: start the run anew.")
            generator.set_state(found.pop("generator"))
            self.before += float(metadata.pop(SECONDS, 0.0))
            self.done = {name: int(count) for name, count in metadata.items()}
            for name, value in found.items():
                state[name] = value.to(state[name].device)
            log.info("Going on after %s.", ", ".join(f"{count} steps of {name}" for name, count in self.done.items()))
        return state

    def save(self) -> None:
        """Write the checkpoint."""
        if self.checkpoint is not None and self.generator is not None:
            tensors = {**self.state, "generator": self.generator.get_state()}
            seconds = self.earlier + time.monotonic() - self.begun
            metadata = {SECONDS: str(seconds), **{name: str(count) for name, count in self.done.items()}}
            try:
                files.write_tensors(self.checkpoint, tensors, metadata)
                self.failed = False
            except OSError as error:  # a full disk may have room again when the work is done
                if not self.failed:
                    log.warning("No checkpoint can be written (%s); the work goes on.", error.strerror)
                self.failed = True
        self.saved = time.monotonic()

    def forget(self) -> None:
        """Remove the checkpoint, when all that follows from it is safe."""
        if self.checkpoint is not None:
            self.checkpoint.unlink(missing_ok=True)

    def steps(self, name: str, total: int, stride: int = 1) -> Iterator[int]:
        """Count to ``total`` in strides, showing progress, until done or asked to stop."""
        self.numbers = {}
        self.display.start(name, total)
        try:
            for step in range(self.done.get(name, 0), total, stride):
                if self.interrupted:
                    return
                yield step
                self.done[name] = min(step + stride, total)
                self.display.update(self.done[name], self.numbers)
                if time.monotonic() - self.saved > self.interval:
                    self.save()
        finally:
            self.display.stop()


class LogDisplay:
    """A plain line every few seconds, for log files and pipes."""

    def __init__(self, interval: float = 5.0) -> None:
        self.interval = interval

    def start(self, name: str, total: int) -> None:
        self.name, self.total = name, total
        self.started = self.last = time.monotonic()
        self.first: int | None = None

    def update(self, done: int, numbers: dict[str, float]) -> None:
        now = time.monotonic()
        if self.first is None:  # it may have been compiled, or done by an earlier process: no measure of the others
            self.first, self.started = done, now
        if now - self.last < self.interval and done < self.total:
            return
        self.last = now
        words = [f"{self.name} {done}/{self.total}", *(f"{key}={value:.4g}" for key, value in numbers.items())]
        if done > self.first:
            words[-1] += ","
            words.append(f"{(now - self.started) / (done - self.first) * (self.total - done):.0f} s left")
        log.info(" ".join(words))

    def stop(self) -> None: ...


class NotebookDisplay:
    """A bar in the output of a notebook's cell."""

    def start(self, name: str, total: int) -> None:
        from IPython.display import HTML, display

        self.name, self.total, self.last = name, total, 0.0
        self.show: Callable[[str], Any] = HTML
        self.handle = display(HTML(self.text(0, {})), display_id=True)

    def update(self, done: int, numbers: dict[str, float]) -> None:
        now = time.monotonic()
        if now - self.last > 0.2 or done == self.total:
            self.last = now
            self.handle.update(self.show(self.text(done, numbers)))

    def text(self, done: int, numbers: dict[str, float]) -> str:
        shown = " ".join(f"{key}={value:.4g}" for key, value in numbers.items())
        bar = f'<progress value="{done}" max="{self.total}"></progress>'
        return f"{self.name} {bar} {done}/{self.total} {shown}"

    def stop(self) -> None: ...


class BarDisplay:
    """A rich progress bar, for terminals."""

    def start(self, name: str, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, refresh_per_second=5)
        self.bar.start()
        self.task = self.bar.add_task(name, total=total, numbers="")
        self.last = 0.0

    def update(self, done: int, numbers: dict[str, float]) -> None:
        now = time.monotonic()
        if now - self.last > 0.1 or self.bar.tasks[0].total == done:
            self.last = now
            text = " ".join(f"{key}={value:.4g}" for key, value in numbers.items())
            self.bar.update(self.task, completed=done, numbers=text)

    def stop(self) -> None:
        self.bar.stop()
