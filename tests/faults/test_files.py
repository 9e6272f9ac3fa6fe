"""Writers that fail or meet, and disks that are full or cannot be written."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sciuq_runner import files
from tests.conftest import Inside
from tests.faults.conftest import SMOKE

pytestmark = pytest.mark.cli


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system of its own in memory; skips the test where that is not allowed."""
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"mounting a tmpfs needs root and a system that allows it: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)  # even where a log is still open


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    files.write_json(path, {"a": 1})

    def fail(target: Path) -> None:
        target.write_text("half")
        raise OSError(28, "No space left on device", str(target))

    with pytest.raises(OSError, match="No space left") as caught:
        files.write_atomically(path, fail)
    assert caught.value.filename == str(path)
    assert files.read_json(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    """One begins before the other and ends after it; both succeed, and the last one counts."""
    path = tmp_path / "a.txt"

    def slow(target: Path) -> None:
        target.write_text("slow")
        files.write_atomically(path, lambda other: other.write_text("quick"))
        assert path.read_text() == "quick"

    files.write_atomically(path, slow)
    assert path.read_text() == "slow"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_is_taken_away(tmp_path):
    (tmp_path / "figures").mkdir()
    for name in (".a.0123.partial.npz", "figures/.b.0123.partial.png"):
        (tmp_path / name).touch()
    (tmp_path / "partial.npz").touch()
    files.remove_partial(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["partial.npz"]


def test_a_full_disk_ends_in_a_sentence_and_loses_nothing(inside: Inside, tmp_path):
    """The disk fills up after the first checkpoint; with room again, the run goes on from there."""
    settings = ("fidelity=smoke", "tracking=none", "gold=null", "checkpoint_interval=0.001", "hydra.run.dir=run")
    with mounted(tmp_path / "disk", "size=4m") as disk:
        kept = disk / "kept.txt"
        kept.write_text("here before")
        filler = disk / "filler"

        def fill() -> None:
            checkpoint, deadline = disk / "run" / "checkpoint.safetensors", time.monotonic() + 120
            while not checkpoint.exists() and time.monotonic() < deadline:
                time.sleep(0.001)
            with filler.open("wb", buffering=0) as file:
                for size in (65536, 1024, 1):
                    try:
                        while True:
                            file.write(bytes(size))
                    except OSError:
                        continue

        thread = threading.Thread(target=fill, daemon=True)
        thread.start()
        found = inside(*settings, "method.n_burn=300", folder=disk)
        thread.join()
        assert found.status == 1, found.out
        (sentence,) = [line for line in found.out.splitlines() if line.startswith("Error")]
        assert re.fullmatch(r"Error: No space left on device: .*: go on with sciuq-run resume=.*run\.", sentence)
        assert "Traceback" not in found.out + found.err
        assert kept.read_text() == "here before"
        assert not list((disk / "run").rglob(".*.partial*"))
        assert not (disk / "run" / "metrics.json").exists()
        files.read_tensors(disk / "run" / "checkpoint.safetensors")
        filler.unlink()
        again = inside("resume=run", folder=disk)
        assert again.status == 0, again.out
        assert "Going on after" in again.out


def test_a_folder_that_cannot_be_written_is_named(inside: Inside, tmp_path):
    with mounted(tmp_path / "disk", "size=1m,ro") as disk:
        for extra, reason in ((), "cannot be used"), (("tracking=none",), "Read-only file system: "):
            found = inside(*SMOKE, *extra, folder=disk)
            assert found.status == 2
            assert reason in found.err
            assert found.err.count("\n") == 1, found.err
            assert found.out == ""
