"""Shared by all tests: one thread per worker, and the real program in a folder of its own."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from sciuq_runner.physics.data_cache import CACHE_VARIABLE

pytest_plugins = ["tests.tiers"]
torch.set_num_threads(1)
ROOT = Path(__file__).resolve().parents[1]


def program(*arguments: str) -> list[str]:
    """The command line of the real program under this interpreter."""
    return [sys.executable, "-m", "sciuq_runner.cli.run", *arguments]


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where data are kept while the tests run, in this process and in those that it starts."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(folder))
        yield folder


@pytest.fixture(autouse=True)
def no_tracking_server() -> Iterator[None]:
    """No test sees the server that the caller, or a test before it, has named: MLflow and our own command line put it
    into the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield
        os.environ.pop("MLFLOW_TRACKING_URI", None)


@pytest.fixture(autouse=True)
def no_adopted_problems() -> Iterator[None]:
    """No test finds problems under the names that files of another have given them."""
    yield
    if "hydra.core.config_store" in sys.modules:
        from hydra.core.config_store import ConfigStore

        from sciuq_runner.config.problem_files import ADOPTED

        for name in ADOPTED:
            ConfigStore.instance().repo.get("problem", {}).pop(f"{name}.yaml", None)
        ADOPTED.clear()


def environment(**extra: str) -> dict[str, str]:
    """A clean environment for the program: no tracking server, one thread, and no cache but that of the tests."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MLFLOW", "SCIUQ"))}
    return {**kept, CACHE_VARIABLE: os.environ[CACHE_VARIABLE], "OMP_NUM_THREADS": "1", "COLUMNS": "120", **extra}


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The real program at work in ``folder``; its lines can be read while they come."""
    return subprocess.Popen(
        program(*arguments),
        cwd=folder,
        env=environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def start_and_kill(folder: Path, *arguments: str) -> Path:
    """Start the real program in ``folder`` and kill it at its first checkpoint; the folder of its run."""
    process = subprocess.Popen(
        program(*arguments), cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not (found := list(folder.glob("runs/*/checkpoint.safetensors"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (checkpoint,) = found
    return checkpoint.parent


Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Run ``sciuq-run`` in an empty folder."""

    def call(*arguments: str, env: dict[str, str] | None = None, timeout: float = 900) -> Any:
        return subprocess.run(
            program(*arguments),
            cwd=tmp_path,
            env=environment(**(env or {})),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return call


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """The folder of a run without MLflow, to be copied."""
    folder = tmp_path_factory.mktemp("finished")
    settings = ("fidelity=smoke", "method=dens", "calibration=var", "tracking=none", "gold=null", "hydra.run.dir=run")
    subprocess.run(program(*settings), cwd=folder, env=environment(), check=True, stdout=subprocess.DEVNULL)
    return folder / "run"


@dataclass(frozen=True)
class Ended:
    """How the program ended, and what it said."""

    status: int
    out: str
    err: str


Inside = Callable[..., Ended]


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Inside]:
    """Run ``sciuq-run`` in this process, where a process of its own would only cost time."""
    from sciuq_runner.cli.run import main

    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in ("mlflow", "alembic", "matplotlib", "torch"))]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    raises, arguments, variables = logging.raiseExceptions, sys.argv, dict(os.environ)

    def call(*settings: str, folder: Path = tmp_path, keep: tuple[str, ...] = ()) -> Ended:
        monkeypatch.chdir(folder)
        ours = {name for name in os.environ if name.startswith(("MLFLOW", "SCIUQ"))}
        for name in ours - {CACHE_VARIABLE, *keep}:
            monkeypatch.delenv(name)
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main(settings)
        found = capsys.readouterr()
        return Ended(int(str(caught.value.code)), found.out, found.err)

    yield call
    logging.raiseExceptions, sys.argv = raises, arguments
    for logger, level, handlers in before:
        for handler in set(logger.handlers) - set(handlers):
            handler.close()
        logger.level, logger.handlers = level, handlers
    os.environ.clear()
    os.environ.update(variables)


@pytest.fixture
def sentence(snapshot: Any, tmp_path: Path) -> Callable[[str], None]:
    """Compare what the program says with the snapshot (``scripts/test --update-sentences`` writes it anew); folders of
    this machine and of this day have names there."""

    def compare(text: str) -> None:
        assert text.strip().replace(str(tmp_path), "FOLDER").replace(str(ROOT), "PROJECT") == snapshot

    return compare


def run_folders(folder: Path) -> list[Path]:
    """Folders of finished runs below ``folder``."""
    return sorted(path.parent for path in folder.glob("runs/**/metrics.json"))


def read_metrics(folder: Path) -> dict[str, Any]:
    """The metrics of a run folder."""
    return json.loads((folder / "metrics.json").read_text())
