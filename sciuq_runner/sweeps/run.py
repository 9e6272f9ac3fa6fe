"""A sweep from its beginning to its end, under the eyes of MLflow and of the person at the terminal."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from sciuq_runner import files, layout
from sciuq_runner.config.environment import NOTES_VARIABLE, PARENT_VARIABLE
from sciuq_runner.runs.surroundings import Stop
from sciuq_runner.sweeps.earlier import close_dead, find_sweep, is_alive, locked
from sciuq_runner.sweeps.notes import STOP
from sciuq_runner.sweeps.request import SweepRequest
from sciuq_runner.sweeps.sweep import Sweep
from sciuq_runner.sweeps.table import Row
from sciuq_runner.tracking.store_failures import guarded
from sciuq_runner.tracking.tracker import SWEEP_FOLDER, Tracker

NOTES_PREFIX = ".notes_"

TellSweep = Callable[[Sequence[Row], Path, str | None, tuple[list[str], float] | None], None]
"""Is told the jobs of a sweep, its folder, the command that compares runs, and what a search has found."""


def run_sweep(request: SweepRequest, tracker: Tracker | None, stop: Stop, tell: TellSweep) -> Sweep:
    """Run all jobs of a sweep, or those that are left of it; ``tell`` is told how they ended."""
    resume, fresh, identity = request.settings.resume, request.folder, request.identity
    folder = (find_sweep(fresh.parent, identity) if resume else None) or fresh
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder), notes_in(folder) as notes:
        if resume and tracker is not None:
            close_dead(fresh.parent, tracker)
        files.write_json(folder / layout.SWEEP, {"settings": identity, "status": "RUNNING", "jobs": []})
        sweep = Sweep(request, folder, notes, fresh.parent if resume else None)
        try:
            with parent_run(tracker, request.overrides, sweep), stop((notes / STOP).touch):
                sweep.run()
        finally:
            rows = sweep.rows(tracker)
            if sweep.has_begun():
                tell(rows, folder, tracker.ui_command if tracker else None, sweep.best())
            record = {"settings": identity, "status": sweep.status_name(), "jobs": [asdict(row) for row in rows]}
            with suppress(OSError):  # a full disk: the table has been shown, and every job has its folder
                files.write_json(folder / layout.SWEEP, record)
        return sweep


@contextmanager
def notes_in(folder: Path) -> Iterator[Path]:
    """A folder for the notes of jobs, where jobs on other machines find it too."""
    for left in folder.glob(f"{NOTES_PREFIX}*"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=NOTES_PREFIX, dir=folder, ignore_cleanup_errors=True) as notes:
        os.environ[NOTES_VARIABLE] = notes
        yield Path(notes)


@contextmanager
def parent_run(tracker: Tracker | None, overrides: Sequence[str], sweep: Sweep) -> Iterator[None]:
    """The run in MLflow that holds the jobs; that of the earlier sweep where one goes on."""
    os.environ[PARENT_VARIABLE] = ""
    if tracker is None:
        yield
        return
    text = " ".join(overrides)
    tags, params = {"sweep": text, SWEEP_FOLDER: str(sweep.folder)}, {"overrides": text}
    opened = guarded(
        lambda: tracker.start_or_reopen("sweep", tags, params, SWEEP_FOLDER), "open the parent run of the sweep"
    )
    if opened and tracker.run_id:
        os.environ[PARENT_VARIABLE] = tracker.run_id
    try:
        yield
    finally:
        os.environ.pop(PARENT_VARIABLE, None)
        if opened:
            guarded(lambda: tracker.close_children(is_alive), "close runs that were left")
            guarded(lambda: tracker.end(sweep.status_name()), "close the parent run of the sweep")
