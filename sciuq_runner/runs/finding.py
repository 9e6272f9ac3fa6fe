"""Finished runs, by their folder or their id in MLflow."""

from __future__ import annotations

from pathlib import Path

from sciuq_runner import layout
from sciuq_runner.errors import ConfigError


def find_run(name: str, half_calibrated: bool = False) -> Path:
    """The folder of a finished run, named by its folder or by its id in MLflow."""
    from sciuq_runner.evaluation.result_files import refuse_half_calibrated
    from sciuq_runner.files import refuse_links
    from sciuq_runner.tracking.existing_store import run_folder

    folder = Path(name) if Path(name).is_dir() else run_folder(name)
    if folder is None or not folder.is_dir():
        raise ConfigError(f"{name} is not the folder of a run, nor the id of a run in MLflow.")
    if not (folder / layout.METRICS).is_file():
        raise ConfigError(f"{name} has no metrics.json: name the folder of a finished run.")
    if not half_calibrated:
        refuse_half_calibrated(folder)
    refuse_links(folder)
    return folder
