"""MLflow: the only module that knows it. A tracking failure warns and never loses a result."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from sciuq_runner import __version__
from sciuq_runner.assembly import TrackingSettings
from sciuq_runner.environment import PARENT_VARIABLE
from sciuq_runner.errors import ConfigError, first_line
from sciuq_runner.files import write_atomically
from sciuq_runner.identity import TAG, configuration_hash
from sciuq_runner.lock import alone
from sciuq_runner.uris import hide_password, local_store, server_of, with_credentials

log = logging.getLogger(__name__)

RUN_FOLDER, SWEEP_FOLDER = "run_folder", "sweep_folder"  # tags
MAX_PARAM = 500
OUTPUTS = (
    "predictions.npz",
    "calibration.json",
    "distributions.npz",
    "prior.npz",
    "detection.npz",
    "samples.safetensors",
    "run.log",
    "figures",
    ".hydra",
    "metrics.json",  # the last: where it is, all others are
)
PAGE = 1000  # runs that are asked for at once
PATIENCE = 120  # seconds that a locked SQLite file is waited for
Status = Literal["FINISHED", "FAILED", "KILLED"]


def open_tracker(settings: TrackingSettings, folder: Path | None = None) -> Tracker | None:
    """The tracker that the settings ask for; None for ``tracking=none``."""
    if settings.kind == "none":
        return None
    here = folder or Path.cwd()
    return Tracker(with_credentials(settings.uri), settings.experiment, here, settings.artifacts)


class Tracker:
    """One experiment of one MLflow store, created on first use."""

    def __init__(self, uri: str | None, experiment: str, folder: Path, artifacts: str | None = None) -> None:
        self.folder, self.artifact_store = folder, artifacts
        self.uri = uri or local_store(folder)
        self.experiment = experiment
        self.run_id: str | None = None

    @property
    def database(self) -> Path | None:
        """The SQLite file of a local store."""
        return Path(self.uri.removeprefix("sqlite:///")).absolute() if self.uri.startswith("sqlite:///") else None

    @property
    def ui_command(self) -> str:
        """The command that shows the runs."""
        if self.uri.startswith("http"):
            return f"open {server_of(self.uri)}"
        program = "mlflow" if shutil.which("mlflow") else shlex.quote(str(Path(sys.executable).parent / "mlflow"))
        return f"{program} ui --backend-store-uri {shlex.quote(hide_password(self.uri))} --host 127.0.0.1"

    def reach(self) -> None:
        """Reach the store, and make database and experiment where they are missing.

        Two first runs at once would race on the migration of a new database: a lock beside it lets one through.
        """
        quieten()
        with alone(Path(f"{self.database}.lock")) if self.database else nullcontext():
            self.find_experiment()

    def connect(self) -> None:
        """Reach the store, or say in a sentence why it cannot be used."""
        if self.database is not None and (self.database.is_dir() or any(c in str(self.database) for c in "?%#")):
            raise ConfigError(f"tracking.uri={self.uri} cannot be a database: name a file without ?, % and #.")
        try:
            self.reach()
        except Exception as error:  # drivers, servers and files fail in ways of their own
            reason = complaint(error)
            if "psycopg" in reason and isinstance(error, ImportError):
                raise ConfigError(
                    "PostgreSQL needs packages that are not installed: pip install 'sciuq-runner[postgres]'."
                ) from error
            raise ConfigError(
                f"tracking.uri={hide_password(self.uri)} cannot be used ({reason}): start the server, name another, "
                "or run with tracking=none."
            ) from error

    def find_experiment(self) -> None:
        """Find the experiment; make it, or bring it back, where needed."""
        from mlflow import MlflowClient

        wait_for_locks()
        self.client = MlflowClient(self.uri)
        found = self.client.get_experiment_by_name(self.experiment)
        if found is None:
            self.experiment_id = self.client.create_experiment(self.experiment, self.artifact_location())
            return
        self.experiment_id = found.experiment_id
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(self.experiment_id)

    def artifact_location(self) -> str | None:
        """Where the files of a new experiment go; None leaves it to the server."""
        if self.artifact_store is not None:
            return (
                self.artifact_store if "://" in self.artifact_store else Path(self.artifact_store).absolute().as_uri()
            )
        if self.uri.startswith("http"):
            return None
        return ((self.database.parent if self.database else self.folder) / "mlartifacts").absolute().as_uri()

    def reopen(self, run_id: str, params: Mapping[str, Any]) -> None:
        """Go on with a run that did not end, and that may have ended before all was known of it."""
        known = self.client.get_run(run_id).data.params
        self.client.update_run(run_id, "RUNNING")
        self.run_id = run_id
        self.log_params({key: value for key, value in params.items() if key not in known})

    def start_or_reopen(self, name: str, tags: Mapping[str, str], params: Mapping[str, Any], tag: str) -> None:
        """Go on with the run that has the same value of one tag, if there is one; otherwise open one."""
        found = self.tagged(tag, tags[tag])
        if found:
            self.reopen(found[0].info.run_id, params)
        else:
            self.start(name, tags, params)

    def tagged(self, tag: str, value: str, status: str | None = None) -> list[Any]:
        """Runs of the experiment by the value of a tag, and by status, newest first; however many there are."""
        mark = '"' if "'" in value else "'"
        query = f"tags.`{tag}` = {mark}{value}{mark}" + (f" and attributes.status = '{status}'" if status else "")
        found: list[Any] = []
        token: str | None = None
        while True:
            page = self.client.search_runs([self.experiment_id], query, max_results=PAGE, page_token=token)
            found += page
            token = page.token
            if not token:
                return found

    def close_children(self, is_alive: Callable[[str], bool], parent: str | None = None) -> None:
        """Mark runs below this one (or ``parent``) as killed that are running by name only."""
        for run in self.tagged("mlflow.parentRunId", parent or str(self.run_id), "RUNNING"):
            if not is_alive(run.data.tags.get(RUN_FOLDER, "")):
                self.client.set_terminated(run.info.run_id, "KILLED")

    def close_sweep(self, folder: Path, is_alive: Callable[[str], bool]) -> None:
        """Mark the runs of a sweep as killed whose process is gone."""
        for run in self.tagged(SWEEP_FOLDER, str(folder)):
            self.close_children(is_alive, run.info.run_id)
            if run.info.status == "RUNNING":
                self.client.set_terminated(run.info.run_id, "KILLED")

    def link(self, run_id: str) -> str:
        """Where a run is shown: by the server, or by the UI that the person starts."""
        server = server_of(self.uri) or "http://127.0.0.1:5000"
        return f"{server}/#/experiments/{self.experiment_id}/runs/{run_id}"

    def start(self, name: str, tags: Mapping[str, str], params: Mapping[str, Any], started: int | None = None) -> None:
        """Open the run, with all that is known before the work."""
        extra = {"mlflow.runName": name, "git_commit": git_commit(), "sciuq_runner": __version__}
        parent = os.environ.get(PARENT_VARIABLE)
        if parent:
            extra["mlflow.parentRunId"] = parent
        run = self.client.create_run(self.experiment_id, started, {**extra, **tags}, name)
        self.run_id = run.info.run_id
        self.log_params(params)

    def log_params(self, params: Mapping[str, Any]) -> None:
        """All that was chosen, in as many batches as MLflow asks for."""
        from mlflow.entities import Param

        assert self.run_id is not None
        entries = [Param(key, str(value)[:MAX_PARAM]) for key, value in params.items()]
        for start in range(0, len(entries), 100):
            self.client.log_batch(self.run_id, params=entries[start : start + 100])

    def log_results(self, metrics: Mapping[str, Any], folder: Path) -> tuple[int, int, bool]:
        """Metrics in one batch, the files of the run folder, and the model as a pyfunc; what is there already stays.

        Other metrics than these are those of a run that was stopped early and has gone on: all of that is replaced.
        Returns the numbers of metrics and files that were not there yet, and whether the model was not.
        """
        import time

        from mlflow.entities import Metric

        assert self.run_id is not None
        now = int(time.time() * 1000)
        known = self.client.get_run(self.run_id)
        wanted = flatten_metrics(metrics)
        numbers = [Metric(key, value, now, 0) for key, value in wanted.items() if known.data.metrics.get(key) != value]
        replaces = bool(known.data.metrics and numbers)
        if replaces:
            self.forget_models(known)
        self.client.log_batch(self.run_id, metrics=numbers)
        there = {} if replaces else self.artifacts()
        own = {path.relative_to(folder): path for path in outputs(folder)}
        files = {name: path for name, path in own.items() if there.get(name.as_posix()) != path.stat().st_size}
        for name, path in files.items():
            self.client.log_artifact(self.run_id, str(path), "" if name.parent == Path() else name.parent.as_posix())
        new_model = (folder / "model").is_dir() and not self.has_model(known)
        if new_model:
            self.log_model(folder / "model")
        return len(numbers), len(files), new_model

    def find(self, run_id: str | None) -> Any:
        """A run of the store, which is from then on the one at work; None if it has none with this id."""
        if run_id is None:
            return None
        try:
            found = self.client.get_run(run_id)
        except Exception as error:
            if is_missing(error):
                return None
            raise
        self.run_id = run_id
        return found

    def is_complete(self, run: Any, status: str, with_results: bool) -> bool:
        """Whether all of a run arrived: that it ended, and its results, if it has any."""
        if run.info.status != status:
            return False
        return not with_results or ("metrics.json" in self.artifacts() and self.has_model(run))

    def artifacts(self, below: str | None = None) -> dict[str, int | None]:
        """The files of the run in the store, with their sizes."""
        assert self.run_id is not None
        found: dict[str, int | None] = {}
        for item in self.client.list_artifacts(self.run_id, below):
            found |= self.artifacts(item.path) if item.is_dir else {item.path: item.file_size}
        return found

    def has_model(self, run: Any) -> bool:
        """Whether the model of a run arrived completely."""
        return any(model.status == "READY" for model in self.models(run))

    def forget_models(self, run: Any) -> None:
        """Take away the models of a run."""
        for model in self.models(run):
            self.client.delete_logged_model(model.model_id)

    def models(self, run: Any) -> list[Any]:
        """The models of a run that were not taken away."""
        found = []
        for item in run.outputs.model_outputs if run.outputs else []:
            try:
                found.append(self.client.get_logged_model(item.model_id))
            except Exception as error:
                if not is_missing(error):
                    raise
        return found

    def log_file(self, path: Path) -> None:
        """One more file of the run."""
        if self.run_id is not None and path.is_file():
            self.client.log_artifact(self.run_id, str(path))

    def keep_pretrained(self, key: str, path: Path) -> None:
        """Keep the product of pre-training with the run that made it."""

        def keep() -> None:
            assert self.run_id is not None
            self.client.log_artifact(self.run_id, str(path), "pretrained")
            self.client.set_tag(self.run_id, "pretrained", key)

        guarded(keep, "keep what was pre-trained")

    def find_pretrained(self, key: str, folder: Path) -> Path | None:
        """Bring the product of an earlier run into ``folder``; None if there is none."""
        found: list[Path] = []

        def find() -> None:
            runs = self.client.search_runs([self.experiment_id], f"tags.pretrained = '{key}'", max_results=1)
            if runs:
                name = f"{key}.safetensors"
                with tempfile.TemporaryDirectory() as temporary:
                    here = self.client.download_artifacts(runs[0].info.run_id, f"pretrained/{name}", temporary)
                    write_atomically(folder / name, lambda target: shutil.copyfile(here, target))
                found.append(folder / name)

        guarded(find, "look for what was pre-trained")
        return found[0] if found else None

    def log_model(self, folder: Path) -> None:
        """Log the emulator as a pyfunc that our own code loads: data only, nothing pickled."""
        import mlflow

        from sciuq_runner.pyfunc import signature

        before = os.environ.get("MLFLOW_TRACKING_URI")
        mlflow.set_tracking_uri(self.uri)
        try:
            with mlflow.start_run(run_id=self.run_id):
                mlflow.pyfunc.log_model(
                    name="model",
                    loader_module="sciuq_runner.pyfunc",
                    data_path=str(folder),
                    signature=signature(folder),
                    pip_requirements=[f"sciuq-runner=={__version__}"],
                )
        finally:  # MLflow writes the variable; the next job of a sweep must not see it
            os.environ.pop("MLFLOW_TRACKING_URI", None)
            if before is not None:
                os.environ["MLFLOW_TRACKING_URI"] = before

    def end(self, status: Status) -> None:
        """Close the run."""
        if self.run_id is not None:
            self.client.set_terminated(self.run_id, status)


def outputs(folder: Path) -> list[Path]:
    """The files of a run folder that belong into MLflow."""
    found = [folder / name for name in OUTPUTS]
    return [
        path
        for item in found
        for path in (sorted(item.rglob("*")) if item.is_dir() else [item])
        if path.is_file() and ".partial" not in path.suffixes
    ]


def is_missing(error: Exception) -> bool:
    """Whether the store says that it has no such thing."""
    return getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST"


def complaint(error: Exception) -> str:
    """What MLflow says, in short and without passwords."""
    return first_line(error, hide_password)


def guarded(action: Callable[[], object], what: str) -> bool:
    """Do something with MLflow; if that fails say so and go on."""
    try:
        action()
    except Exception as error:  # a store can fail in any way; a trained model must survive all of them
        reason = complaint(error)
        log.warning("MLflow could not %s (%s); sciuq-sync RUN uploads the run folder later.", what, reason)
        return False
    return True


def wait_for_locks() -> None:
    """Let SQLite wait for another writer: MLflow itself gives up after 20 s, in every session anew."""
    import sqlite3

    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def connected(connection: Any, record: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute(f"PRAGMA busy_timeout = {1000 * PATIENCE}")

    def longer(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> Any:
        return statement.replace("busy_timeout = 20000", f"busy_timeout = {1000 * PATIENCE}"), parameters

    if not getattr(wait_for_locks, "done", False):
        event.listen(Engine, "connect", connected)
        event.listen(Engine, "before_cursor_execute", longer, retval=True)
        wait_for_locks.done = True  # type: ignore[attr-defined]


def quieten() -> None:
    """Keep MLflow's own chatter off the console."""
    warnings.filterwarnings("ignore", module="mlflow")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")  # of silence, from a server that does not answer
    for name in ("mlflow", "alembic", "mlflow.store.db.utils", "urllib3"):
        logging.getLogger(name).setLevel(logging.ERROR)


def flatten_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """``{"u": {"id": {"rl2e": 0.2}}}`` as ``{"u/id/rl2e": 0.2}``; only finite numbers."""
    flat: dict[str, float] = {}

    def walk(prefix: str, node: Any) -> None:
        if isinstance(node, Mapping):
            for key, value in node.items():
                walk(f"{prefix}/{key}" if prefix else str(key), value)
        elif isinstance(node, int | float) and not isinstance(node, bool) and abs(node) < float("inf"):
            flat[prefix] = float(node)

    for key, value in metrics.items():
        if key != "config":
            walk(key, value)
    return flat


def flatten_params(config: Mapping[str, Any], choices: Mapping[str, str]) -> dict[str, Any]:
    """``{"method": {"n_burn": 5}}`` as ``{"method": "hmc", "method.n_burn": 5}``: filterable by choice."""
    flat: dict[str, Any] = dict(choices)

    def walk(prefix: str, node: Any) -> None:
        if isinstance(node, Mapping):
            for key, value in node.items():
                walk(f"{prefix}.{key}" if prefix else str(key), value)
        else:
            flat[prefix] = node

    walk("", config)
    return flat


def existing_store(uri: str | None = None) -> Tracker | None:
    """The store ``uri``, of MLFLOW_TRACKING_URI or of the current folder, if there is one; nothing is made."""
    from mlflow import MlflowClient

    quieten()
    tracker = Tracker(uri or os.environ.get("MLFLOW_TRACKING_URI"), "sciuq", Path.cwd())
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
            tracker.log_results(metrics, folder)
        finally:
            tracker.end(original.info.status)

    guarded(add, "take in the new calibration")


def git_commit() -> str:
    """The commit of the source tree, if the package runs from one."""
    tree = Path(__file__).resolve().parent.parent
    if not (tree / ".git").exists():
        return "none"
    command = ["git", "-C", str(tree), "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # there is no git here
        return "none"
    return found.stdout.strip() or "none"
