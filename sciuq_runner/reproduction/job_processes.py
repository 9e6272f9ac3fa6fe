"""Running jobs, each in a process of its own: one that dies takes nothing with it."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from sciuq_runner.errors import OK
from sciuq_runner.runs.signals import stop_on_signal

POLL = 0.2
FORGET = 20.0
"""Seconds that a process gets to end by itself after it was asked to."""


@dataclass
class Task:
    """One run that is still to be made."""

    name: str
    arguments: list[str]
    group: str = ""
    """What is pre-trained for it and for others: the first of a group goes ahead, the others then find it."""

    status: int | None = None
    seconds: float = 0.0
    message: str = ""


@dataclass
class Running:
    """A task at work."""

    task: Task
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    started: float = field(default_factory=time.monotonic)


def command(arguments: Sequence[str]) -> list[str]:
    """The command line that runs a task."""
    return [sys.executable, "-m", "sciuq_runner.cli.run", *arguments]


def run_tasks(
    tasks: Sequence[Task], n_jobs: int, report: Callable[[Task], None], logs: Path, warm: set[str] | None = None
) -> bool:
    """Run all tasks, at most ``n_jobs`` at a time; ``report`` hears of every end. Returns False if stopped by Ctrl-C.

    ``warm`` are the groups whose common part is there already. The output of a task that fails is kept in ``logs``.
    """
    waiting, running = list(tasks), list[Running]()
    ready = set(warm or ())
    asked: list[bool] = []  # to stop
    try:
        with stop_on_signal(lambda: asked.append(True)):
            while (waiting or running) and not asked:
                busy = {item.task.group for item in running if item.task.group not in ready}
                ahead = next((task for task in waiting if not task.group or task.group not in busy), None)
                if ahead is not None and len(running) < n_jobs:
                    waiting.remove(ahead)
                    running.append(start(ahead))
                    continue
                time.sleep(POLL)
                for item in [item for item in running if item.process.poll() is not None]:
                    running.remove(item)
                    finish(item, logs)
                    if item.task.status == OK:
                        ready.add(item.task.group)
                    report(item.task)
            stop(running)
    finally:
        for item in running:
            item.process.kill()
            item.output.close()
    return not asked


def start(task: Task) -> Running:
    """Start the process of a task: in a session of its own, so that Ctrl-C reaches it through us alone."""
    output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the task ends
    process = subprocess.Popen(
        command(task.arguments),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    return Running(task, process, output)


def finish(item: Running, logs: Path) -> None:
    """Take down how a task ended; the output of one that failed is kept."""
    item.task.status, item.task.seconds = item.process.returncode, time.monotonic() - item.started
    if item.task.status != OK:
        item.output.seek(0)
        text = item.output.read().decode("utf-8", errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        logs.mkdir(parents=True, exist_ok=True)
        path = logs / ("_".join(item.task.name.replace("/", "_").split()) + ".log")
        path.write_text(text, encoding="utf-8")
        item.task.message = f"{lines[-1] if lines else f'exit status {item.task.status}'} ({path})"
    item.output.close()


def stop(running: Sequence[Running]) -> None:
    """End processes so that they can go on from their last checkpoint, and leave none behind."""
    for _ in (
        range(2) if running else ()
    ):  # the first asks for partial results, which nobody wants here; the second ends at once
        for item in running:
            if item.process.poll() is None:
                item.process.send_signal(signal.SIGINT)
        time.sleep(POLL)
    for item in running:
        with suppress(subprocess.TimeoutExpired):
            item.process.wait(FORGET)
