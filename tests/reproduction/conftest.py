"""Runs of the paper's jobs that nobody ran."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from sciuq_runner.config.configuration_hash import TAG
from sciuq_runner.report.runs import Run
from sciuq_runner.reproduction.cells import Cell, tables
from sciuq_runner.reproduction.jobs import Job, jobs_of
from sciuq_runner.tracking.flat import flatten_params
from tests.tiers import FULL


def fake_run(job: Job, seed: int, metrics: Mapping[str, float], status: str = "FINISHED", **params: str) -> Run:
    """What MLflow would hold of a run of the job; ``params`` are changed settings, with __ for a dot."""
    known = flatten_params({**job.config, "seed": seed}, {"fidelity": job.fidelity})
    changed = {key.replace("__", "."): value for key, value in params.items()}
    texts = {key: str(value) for key, value in {**known, **changed}.items()}
    return Run(job.name, status, texts, metrics, time.time(), dict, tags={TAG: job.hash(seed)})


def job_of(cell: Cell, fidelity: str = "smoke") -> Job:
    """The job behind a cell."""
    (found,) = [job for job in jobs_of(cell.preset, fidelity) if frozenset(job.choices) == cell.choices]
    return found


def all_cells() -> list[Cell]:
    return [cell for table in tables().values() for cell in table.cells]


@pytest.fixture(scope="session", params=FULL)
def as_in_the_paper() -> list[Run]:
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
