"""A run folder into MLflow: of a run that MLflow missed because it was away, or was not asked for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sciuq_runner import layout
from sciuq_runner.config.configuration_hash import COMMIT
from sciuq_runner.config.uris import VARIABLE, hide_password, is_own, with_credentials
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.metrics_file import read_metrics
from sciuq_runner.evaluation.result_files import refuse_half_calibrated
from sciuq_runner.files import refuse_links
from sciuq_runner.locks import held
from sciuq_runner.runs.folder_search import run_folders
from sciuq_runner.runs.resume import read_origin
from sciuq_runner.tracking.logged_results import is_complete, log_results
from sciuq_runner.tracking.run_record import RunRecord, read_record
from sciuq_runner.tracking.store_failures import complaint
from sciuq_runner.tracking.tracker import Tracker


def upload(folder: Path, uri: str | None) -> str:
    """Bring one run into MLflow; a sentence on what was done."""
    if not list(run_folders(folder)):
        raise ConfigError(f"{folder} holds no run: name the folder of a run, or one with run folders in it.")
    refuse_links(folder)
    refuse_half_calibrated(folder)
    with held(folder):
        record = read_record(folder)
        metrics = read_metrics(folder) if (folder / layout.METRICS).is_file() else {}
        tracker = reach(record, uri, folder)
        try:
            return bring(tracker, record, metrics, folder)
        except Exception as error:  # a store can fail in any way
            raise ConfigError(
                f"MLflow did not take the run ({complaint(error)}): try again when it is there."
            ) from error


def reach(record: RunRecord, uri: str | None, folder: Path) -> Tracker:
    """The store that the run belongs to; whoever made the folder may name it, the person says that it may be used."""
    if uri is None and record.uri is not None and not is_own(record.uri):
        kept = shlex.quote(hide_password(record.uri))
        raise ConfigError(f"{folder} belongs to a store elsewhere: add --uri {kept} if you want to send it there.")
    chosen = uri or record.uri
    tracker = Tracker(with_credentials(chosen) or os.environ.get(VARIABLE), record.experiment, Path.cwd())
    tracker.connect()
    return tracker


def bring(tracker: Tracker, record: RunRecord, metrics: Mapping[str, Any], folder: Path) -> str:
    """What MLflow lacks of a run."""
    known = tracker.find(record.run)
    if known is not None and is_complete(tracker, known, record.status, bool(metrics)):
        return f"run {record.run} has everything already."
    if known is None:
        parent = {"mlflow.parentRunId": str(record.parent)} if tracker.find(record.parent) else {}
        tags = {COMMIT: "unknown", **record.tags, **parent}  # not the commit of this program
        tracker.start(record.name, tags, record.params, record.started)
        remember(folder, replace(record, run=tracker.run_id))
    n_metrics, n_files, model = log_results(tracker, metrics, folder)
    tracker.end(record.status)  # type: ignore[arg-type]
    made = "is new" if known is None else "was not complete"
    return (
        f"run {tracker.run_id} {made}: {n_metrics} metrics, {n_files} files{' and the model' if model else ''} added."
    )


def remember(folder: Path, record: RunRecord) -> None:
    """Keep the id, so that what is done later with the run, or once more with this command, finds it."""
    record.write(folder)
    origin = read_origin(folder)
    if origin is not None:
        replace(origin, mlflow_run=record.run).write(folder)
