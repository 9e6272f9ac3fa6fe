"""MLflow: the only module that knows it. A tracking failure warns and never loses a result."""

from __future__ import annotations

import logging
import os
import re
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
from sciuq_runner.errors import ConfigError, first_line
from sciuq_runner.files import write_atomically
from sciuq_runner.identity import TAG, configuration_hash

log = logging.getLogger(__name__)

PARENT_VARIABLE = "SCIUQ_PARENT_RUN"
MAX_PARAM = 500
OUTPUTS = (
    "metrics.json",
    "predictions.npz",
    "calibration.json",
    "distributions.npz",
    "prior.npz",
    "samples.safetensors",
    "run.log",
    "figures",
    ".hydra",
)
Status = Literal["FINISHED", "FAILED", "KILLED"]


def open_tracker(settings: TrackingSettings, folder: Path | None = None) -> Tracker | None:
    """The tracker that the settings ask for; None for ``tracking=none``."""
    if settings.kind == "none":
        return None
    return Tracker(settings.uri, settings.experiment, folder or Path.cwd())


class Tracker:
    """One experiment of one MLflow store, created on first use."""

    def __init__(self, uri: str | None, experiment: str, folder: Path) -> None:
        self.folder = folder
        self.uri = uri or f"sqlite:///{folder / 'mlflow.db'}"
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
            return f"open {self.uri}"
        program = "mlflow" if shutil.which("mlflow") else shlex.quote(str(Path(sys.executable).parent / "mlflow"))
        return f"{program} ui --backend-store-uri {shlex.quote(self.uri)}"

    def connect(self) -> None:
        """Reach the store, and make database and experiment where they are missing.

        Two first runs at once would race on the migration of a new database: a lock beside it lets one through.
        """
        quieten()
        from filelock import FileLock

        if self.database is not None and (self.database.is_dir() or any(c in str(self.database) for c in "?%#")):
            raise ConfigError(f"tracking.uri={self.uri} cannot be a database: name a file without ?, % and #.")
        try:
            lock = FileLock(f"{self.database}.lock") if self.database else nullcontext()
            with lock:
                self.find_experiment()
        except Exception as error:  # drivers, servers and files fail in ways of their own
            reason = hide_password(first_line(error))
            raise ConfigError(
                f"tracking.uri={hide_password(self.uri)} cannot be used ({reason}): start the server, name another, "
                "or run with tracking=none."
            ) from error

    def find_experiment(self) -> None:
        """Find the experiment; make it, or bring it back, where needed."""
        from mlflow import MlflowClient

        self.client = MlflowClient(self.uri)
        found = self.client.get_experiment_by_name(self.experiment)
        if found is None:
            location = (self.database.parent / "mlartifacts").as_uri() if self.database else None
            self.experiment_id = self.client.create_experiment(self.experiment, location)
            return
        self.experiment_id = found.experiment_id
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(self.experiment_id)

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
        for name in OUTPUTS:
            path = folder / name
            if path.is_file():
                self.client.log_artifact(self.run_id, str(path))
            elif path.is_dir():
                self.client.log_artifacts(self.run_id, str(path), name)
        if (folder / "model").is_dir():
            self.log_model(folder / "model")

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


def hide_password(uri: str) -> str:
    """A URI without the password that it may hold."""
    return re.sub(r"(://[^:/@]+):[^@/]+@", r"\1:***@", uri)


def guarded(action: Callable[[], object], what: str) -> bool:
    """Do something with MLflow; if that fails say so and go on."""
    try:
        action()
    except Exception as error:  # a store can fail in any way; a trained model must survive all of them
        reason = hide_password(first_line(error))
        log.warning("MLflow could not %s (%s); the results are in the run folder.", what, reason)
        return False
    return True


def quieten() -> None:
    """Keep MLflow's own chatter off the console."""
    warnings.filterwarnings("ignore", module="mlflow")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
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
    tracker.client = MlflowClient(tracker.uri)
    return tracker


def run_folder(run_id: str) -> Path | None:
    """The folder on this machine that a run of the existing store was made in."""
    try:
        tracker = existing_store()
        if tracker is None:
            return None
        return Path(tracker.client.get_run(run_id).data.tags["run_folder"])
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
