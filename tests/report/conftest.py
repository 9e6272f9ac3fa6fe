"""Runs that nobody ran, in folders and in MLflow, and the real ``sciuq-report``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from PIL import Image

from sciuq_runner.report.recorded_runs import RecordedRun
from sciuq_runner.tracking.flat_keys import flatten_metrics, flatten_params
from tests.conftest import environment

METHODS = {"gp": 0.21, "dens": 0.24, "hmc": 0.22, "mfvi": 0.30}
COST = {"gp": 1.0, "dens": 30.0, "hmc": 150.0, "mfvi": 12.0}


def results(method: str, seed: int, **changes: Any) -> dict[str, Any]:
    """What a run would have written, made up; ``changes`` are settings, with __ for a dot."""
    error = METHODS.get(method, 0.5) + 0.01 * seed
    config: dict[str, Any] = {
        "choices": {
            "problem": "function",
            "model": "bnn",
            "method": method,
            "calibration": "none",
            "fidelity": "quick",
        },
        "problem": {"_target_": "sciuq_runner.problems.function.Function", "case": "known"},
        "method": {"_target_": f"sciuq_runner.methods.{method}", "n_samples": 100 if method == "hmc" else 10},
        "seed": seed,
        "threads": seed,
    }
    for key, value in changes.items():
        group, _, name = key.partition("__")
        config[group] = {**config[group], name: value} if name else value
    return {
        "u": {
            "ood": {"rl2e": 3 * error, "mpl": 1 / error},
            "id": {"piw": 0.4, "rmsce": error / 4, "mpl": 0.5 / error, "rl2e": error},
        },
        "noise": {"u": {"mean": 0.1, "std": 0.01}},
        "diagnostics": {"rhat_max": 1.01},
        "cost": {"train_s": COST.get(method, 5.0), "grad_evals": 1000},
        "config": config,
    }


def png(width: int = 40, height: int = 30) -> bytes:
    """A small picture."""
    found = BytesIO()
    Image.new("RGB", (width, height), "teal").save(found, "PNG")
    return found.getvalue()


def leave_folder(folder: Path, content: dict[str, Any], figures: tuple[str, ...] = ("u_bands",)) -> Path:
    """A run folder."""
    (folder / "figures").mkdir(parents=True)
    (folder / "metrics.json").write_text(json.dumps(content))
    for name in figures:
        (folder / "figures" / f"{name}.png").write_bytes(png())
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Run folders of four methods with three seeds each, some deep, and two runs that did not end well."""
    top = tmp_path / "runs"
    for method in METHODS:
        for seed in range(3):
            leave_folder(top / "sweep" / f"{method}_{seed}", results(method, seed), ("u_bands", "u_calibration"))
    leave_folder(top / "stopped", {**results("hmc", 7), "interrupted": True})
    (top / "died").mkdir()
    (top / "died" / "resume.json").write_text("{}")
    return top


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a real MLflow store: a sweep of four jobs, and runs that failed, were killed, or still run."""
    folder = tmp_path_factory.mktemp("store")
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.create_experiment("sciuq", (folder / "mlartifacts").as_uri())
    client.create_experiment("empty")
    parent = client.create_run(experiment, tags={"sweep": "method=hmc,dens"}, run_name="sweep").info.run_id
    for method in ("hmc", "dens"):
        for seed in (0, 1):
            log_run(client, experiment, results(method, seed), "FINISHED", parent, folder)
    log_run(client, experiment, results("mfvi", 0), "FAILED", None, folder)
    log_run(client, experiment, results("mfvi", 1), "KILLED", None, folder)
    log_run(client, experiment, results("mfvi", 2), "RUNNING", None, folder)
    client.set_terminated(parent, "FAILED")
    return folder


def log_run(
    client: MlflowClient, experiment: str, content: dict[str, Any], status: str, parent: str | None, folder: Path
) -> None:
    """Record a run as the tracking module does."""
    config = dict(content["config"])
    choices = config.pop("choices")
    name = f"function known {choices['method']} seed {config['seed']}"
    tags = {"run_folder": f"/somewhere/{name}"} | ({"mlflow.parentRunId": parent} if parent else {})
    run_id = client.create_run(experiment, tags=tags, run_name=name).info.run_id
    params = [Param(key, str(value)) for key, value in flatten_params(config, choices).items()]
    metrics = [Metric(key, value, 0, 0) for key, value in flatten_metrics(content).items()]
    client.log_batch(run_id, metrics if status != "FAILED" else (), params)
    figure = folder / "u_bands.png"
    figure.write_bytes(png())
    client.log_artifact(run_id, str(figure), "figures")
    if status != "RUNNING":
        client.set_terminated(run_id, status)


def report(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Start the real program."""
    return subprocess.run(
        [sys.executable, "-m", "sciuq_runner.cli.report", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run(method: str = "hmc", seed: int = 0, **changes: Any) -> RecordedRun:
    """A finished run."""
    content = results(method, seed, **changes)
    config = dict(content["config"])
    params = {key: str(value) for key, value in flatten_params(config, config.pop("choices")).items()}
    return RecordedRun(f"{method} {seed}", "FINISHED", params, flatten_metrics(content), time.time(), dict)
