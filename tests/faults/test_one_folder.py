"""Two runs in one folder."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sciuq_runner import locks as lock
from sciuq_runner.errors import ConfigError
from sciuq_runner.locks import held
from tests.conftest import Inside
from tests.faults.conftest import ALONE, copy

pytestmark = pytest.mark.cli


def test_a_folder_is_for_one_process_at_a_time(inside: Inside, tmp_path):
    holder = "import sys; from pathlib import Path; from sciuq_runner.locks import held\n"
    holder += "with held(Path('run')): print('held', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", holder], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    found = inside(*ALONE, "hydra.run.dir=run")
    assert found.status == 2
    assert found.err == "sciuq-run: run is in use by another run: wait for its end, or choose another folder.\n"
    assert not (tmp_path / "run" / ".hydra").exists()
    other.send_signal(signal.SIGKILL)
    other.wait()
    with held(tmp_path / "run"):
        pass


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_a_file_system_without_locks_keeps_nobody_from_working(inside: Inside, tmp_path, monkeypatch):
    """Some network file systems have none (flock says ENOSYS): the file itself, with who made it, is the lock then."""

    def none(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", none)
    with held(tmp_path / "run"), pytest.raises(ConfigError, match="in use"), held(tmp_path / "run"):
        pass
    found = inside("-m", *ALONE, "sweep.resume=true")
    assert found.status == 0, found.err


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_that_refuses_locks_is_worked_on_without(tmp_path, monkeypatch, number):
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with held(tmp_path / "run"), held(tmp_path / "run"):
        pass
    number = errno.EIO  # that is another matter
    with pytest.raises(OSError, match="Input/output"), held(tmp_path / "run"):
        pass


def test_who_waits_for_long_is_told_for_what(tmp_path, monkeypatch, caplog):
    """A file that stands for a lock can be left by a machine that is gone."""
    monkeypatch.setattr(lock, "PATIENCE", 0.1)
    path = tmp_path / ".lock"

    def wait() -> None:
        with lock.alone(path):
            pass

    with lock.alone(path):
        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        deadline = time.monotonic() + 20
        while not caplog.records and time.monotonic() < deadline:
            time.sleep(0.02)
    thread.join(20)
    assert not thread.is_alive()
    (record,) = caplog.records
    assert record.getMessage() == f"Waiting for another process, which holds {path}: remove that file if there is none."


def test_a_folder_that_holds_a_run_stays_as_it_is(inside: Inside, finished, tmp_path):
    folder = copy(finished, tmp_path)

    def state() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    before = state()
    found = inside(*ALONE, "hydra.run.dir=run", "seed=1")
    assert found.status == 2
    assert found.err == "sciuq-run: run already holds a run: choose another folder, or resume=run.\n"
    assert state() == before
