"""The store that is there already: the runs in it, and what is added to them later."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sciuq_runner.config.configuration_hash import RUN_FOLDER, TAG, configuration_hash
from sciuq_runner.errors import ConfigError
from sciuq_runner.tracking.experiment import DEFAULT_EXPERIMENT, quieten, wait_for_locks
from sciuq_runner.tracking.flat_keys import flatten_params
from sciuq_runner.tracking.logged_results import log_results
from sciuq_runner.tracking.store_failures import guarded
from sciuq_runner.tracking.tracker import Tracker

log = logging.getLogger(__name__)


def existing_store(uri: str | None = None) -> Tracker | None:
    """The store ``uri``, of MLFLOW_TRACKING_URI or of the current folder, if there is one; nothing is made."""
    from mlflow import MlflowClient

    quieten()
    tracker = Tracker(uri or os.environ.get("MLFLOW_TRACKING_URI"), DEFAULT_EXPERIMENT, Path.cwd())
    if tracker.database is not None and not (tracker.database.is_file() and tracker.database.stat().st_size):
        return None
    wait_for_locks()
    tracker.client = MlflowClient(tracker.uri)
    return tracker


def run_folder(run_id: str) -> Path | None:
    """The folder on this machine that a run of the existing store was made in."""
    try:
        tracker = existing_store()
        if tracker is None:
            return None
        return Path(tracker.client.get_run(run_id).data.tags[RUN_FOLDER])
    except Exception as error:  # no such run, no such store, or not one of ours
        log.debug("run %s not found: %s", run_id, error)
        return None


def log_recalibration(run_id: str, metrics: Mapping[str, Any], folder: Path) -> None:
    """A run of its own below the one that was recalibrated: what MLflow holds of that stays as it was."""

    def add() -> None:
        tracker = existing_store()
        if tracker is None:
            raise ConfigError("there is no database in this folder")
        original = tracker.client.get_run(run_id)
        choices = metrics["config"]["choices"]
        ours = {key: value for key, value in original.data.tags.items() if not key.startswith("mlflow.")}
        config = {key: value for key, value in metrics["config"].items() if key != "choices"}
        own = {"calibration": choices["calibration"], TAG: configuration_hash(config), "mlflow.parentRunId": run_id}
        tags = {**ours, **own}
        tracker.experiment_id = original.info.experiment_id
        tracker.start(f"{original.info.run_name}, {choices['calibration']}", tags, flatten_params(config, choices))
        try:
            log_results(tracker, metrics, folder)
        finally:
            tracker.end(original.info.status)

    guarded(add, "take in the new calibration")
