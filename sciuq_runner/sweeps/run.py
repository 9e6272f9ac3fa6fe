"""A sweep from its beginning to its end, under the eyes of MLflow and of the person at the terminal."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from sciuq_runner import files, layout
from sciuq_runner.config.environment import NOTES_VARIABLE, PARENT_VARIABLE
from sciuq_runner.runs.signals import stop_on_signal
from sciuq_runner.sweeps.console import print_sweep
from sciuq_runner.sweeps.earlier import close_dead, find_sweep, is_alive, locked
from sciuq_runner.sweeps.notes import STOP
from sciuq_runner.sweeps.settings import identity_of, sweep_settings
from sciuq_runner.sweeps.sweep import Sweep
from sciuq_runner.tracking.store_failures import guarded
from sciuq_runner.tracking.tracker import SWEEP_FOLDER, Tracker

NOTES_PREFIX = ".notes_"


def run_sweep(parsed: argparse.Namespace, tracker: Tracker | None) -> int:
    """Run all jobs of a sweep, or those that are left of it; returns the exit status."""
    resume, fresh = sweep_settings(parsed)
    identity = identity_of(parsed)
    folder = (find_sweep(fresh.parent, identity) if resume else None) or fresh
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder), notes_in(folder) as notes:
        if resume and tracker is not None:
            close_dead(fresh.parent, tracker)
        files.write_json(folder / layout.SWEEP, {"settings": identity, "status": "RUNNING", "jobs": []})
        sweep = Sweep(parsed, folder, notes, fresh.parent if resume else None)
        try:
            with parent_run(tracker, parsed.overrides, sweep), stop_on_signal((notes / STOP).touch):
                sweep.run()
        finally:
            rows = sweep.rows(tracker)
            if sweep.has_begun():
                print_sweep(rows, folder, tracker.ui_command if tracker else None, sweep.best())
            record = {"settings": identity, "status": sweep.status_name(), "jobs": [asdict(row) for row in rows]}
            with suppress(OSError):  # a full disk: the table has been shown, and every job has its folder
                files.write_json(folder / layout.SWEEP, record)
        return sweep.exit_status()


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
