"""What sweeps leave for later ones: their records and runs, and locks that tell whether they are at work."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sciuq_runner import files, layout
from sciuq_runner import locks as lock
from sciuq_runner.errors import ConfigError
from sciuq_runner.runs.resume import Origin, read_origin
from sciuq_runner.tracking.store_failures import guarded
from sciuq_runner.tracking.tracker import Tracker

log = logging.getLogger(__name__)


Runs = dict[str, list[tuple[Path, Origin]]]  # by the hash of their configuration


def find_sweep(root: Path, identity: list[str]) -> Path | None:
    """The folder of the newest sweep with the same settings."""
    found = [
        path.parent for path in root.glob(f"*/{layout.SWEEP}") if files.read_json(path).get("settings") == identity
    ]
    return max(found, key=lambda folder: folder.stat().st_mtime, default=None)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else works on this sweep; the lock ends with the process, however that ends."""
    try:
        with lock.alone(folder / layout.SWEEP_LOCK, wait=False):
            yield
    except lock.Busy as error:
        raise ConfigError(f"sweep.resume: {folder} is still at work in another process: wait for its end.") from error


def at_work(path: Path) -> bool:
    """Whether a process holds this lock."""
    try:
        with lock.alone(path, wait=False):
            return False
    except lock.Busy:
        return True


def close_dead(root: Path, tracker: Tracker) -> None:
    """Runs of sweeps whose process died are not running, whatever MLflow says."""
    for path in root.glob(f"*/{layout.SWEEP}"):
        folder, record = path.parent, files.read_json(path)
        if record.get("status") == "RUNNING" and not at_work(folder / layout.SWEEP_LOCK):
            guarded(partial(tracker.close_sweep, folder, is_alive), "close the runs of a dead sweep")
            files.write_json(path, {**record, "status": "KILLED"})


def is_alive(folder: str) -> bool:
    """Whether the job of this folder is at work, here or on another machine that shares the folder."""
    return bool(folder) and (Path(folder) / layout.LOCK).exists() and at_work(Path(folder) / layout.LOCK)


def index(root: Path) -> Runs:
    """Runs below a folder by the hash of their configuration; the most promising to go on with comes last."""
    found: Runs = {}
    for path in [*root.glob(f"*/{layout.RESUME}"), *root.glob(f"*/*/{layout.RESUME}")]:
        try:
            origin = read_origin(path.parent)
        except ConfigError as error:
            log.warning("%s", error)
            continue
        if origin is not None and origin.digest:
            found.setdefault(origin.digest, []).append((path.parent.absolute(), origin))
    for runs in found.values():
        runs.sort(key=lambda run: ((run[0] / layout.CHECKPOINT).exists(), (run[0] / layout.RESUME).stat().st_mtime))
    return found


def origin_of(folder: Path) -> Origin | None:
    """The origin of a run folder, if there is one that can be read."""
    try:
        return read_origin(folder)
    except ConfigError:
        return None
