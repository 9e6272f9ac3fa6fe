"""Notes: what jobs tell the process that started them, in whatever process and on whatever machine they run."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sciuq_runner.config.environment import NOTES_VARIABLE

STOP = "stop"  # the only one in the other direction
BEGINNING, END = ".begun", ".json"  # of the names of notes


@dataclass(frozen=True)
class Note:
    """How a job ended, for the process that started it: exit status, why it failed, and its validation score."""

    folder: str
    status: int
    sentence: str = ""
    score: float | None = None

    def leave(self) -> None:
        """Write it where the process that started the job looks for it; on a full disk, the run folder has to do."""
        with suppress(OSError):
            leave(asdict(self), END)


def leave(content: Mapping[str, Any], suffix: str) -> None:
    """A file of its own, whole or not at all, for the process that started this one."""
    notes = os.environ.get(NOTES_VARIABLE)
    if notes and os.path.isdir(notes):
        name = uuid.uuid4().hex
        part = Path(notes) / f".{name}"
        part.write_text(json.dumps(content), encoding="utf-8")
        part.rename(Path(notes) / f"{name}{suffix}")


def read_notes(notes: Path, known: Container[str] = ()) -> dict[str, Note]:
    """The notes that were left so far by the names of their files, in the order in which they were; without those
    that are ``known``."""
    paths = [path for path in notes.glob(f"*{END}") if path.name not in known]
    paths.sort(key=lambda path: path.stat().st_mtime_ns)
    return {path.name: Note(**json.loads(path.read_text(encoding="utf-8"))) for path in paths}


def take_beginnings(notes: Path) -> set[str]:
    """The folders of jobs that began since this was asked last."""
    found = set()
    for path in notes.glob(f"*{BEGINNING}"):
        found.add(json.loads(path.read_text(encoding="utf-8"))["folder"])
        path.unlink()
    return found


def stop_wanted() -> bool:
    """Whether the person at the terminal has asked the sweep to end."""
    return (Path(os.environ.get(NOTES_VARIABLE, "")) / STOP).exists()
