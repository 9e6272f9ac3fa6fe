"""Finished runs as folders small enough for a repository, from which the comparison with the paper can be made again.

A kept run is a run folder with less in it: ``metrics.json``, ``tracking.json`` (which commit made it, and when) and,
where a finding or a figure reads them, predictions in single precision. Where on a machine it was made is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sciuq_runner import files
from sciuq_runner.errors import ConfigError
from sciuq_runner.identity import RUN_FOLDER, TAG
from sciuq_runner.record import FINISHED, Record
from sciuq_runner.report.runs import Run, in_folder
from sciuq_runner.reproduction.evidence import Evidence
from sciuq_runner.reproduction.jobs import Job, jobs_of
from sciuq_runner.results import METRICS, PREDICTIONS, prediction_arrays

PREDICTED = {"network_size": ("u",), "spde_noisy": ("u_eigenvalues", "lambda_eigenvalues")}
"""Presets whose predictions figures read, and of which quantities; all else is judged by metrics."""

ELSEWHERE = "tracking"
"""The part of a configuration that names places on a machine."""


def kept_runs(folder: Path) -> list[Run]:
    """The runs that were kept in a folder; none where there is none yet."""
    return in_folder(folder) if folder.is_dir() and any(folder.iterdir()) else []


def keep(runs: Sequence[Run], found: Sequence[Job], folder: Path) -> int:
    """Keep the last finished run of every job and seed, in place of an earlier one; how many were added."""
    finished = sorted((run for run in runs if run.status == FINISHED), key=lambda run: run.started)
    newest = {run.tags.get(TAG): run for run in finished}
    seeds = sorted({int(run.seed) for run in finished if run.seed.isdigit()})
    known = {run.folder: run.started for run in kept_runs(folder)}
    read = {job.hash(0): PREDICTED[name] for name in PREDICTED for job in jobs_of(name, found[0].fidelity)}
    count = 0
    for job in found:
        for run, seed in ((newest.get(job.hash(seed)), seed) for seed in seeds):
            place = folder / name_of(job) / str(seed)
            if run is not None and known.get(str(place.resolve()), 0.0) < run.started:
                write(run, place, read.get(job.hash(0), ()))
                count += 1
    return count


def name_of(job: Job) -> str:
    """A name for the folder of a job: that of its preset and what it chooses."""
    return "_".join([job.preset, *(text.partition("=")[2] for text in job.choices)])


def write(run: Run, place: Path, quantities: Sequence[str]) -> None:
    """One run, with predictions of some quantities; ``metrics.json`` comes last, as in every run folder."""
    content = run.file(METRICS)
    if content is None:
        raise ConfigError(f"{run.name} has lost its {METRICS}: remove it from MLflow, and it will be run again.")
    metrics: dict[str, Any] = json.loads(content)
    metrics["config"] = {key: value for key, value in metrics["config"].items() if key != ELSEWHERE}
    predicted = Evidence([run], run.params["fidelity"]).predictions(run) if quantities else {}
    if predicted:
        # Calibrated distributions can be fitted again.
        arrays = prediction_arrays({name: replace(predicted[name], standards={}) for name in quantities})
        files.write_npz(place / PREDICTIONS, {name: single(array) for name, array in arrays.items()})
    tags = {key: value for key, value in run.tags.items() if key != RUN_FOLDER and not key.startswith("mlflow.")}
    params = {key: value for key, value in run.params.items() if not key.startswith(ELSEWHERE)}
    Record(run.name, tags, params, round(1000 * run.started), status=FINISHED).write(place)
    files.write_json(place / METRICS, metrics)


def single(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == np.float64 else array
