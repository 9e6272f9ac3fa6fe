"""What MLflow holds of the results of a run: metrics, the files of its folder, and the model."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sciuq_runner import __version__, layout
from sciuq_runner.evaluation.plots import data_files
from sciuq_runner.tracking.flat_keys import flatten_metrics
from sciuq_runner.tracking.store_failures import is_missing
from sciuq_runner.tracking.tracker import Tracker


def log_results(tracker: Tracker, metrics: Mapping[str, Any], folder: Path) -> tuple[int, int, bool]:
    """Metrics in one batch, the files of the run folder, and the model as a pyfunc; what is there already stays.

    Other metrics than these are those of a run that was stopped early and has gone on: all of that is replaced.
    Returns the numbers of metrics and files that were not there yet, and whether the model was not.
    """
    from mlflow.entities import Metric

    assert tracker.run_id is not None
    now = int(time.time() * 1000)
    known = tracker.client.get_run(tracker.run_id)
    wanted = flatten_metrics(metrics)
    numbers = [Metric(key, value, now, 0) for key, value in wanted.items() if known.data.metrics.get(key) != value]
    replaces = bool(known.data.metrics and numbers)
    if replaces:
        forget_models(tracker, known)
    tracker.client.log_batch(tracker.run_id, metrics=numbers)
    there = {} if replaces else artifacts(tracker)
    own = {path.relative_to(folder): path for path in outputs(folder)}
    files = {name: path for name, path in own.items() if there.get(name.as_posix()) != path.stat().st_size}
    for name, path in files.items():
        tracker.client.log_artifact(tracker.run_id, str(path), "" if name.parent == Path() else name.parent.as_posix())
    new_model = (folder / layout.MODEL).is_dir() and not has_model(tracker, known)
    if new_model:
        log_model(tracker, folder / layout.MODEL)
    return len(numbers), len(files), new_model


def is_complete(tracker: Tracker, run: Any, status: str, with_results: bool) -> bool:
    """Whether all of a run arrived: that it ended, and its results, if it has any."""
    if run.info.status != status:
        return False
    return not with_results or (layout.METRICS in artifacts(tracker) and has_model(tracker, run))


def artifacts(tracker: Tracker, below: str | None = None) -> dict[str, int | None]:
    """The files of the run in the store, with their sizes."""
    assert tracker.run_id is not None
    found: dict[str, int | None] = {}
    for item in tracker.client.list_artifacts(tracker.run_id, below):
        found |= artifacts(tracker, item.path) if item.is_dir else {item.path: item.file_size}
    return found


def has_model(tracker: Tracker, run: Any) -> bool:
    """Whether the model of a run arrived completely."""
    return any(model.status == "READY" for model in models(tracker, run))


def forget_models(tracker: Tracker, run: Any) -> None:
    """Take away the models of a run."""
    for model in models(tracker, run):
        tracker.client.delete_logged_model(model.model_id)


def models(tracker: Tracker, run: Any) -> list[Any]:
    """The models of a run that were not taken away."""
    found = []
    for item in run.outputs.model_outputs if run.outputs else []:
        try:
            found.append(tracker.client.get_logged_model(item.model_id))
        except Exception as error:
            if not is_missing(error):
                raise
    return found


def log_model(tracker: Tracker, folder: Path) -> None:
    """Log the emulator as a pyfunc that our own code loads: data only, nothing pickled."""
    import mlflow

    from sciuq_runner.pyfunc import signature

    before = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(tracker.uri)
    try:
        with mlflow.start_run(run_id=tracker.run_id):
            mlflow.pyfunc.log_model(
                name=layout.MODEL,
                loader_module="sciuq_runner.pyfunc",
                data_path=str(folder),
                signature=signature(folder),
                pip_requirements=[f"sciuq-runner=={__version__}"],
            )
    finally:  # MLflow writes the variable; the next job of a sweep must not see it
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        if before is not None:
            os.environ["MLFLOW_TRACKING_URI"] = before


def outputs(folder: Path) -> list[Path]:
    """The files of a run folder that belong into MLflow, ``metrics.json`` last."""
    found = [folder / name for name in (*layout.ARTIFACTS, *data_files(), layout.METRICS)]
    return [
        path
        for item in found
        for path in (sorted(item.rglob("*")) if item.is_dir() else [item])
        if path.is_file() and ".partial" not in path.suffixes
    ]
