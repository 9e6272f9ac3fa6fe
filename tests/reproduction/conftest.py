"""Runs of the paper's jobs that nobody ran."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from sciuq_runner.config.configuration_hash import TAG
from sciuq_runner.report.recorded_runs import RecordedRun
from sciuq_runner.reproduction.paper_jobs import Job, jobs_of
from sciuq_runner.reproduction.paper_tables import PaperCell, tables
from sciuq_runner.tracking.flat_keys import flatten_params
from sciuq_runner.tracking.tracker import Tracker
from tests.tiers import FULL

FIDELITY = "paper"
"""The one at which tests compose all presets, which takes seconds: it is that of the runs in docs/results."""


def fake_run(job: Job, seed: int, metrics: Mapping[str, float], status: str = "FINISHED", **params: str) -> RecordedRun:
    """What MLflow would hold of a run of the job; ``params`` are changed settings, with __ for a dot."""
    known = flatten_params({**job.config, "seed": seed}, {"fidelity": job.fidelity})
    changed = {key.replace("__", "."): value for key, value in params.items()}
    texts = {key: str(value) for key, value in {**known, **changed}.items()}
    return RecordedRun(job.name, status, texts, metrics, time.time(), dict, tags={TAG: job.hash(seed)})


def job_of(cell: PaperCell, fidelity: str = FIDELITY) -> Job:
    """The job behind a cell."""
    (found,) = [job for job in jobs_of(cell.preset, fidelity) if frozenset(job.choices) == cell.choices]
    return found


def all_cells() -> list[PaperCell]:
    return [cell for table in tables().values() for cell in table.cells]


@pytest.fixture(scope="session", params=FULL)
def as_in_the_paper() -> list[RecordedRun]:
    """Two seeds of every job, whose metrics lie around the paper's values: a hundredth above and below."""
    metrics: dict[tuple[str, int], dict[str, float]] = {}
    found: dict[str, Job] = {}
    for cell in all_cells():
        job = job_of(cell)
        found.setdefault(job.hash(0), job)
        for seed, factor in enumerate((0.99, 1.01)):
            if "/" in cell.metric:
                metrics.setdefault((job.hash(0), seed), {})[cell.metric] = factor * cell.printed * cell.unit
    return [fake_run(found[key], seed, values) for (key, seed), values in metrics.items()]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database with its tables, which take seconds to make, and nothing in them but an experiment."""
    folder = tmp_path_factory.mktemp("database")
    Tracker(None, "tables", folder).connect()
    return folder / "mlflow.db"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder without a tracking server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


@pytest.fixture
def here_with_database(here: Path, empty_database: Path) -> Path:
    """A working folder with a database, but without runs."""
    shutil.copyfile(empty_database, here / "mlflow.db")
    return here
