"""The table at the end of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sciuq_runner import files, layout
from sciuq_runner.errors import INTERRUPTED, OK
from sciuq_runner.evaluation.metrics_file import NOT_QUANTITIES
from sciuq_runner.sweeps.earlier import origin_of
from sciuq_runner.sweeps.notes import Note
from sciuq_runner.sweeps.outcomes import Outcomes
from sciuq_runner.sweeps.plan import Planned
from sciuq_runner.tracking.tracker import Tracker


@dataclass(frozen=True)
class Row:
    """A line of the table at the end."""

    job: int
    settings: str
    status: str
    metric: str = ""
    value: float | None = None
    score: float | None = None
    sentence: str = ""
    folder: str = ""
    run: str = ""


def make_rows(jobs: Sequence[Planned], outcomes: Outcomes, tracker: Tracker | None) -> list[Row]:
    """A line for every job."""
    shared = set.intersection(*(set(item.overrides) for item in jobs)) if len(jobs) > 1 else set()
    return [make_row(item, outcomes.note_of(item), shared, tracker) for item in jobs]


def make_row(item: Planned, note: Note, shared: set[str], tracker: Tracker | None) -> Row:
    """One line of the table, with the settings that are not ``shared`` by all."""
    origin = origin_of(item.folder)
    names = {OK: "finished", INTERRUPTED: "stopped"}
    status = "finished before" if item.done else names.get(note.status, "failed")
    metric, value = headline(item.folder) if note.status == OK else ("", None)
    run = tracker.link(origin.mlflow_run) if tracker and origin and origin.mlflow_run else ""
    settings = " ".join(text for text in item.overrides if text not in shared)
    return Row(item.number, settings, status, metric, value, note.score, note.sentence, str(item.folder), run)


def headline(folder: Path) -> tuple[str, float | None]:
    """The first error that metrics.json names, with its name in MLflow."""
    path = folder / layout.METRICS
    for quantity, splits in files.read_json(path).items() if path.is_file() else ():
        for split, values in splits.items() if quantity not in NOT_QUANTITIES else ():
            if "rl2e" in values:
                return f"{quantity}/{split}/rl2e", values["rl2e"]
    return "", None
