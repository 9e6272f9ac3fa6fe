"""Running the jobs of the paper that are left, by one process at a time in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sciuq_runner.errors import FAILED, INTERRUPTED, OK, ConfigError
from sciuq_runner.locks import Busy, alone
from sciuq_runner.reproduction import job_processes
from sciuq_runner.reproduction.job_plan import Step, group_of, task_of
from sciuq_runner.reproduction.job_processes import Task
from sciuq_runner.tracking.experiment import DEFAULT_EXPERIMENT
from sciuq_runner.tracking.tracker import Tracker

FAILURE_LOGS, REPRODUCTION_LOCK = Path("reproduce_failed"), ".sciuq-reproduce.lock"


@dataclass(frozen=True)
class Attempt:
    """What came of the jobs that were left: those that ended, and whether nobody stopped the rest."""

    ended: Sequence[Task]
    complete: bool

    @property
    def failed(self) -> list[Task]:
        """The runs that failed."""
        return [task for task in self.ended if task.status]

    @property
    def exit_status(self) -> int:
        """How the program should end."""
        if not self.complete:
            return INTERRUPTED
        return FAILED if self.failed else OK


def run_left(steps: Sequence[Step], n_jobs: int, report: Callable[[Task, int, int], None]) -> Attempt:
    """Run the steps that are left; ``report`` hears of every end, which it is, and of how many."""
    left = [step for step in steps if step.is_left]
    ready = {group_of(step.job) for step in steps if step.done}
    tasks = [task_of(step, n_jobs) for step in left]
    ended: list[Task] = []

    def heard(task: Task) -> None:
        ended.append(task)
        report(task, len(ended), len(tasks))

    # Once, before jobs race for it.
    Tracker(os.environ.get("MLFLOW_TRACKING_URI"), DEFAULT_EXPERIMENT, Path.cwd()).connect()
    try:
        with alone(Path(REPRODUCTION_LOCK), wait=False):
            complete = job_processes.run_tasks(tasks, n_jobs, heard, FAILURE_LOGS, ready)
    except Busy as error:
        raise ConfigError(f"another sciuq-reproduce is at work in {Path.cwd()}: wait for it, or stop it.") from error
    return Attempt(ended, complete)
