"""MLflow: the only module that knows it. A tracking failure warns and never loses a result."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from sciuq_runner import __version__
from sciuq_runner.assembly import TrackingSettings
from sciuq_runner.console import NOT_QUANTITIES
from sciuq_runner.errors import ConfigError

log = logging.getLogger(__name__)

PARENT_VARIABLE = "SCIUQ_PARENT_RUN"
MAX_PARAM = 500
Status = Literal["FINISHED", "FAILED", "KILLED"]


def open_tracker(settings: TrackingSettings) -> Tracker | None:
    """The tracker that the settings ask for; None for ``tracking=none``."""
    return None if settings.kind == "none" else Tracker(settings.uri, settings.experiment)


class Tracker:
    """One experiment of one MLflow store, created on first use."""

    def __init__(self, uri: str | None, experiment: str) -> None:
        self.folder = Path.cwd()
        self.uri = uri or f"sqlite:///{self.folder / 'mlflow.db'}"
        self.experiment = experiment
        self.run_id: str | None = None

    @property
    def ui_command(self) -> str:
        """The command that shows the runs."""
        if self.uri.startswith("http"):
            return f"open {self.uri}"
        program = "mlflow" if shutil.which("mlflow") else shlex.quote(str(Path(sys.executable).parent / "mlflow"))
        return f"{program} ui --backend-store-uri {shlex.quote(self.uri)}"

    def connect(self) -> None:
        """Reach the store, and make database and experiment where they are missing.

        Two first runs at once would race on the migration of a new database: a lock lets one through.
        """
        from filelock import FileLock

        quieten()
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        local = self.uri.startswith("sqlite:///")
        try:
            with FileLock(self.folder / ".mlflow.lock") if local else _nothing():
                self.client = MlflowClient(self.uri)
                found = self.client.get_experiment_by_name(self.experiment)
                if found is None:
                    location = (self.folder / "mlartifacts").as_uri() if local else None
                    self.experiment_id = self.client.create_experiment(self.experiment, location)
                else:
                    self.experiment_id = found.experiment_id
        except (MlflowException, OSError) as error:
            reason = str(error).strip().splitlines()[0][:200]
            raise ConfigError(
                f"tracking.uri={self.uri} cannot be used ({reason}): start the server, name another, "
                "or run with tracking=none."
            ) from error

    def reopen(self, run_id: str) -> None:
        """Go on with a run that did not end."""
        self.client.update_run(run_id, "RUNNING")
        self.run_id = run_id

    def start(self, name: str, tags: Mapping[str, str], params: Mapping[str, Any]) -> None:
        """Open the run, with all that is known before the work."""
        from mlflow.entities import Param

        extra = {"mlflow.runName": name, "git_commit": git_commit(), "sciuq_runner": __version__}
        parent = os.environ.get(PARENT_VARIABLE)
        if parent:
            extra["mlflow.parentRunId"] = parent
        run = self.client.create_run(self.experiment_id, tags={**tags, **extra}, run_name=name)
        self.run_id = run.info.run_id
        entries = [Param(key, str(value)[:MAX_PARAM]) for key, value in params.items()]
        for start in range(0, len(entries), 100):
            self.client.log_batch(self.run_id, params=entries[start : start + 100])

    def log_results(self, metrics: Mapping[str, Any], folder: Path) -> None:
        """Metrics in one batch, the files of the run folder, and the model as a pyfunc."""
        import time

        from mlflow.entities import Metric

        assert self.run_id is not None
        now = int(time.time() * 1000)
        numbers = [Metric(key, value, now, 0) for key, value in flatten_metrics(metrics).items()]
        self.client.log_batch(self.run_id, metrics=numbers)
        for path in sorted(folder.iterdir()):
            if path.name.startswith(".") and path.name != ".hydra":
                continue
            if path.is_file():
                self.client.log_artifact(self.run_id, str(path))
            elif path.name != "model":
                self.client.log_artifacts(self.run_id, str(path), path.name)
        if (folder / "model").is_dir():
            self.log_model(folder / "model")

    def log_model(self, folder: Path) -> None:
        """Log the emulator as a pyfunc that our own code loads: data only, nothing pickled."""
        import mlflow

        mlflow.set_tracking_uri(self.uri)
        with mlflow.start_run(run_id=self.run_id):
            mlflow.pyfunc.log_model(
                name="model",
                loader_module="sciuq_runner.pyfunc",
                data_path=str(folder),
                pip_requirements=[f"sciuq-runner=={__version__}"],
            )

    def end(self, status: Status) -> None:
        """Close the run."""
        if self.run_id is not None:
            self.client.set_terminated(self.run_id, status)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def guarded(action: Callable[[], object], what: str) -> bool:
    """Do something with MLflow; if that fails say so and go on."""
    try:
        action()
    except Exception as error:  # a store can fail in any way; a trained model must survive all of them
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        log.warning("MLflow could not %s (%s); the results are in the run folder.", what, reason)
        return False
    return True


def quieten() -> None:
    """Keep MLflow's own chatter off the console."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    for name in ("mlflow", "alembic", "mlflow.store.db.utils"):
        logging.getLogger(name).setLevel(logging.WARNING)


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


def run_folder(run_id: str) -> Path | None:
    """The folder on this machine that a run of the default store was made in."""
    tracker = Tracker(os.environ.get("MLFLOW_TRACKING_URI"), "sciuq")
    try:
        tracker.connect()
        return Path(tracker.client.get_run(run_id).data.tags["run_folder"])
    except Exception as error:  # no such run, no such store, or not one of ours
        log.debug("run %s not found: %s", run_id, error)
        return None


def git_commit() -> str:
    """The commit of the source tree, if the package runs from one."""
    tree = Path(__file__).resolve().parent.parent
    if not (tree / ".git").exists():
        return "none"
    command = ["git", "-C", str(tree), "rev-parse", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "none"


__all__ = [
    "NOT_QUANTITIES",
    "PARENT_VARIABLE",
    "Tracker",
    "flatten_metrics",
    "flatten_params",
    "guarded",
    "open_tracker",
]
