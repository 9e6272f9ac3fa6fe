"""The runs of a report, from MLflow and from run folders, in one shape."""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sciuq_runner import layout
from sciuq_runner.config.configuration_hash import RUN_FOLDER, TAG, configuration_hash
from sciuq_runner.config.equal_terms import describe_changes
from sciuq_runner.config.uris import hide_password, server_of
from sciuq_runner.errors import ConfigError, first_line, nearest
from sciuq_runner.evaluation.metrics_file import CHANGED_TERMS, STOPPED_EARLY
from sciuq_runner.files import read_json
from sciuq_runner.runs.folder_search import run_folders
from sciuq_runner.tracking.existing_store import existing_store
from sciuq_runner.tracking.flat_keys import MAX_PARAM, flatten_metrics, flatten_params
from sciuq_runner.tracking.run_record import FINISHED, KILLED, read_record
from sciuq_runner.tracking.tracker import Tracker

log = logging.getLogger(__name__)

Figures = Mapping[str, bytes]


@dataclass(frozen=True)
class RecordedRun:
    """What a report needs to know of a run; ``note`` says why it is not in the tables, ``figures`` reads them, and
    ``file`` any other of its files."""

    name: str
    status: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    started: float
    figures: Callable[[], Figures]
    run_id: str = ""
    folder: str = ""
    link: str = ""
    note: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    file: Callable[[str], bytes | None] = lambda name: None

    @property
    def seed(self) -> str:
        """The seed as text."""
        return self.params.get("seed", "")


def named(names: Sequence[str], uri: str | None) -> list[RecordedRun]:
    """The runs of ``--runs``: folders, folders that hold run folders at any depth, ids of MLflow runs."""
    found: dict[str, RecordedRun] = {}
    for name in names:
        runs = in_folder(Path(name)) if Path(name).is_dir() else with_id(name, uri)
        found |= {run.run_id or run.folder: run for run in runs}
    return list(found.values())


# RecordedRun folders


def in_folder(top: Path) -> list[RecordedRun]:
    """All runs at or below a folder."""
    found = [read_folder(folder) for folder in run_folders(top)]
    if not found:
        raise ConfigError(f"--runs {top} holds no run: name a folder with metrics.json in it or below it.")
    return found


def read_folder(folder: Path) -> RecordedRun:
    """The run that left this folder."""
    path, place = folder / layout.METRICS, str(folder.resolve())
    figures = partial(read_figures, folder / layout.FIGURES)
    if not path.is_file():
        return RecordedRun(folder.name, "UNFINISHED", {}, {}, folder.stat().st_mtime, figures, folder=place)
    if (folder / layout.RECALIBRATING).exists():
        return RecordedRun(folder.name, "HALF CALIBRATED", {}, {}, path.stat().st_mtime, figures, folder=place)
    content = read_json(path)
    try:
        config = dict(content["config"])
        choices = dict(config.pop("choices"))
        params = {key: str(value)[:MAX_PARAM] for key, value in flatten_params(config, choices).items()}
        metrics = flatten_metrics(content)
        stopped = bool(content.get(STOPPED_EARLY))
        changed = {CHANGED_TERMS: describe_changes(content[CHANGED_TERMS])} if content.get(CHANGED_TERMS) else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"--runs: {path} is not the metrics.json of a run ({reason(error)}): remove that folder, or run it again."
        ) from error
    parts = (params.get("problem"), params.get("problem.case"), params.get("method"), f"seed {params.get('seed', '?')}")
    name = " ".join(part for part in parts if part)
    status = KILLED if stopped else FINISHED
    tags, started = {TAG: configuration_hash(config), **changed}, path.stat().st_mtime
    if (folder / layout.TRACKING).is_file():
        record = read_record(folder)
        tags, started = {**record.tags, **tags}, min(record.started / 1000, started)  # written before its results
    file = partial(read_file, folder)
    return RecordedRun(name, status, params, metrics, started, figures, folder=place, tags=tags, file=file)


def read_file(folder: Path, name: str) -> bytes | None:
    """A file of a run folder, None if it is not there."""
    return (folder / name).read_bytes() if (folder / name).is_file() else None


def read_figures(folder: Path) -> Figures:
    """The figures in a folder by name."""
    return {path.stem: path.read_bytes() for path in sorted(folder.glob("*.png"))}


def reason(error: Exception) -> str:
    """The first sentence of what went wrong, without passwords."""
    if isinstance(error, KeyError):
        return f"it has no {error}"
    return hide_password(first_line(error)).partition(". ")[0]


# MLflow


def open_store(uri: str | None) -> Tracker:
    """Reach a store that exists."""
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    shown = "--uri " + hide_password(uri or os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db")
    try:
        store = existing_store(uri)
        if store is not None:
            store.client.search_experiments(max_results=1)
    except Exception as error:  # drivers, servers and files fail in ways of their own
        raise ConfigError(
            f"{shown} cannot be read ({reason(error)}): name a file as sqlite:///mlflow.db, or a running server."
        ) from error
    if store is None:
        raise ConfigError(
            f"{shown} is missing or empty: go to the folder of the runs, name its database with --uri, "
            "or name run folders with --runs."
        )
    return store


def of_experiment(name: str, uri: str | None) -> list[RecordedRun]:
    """All runs of an experiment but the parents of sweeps."""
    store = open_store(uri)
    known = store.client.search_experiments()
    ids = [item.experiment_id for item in known if item.name == name]
    if not ids:
        hint = nearest(name, [item.name for item in known])
        raise ConfigError(f"--experiment {name} is not in {hide_password(store.uri)}: {hint}")
    found = search(store, ids[0])
    if not found:
        raise ConfigError(f"--experiment {name} has no runs: make some with sciuq-run, or name another experiment.")
    return found


def with_id(run_id: str, uri: str | None) -> list[RecordedRun]:
    """The run with this id; its jobs if it is the parent of a sweep."""
    mistake = f"--runs {run_id} is neither a folder nor the id of a run in MLflow: give the path of a run folder, or "
    if not re.fullmatch("[0-9a-f]{32}", run_id):
        raise ConfigError(mistake + "the 32 letters and digits that MLflow shows as run id.")
    store = open_store(uri)
    try:
        run = store.client.get_run(run_id)
    except Exception as error:  # the exceptions of MLflow stay in the tracking package
        raise ConfigError(mistake + f"an id that is in {hide_password(store.uri)}.") from error
    if not is_parent(run):
        return [from_mlflow(store, run)]
    return search(store, run.info.experiment_id, f"tags.mlflow.parentRunId = '{run_id}'")


def search(store: Tracker, experiment_id: str, query: str = "") -> list[RecordedRun]:
    """The runs that fit a query, page by page."""
    found: list[RecordedRun] = []
    token: str | None = None
    while True:
        part = store.client.search_runs([experiment_id], query, max_results=1000, page_token=token)
        found += [from_mlflow(store, run) for run in part if not is_parent(run)]
        token = part.token
        if not token:
            return found


def is_parent(run: Any) -> bool:
    """Whether an MLflow run only holds the jobs of a sweep."""
    return "sweep" in run.data.tags


def from_mlflow(store: Tracker, run: Any) -> RecordedRun:
    """A run as MLflow recorded it."""
    info, data = run.info, run.data
    figures = partial(download_figures, store.client, info.run_id)
    return RecordedRun(
        name=info.run_name or info.run_id,
        status=info.status,
        params=data.params,
        metrics=flatten_metrics(data.metrics),
        started=info.start_time / 1000,
        figures=figures,
        run_id=info.run_id,
        folder=data.tags.get(RUN_FOLDER, ""),
        link=run_link(store.uri, info.experiment_id, info.run_id),
        tags=data.tags,
        file=partial(find_file, store.client, info.run_id, Path(data.tags.get(RUN_FOLDER, "nowhere"))),
    )


def run_link(uri: str, experiment_id: str, run_id: str) -> str:
    """The page of a run on a tracking server, without credentials; empty for other stores."""
    server = server_of(uri)
    if not server:
        return ""
    return f"{server}/#/experiments/{experiment_id}/runs/{run_id}"


def find_file(client: Any, run_id: str, folder: Path, name: str) -> bytes | None:
    """A file of a run: from its folder if that is still there, else from the artifacts; None where it is in neither."""
    found = read_file(folder, name)
    if found is not None:
        return found
    try:
        with tempfile.TemporaryDirectory(prefix="sciuq_") as place:
            return Path(client.download_artifacts(run_id, name, place)).read_bytes()
    except Exception as error:  # as for figures
        log.warning("%s of run %s could not be read (%s).", name, run_id, reason(error))
        return None


def download_figures(client: Any, run_id: str) -> Figures:
    """The figures among the artifacts of a run; none, with a warning, where they cannot be had."""
    try:
        if not client.list_artifacts(run_id, layout.FIGURES):
            return {}
        with tempfile.TemporaryDirectory(prefix="sciuq_") as folder:
            return read_figures(Path(client.download_artifacts(run_id, layout.FIGURES, folder)))
    except Exception as error:  # a store of artifacts can fail in any way; the tables do not need it
        log.warning("The figures of run %s could not be read (%s).", run_id, reason(error))
        return {}
