"""Finished runs as folders small enough for a repository, from which the comparison with the paper can be made again.

A kept run is a run folder with less in it: ``metrics.json``, ``tracking.json`` (which commit made it, and when) and,
where a figure of the comparison reads them, predictions in single precision. It has no figures of its own, and nothing
that says where on a machine it was made.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sciuq_runner import files, layout
from sciuq_runner.config.configuration_hash import BOOKKEEPING, COMMIT, TAG, configuration_hash
from sciuq_runner.evaluation.result_files import prediction_arrays
from sciuq_runner.report.recorded_runs import RecordedRun, read_folder
from sciuq_runner.reproduction.evidence import predictions_of
from sciuq_runner.reproduction.paper_jobs import Job, jobs_of
from sciuq_runner.runs.folder_search import run_folders
from sciuq_runner.tracking.run_record import FINISHED, RunRecord

log = logging.getLogger(__name__)

PREDICTED = {"network_size": ("u",), "spde_noisy": ("u_eigenvalues", "lambda_eigenvalues")}
"""Presets whose predictions figures read, and of which quantities; all else is judged by metrics."""

TAGS = (TAG, COMMIT, "sciuq_runner")
HERE = tuple(key for key in BOOKKEEPING if key != "choices")
"""Settings of how and where a run is made."""


def kept_runs(folder: Path) -> list[RecordedRun]:
    """The runs that were kept in a folder; none where there is none yet."""
    return [read_folder(item) for item in run_folders(folder)]


def keep(runs: Sequence[RecordedRun], found: Sequence[Job], folder: Path) -> None:
    """Keep the last finished run of every job and seed, in place of an earlier one."""
    finished = sorted((run for run in runs if run.status == FINISHED), key=lambda run: run.started)
    newest = {run.tags.get(TAG): run for run in finished}
    seeds = sorted({int(run.seed) for run in finished if run.seed.isdigit()})
    known = {run.tags[TAG]: run.started for run in kept_runs(folder) if run.status == FINISHED}
    read = {job.hash(0): PREDICTED[name] for name in PREDICTED for job in jobs_of(name, found[0].fidelity)}
    for job in found:
        for seed in seeds:
            run = newest.get(job.hash(seed))
            if run is not None and known.get(job.hash(seed), 0.0) < run.started - 0.001:  # kept to milliseconds
                write(run, folder / job.fidelity / name_of(job) / str(seed), read.get(job.hash(0), ()))


def name_of(job: Job) -> str:
    """A name for the folder of a job: that of its preset and what it chooses."""
    return "_".join([job.preset, *(text.partition("=")[2] for text in job.choices)])


def write(run: RecordedRun, place: Path, quantities: Sequence[str]) -> None:
    """One run, with predictions of some quantities; ``metrics.json`` comes last, as in every run folder."""
    metrics = metrics_of(run)
    predicted = predictions_of(run) if quantities and metrics else {}
    if not metrics or not predicted.keys() >= set(quantities):
        log.warning("%s is not kept: its files cannot be read, or are of another calibration.", run.name)
        return
    for name in (layout.METRICS, layout.PREDICTIONS):
        (place / name).unlink(missing_ok=True)
    metrics["config"] = without(metrics["config"], HERE)
    if predicted:
        # Calibrated distributions can be fitted again.
        arrays = prediction_arrays({name: replace(predicted[name], standards={}) for name in quantities})
        files.write_npz(place / layout.PREDICTIONS, {name: single(array) for name, array in arrays.items()})
    tags = {key: run.tags[key] for key in TAGS if key in run.tags}
    params = {key: value for key, value in run.params.items() if key.partition(".")[0] not in HERE}
    RunRecord(run.name, tags, params, round(1000 * run.started), status=FINISHED).write(place)
    files.write_json(place / layout.METRICS, metrics)


def metrics_of(run: RecordedRun) -> dict[str, Any]:
    """The content of ``metrics.json``; empty where it is gone, or is that of a later calibration."""
    try:
        found: dict[str, Any] = json.loads(run.file(layout.METRICS) or b"{}")
        same = configuration_hash(without(found["config"], ("choices",))) == run.tags[TAG]
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    return found if same else {}


def without(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in names}


def single(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == np.float64 else array
