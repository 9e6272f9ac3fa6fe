"""An experiment of an MLflow store: reached, and made where it is missing."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from sciuq_runner.config.uris import hide_password, local_store, server_of
from sciuq_runner.errors import ConfigError
from sciuq_runner.locks import alone
from sciuq_runner.tracking.store_failures import complaint

DEFAULT_EXPERIMENT = "sciuq"
DATABASE_PATIENCE = 120  # seconds that a locked SQLite file is waited for


class Experiment:
    """One experiment of one MLflow store, created on first use."""

    def __init__(self, uri: str | None, experiment: str, folder: Path, artifacts: str | None = None) -> None:
        self.folder, self.artifact_store = folder, artifacts
        self.uri = uri or local_store(folder)
        self.experiment = experiment

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

    def link(self, run_id: str) -> str:
        """Where a run is shown: by the server, or by the UI that the person starts."""
        server = server_of(self.uri) or "http://127.0.0.1:5000"
        return f"{server}/#/experiments/{self.experiment_id}/runs/{run_id}"


def wait_for_locks() -> None:
    """Let SQLite wait for another writer: MLflow itself gives up after 20 s, in every session anew."""
    import sqlite3

    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def connected(connection: Any, record: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute(f"PRAGMA busy_timeout = {1000 * DATABASE_PATIENCE}")

    def longer(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> Any:
        return statement.replace("busy_timeout = 20000", f"busy_timeout = {1000 * DATABASE_PATIENCE}"), parameters

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
