"""What one does with a finished run, through the real command lines."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sciuq_runner.cli import calibrate, plot, predict
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.plots.distributions import DISTRIBUTIONS, panels_of
from sciuq_runner.evaluation.result_files import read_results
from sciuq_runner.evaluation.split_metrics import evaluate_splits
from sciuq_runner.files import read_npz
from sciuq_runner.runs.finding import find_run
from tests.conftest import environment, program, read_metrics, run_folders

pytestmark = pytest.mark.cli
CALIBRATORS = ("var", "cdf", "crude", "conformal")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one calibrated run whose noise and prior scales were learned."""
    folder = tmp_path_factory.mktemp("finished")
    settings = ["fidelity=smoke", "method=mfvi", "problem.case=unknown", "calibration=[var,cdf,crude,conformal]"]
    found = subprocess.run(
        program(*settings), cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return folder


@pytest.fixture
def run(place: Path) -> Path:
    (folder,) = run_folders(place)
    return folder


def tool(name: str, *arguments: str, cwd: Path) -> Any:
    code = f"from sciuq_runner.cli.{name} import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False)


def test_several_calibrations_cost_one_training(run):
    metrics = read_metrics(run)["u"]
    for split in ("id", "ood"):
        assert metrics[f"cal_{split}"] == metrics[f"cal_var_{split}"]
        for kind in CALIBRATORS:
            values = metrics[f"cal_{kind}_{split}"]
            assert all(np.isfinite(value) for value in values.values())
            assert "nip_g" not in values
    assert {path.name for path in (run / "figures").iterdir()} >= {
        "distributions.png",
        "u_calibration.png",
        "u_calibration_size.png",
        *(f"u_bands_{kind}.png" for kind in CALIBRATORS),
    }


def test_the_folder_holds_all_that_metrics_and_figures_need(run):
    result = read_results(run)["u"]
    assert list(result.standards) == list(CALIBRATORS)
    metrics = read_metrics(run)["u"]
    for split, values in evaluate_splits(result).items():
        for name, value in values.items():
            assert metrics[split][name] == pytest.approx(value, rel=1e-12)
    assert set(panels_of(read_npz(run / DISTRIBUTIONS))) == {"weights", "u(0)", "noise scale of u"}
    with np.load(run / "predictions.npz", allow_pickle=False) as arrays:
        np.testing.assert_allclose(arrays["u_cal_std"], arrays["u_cal_var_std"])
        factor = arrays["u_cal_std"] / np.hypot(arrays["u_aleatoric_std"], arrays["u_epistemic_std"])
        residual = (arrays["u_calibration_y"] - arrays["u_calibration_mean"]) / arrays["u_calibration_std"]
    np.testing.assert_allclose(factor, np.sqrt(np.mean(residual**2)))


def test_figures_are_drawn_again_and_are_the_same(place, run):
    before = {path.name: path.read_bytes() for path in (run / "figures").iterdir()}
    for path in (run / "figures").iterdir():
        path.unlink()
    found = tool("plot", str(run), cwd=place)
    assert found.returncode == 0, found.stderr
    assert {path.name for path in (run / "figures").iterdir()} == set(before)
    assert (run / "figures" / "u_bands.png").read_bytes() == before["u_bands.png"]


@pytest.mark.full
def test_recalibration_reaches_folder_model_and_mlflow(place, run):
    from mlflow import MlflowClient

    before = read_metrics(run)
    own = run / "figures" / "mine.png"
    own.touch()
    found = tool("calibrate", str(run), "calibration=cdf", "calibration.n=20", cwd=place)
    assert found.returncode == 0, found.stderr
    assert [path.name for path in (run / "figures").glob("u_bands_*")] == ["u_bands_cdf.png"]
    own.unlink()  # fails if it was taken for a figure of the calibration that was replaced
    after = read_metrics(run)
    assert after["u"]["id"] == before["u"]["id"]
    assert {split for split in after["u"] if split.startswith("cal")} == {"cal_id", "cal_ood"}
    assert after["u"]["cal_id"] != before["u"]["cal_cdf_id"]
    assert list(json.loads((run / "model" / "calibration.json").read_text())["u"]) == ["cdf"]
    run_id = json.loads((run / "resume.json").read_text())["mlflow_run"]
    store = MlflowClient(f"sqlite:///{place / 'mlflow.db'}")
    first = store.get_run(run_id)
    assert first.data.params["calibration"] == "var,cdf,crude,conformal"
    assert first.data.metrics["u/cal_id/rmsce"] == pytest.approx(before["u"]["cal_id"]["rmsce"])
    (added,) = store.search_runs([first.info.experiment_id], f"tags.mlflow.parentRunId = '{run_id}'")
    assert added.info.status == "FINISHED"
    assert added.data.params["calibration"] == "cdf"
    assert added.data.metrics["u/cal_id/rmsce"] == pytest.approx(after["u"]["cal_id"]["rmsce"])
    assert "u/cal_var_id/rmsce" not in added.data.metrics
    every = ["calibration=[var,cdf,crude,conformal]"]
    assert tool("calibrate", run_id, *every, cwd=place).returncode == 0  # by its id in MLflow, and back to what it was
    assert read_metrics(run)["u"] == before["u"]
    overfitted = tool("calibrate", str(run), *every, "calibration.data=train", cwd=place)
    assert overfitted.returncode == 0
    assert read_metrics(run)["u"] != before["u"]
    assert tool("calibrate", str(run), *every, cwd=place).returncode == 0


def test_predictions_at_points_of_ones_own(place, run, capsys):
    (place / "points.csv").write_text("name, x\na, -0.5\nb, 0.25\n")
    found = tool("predict", str(run), "points.csv", "-o", "out.csv", cwd=place)
    assert found.returncode == 0, found.stderr
    table = pd.read_csv(place / "out.csv")
    assert list(table["x"]) == [-0.5, 0.25]
    np.testing.assert_allclose(table["std"], np.hypot(table["aleatoric_std"], table["epistemic_std"]), rtol=1e-6)
    result = read_results(run)["u"]
    grid = result.x[:, 0]
    for row in table.itertuples():
        index = int(np.argmin(np.abs(grid - row.x)))
        assert row.mean == pytest.approx(result.mean[index, 0], rel=1e-4)
        lower, upper = result.standards["var"].interval(0.95)
        assert row.cal_lower == pytest.approx(row.mean + lower * row.std)
        assert row.cal_upper == pytest.approx(row.mean + upper * row.std)
    with pytest.raises(SystemExit, match=r"None|0"):
        predict.main([str(run), str(place / "points.csv")])
    assert capsys.readouterr().out == (place / "out.csv").read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "cannot be read as CSV"),
        ("x\n", "holds no points"),
        ("y\n1.0\n", "lack the column x"),
        ("x\nnan\n", "finite numbers"),
        ("x\nhello\n", "table of finite numbers"),
        ("x\n0.1,0.5\n", "cannot be read as CSV"),
        (None, "is not a file"),
    ],
)
def test_points_that_are_none_are_named(run, tmp_path, capsys, content, said):
    path = tmp_path / "wrong.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit) as ended:
        predict.main([str(run), str(path), "-o", str(tmp_path / "never.csv")])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "never.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "calibration=var"], "nowhere is not the folder of a run"),
        (["RUN", "calibration=vr"], "did you mean 'var'"),
        (["RUN", "calibration=var", "calibration.n=51"], "more than the 50 readings of u"),
        (["RUN", "calibration=var", "calibration.by.var.criterion=mse"], "calibration.by.var.criterion"),
        (["RUN", "seed=3"], "not a setting of the calibration"),
        (["RUN", "calibration.n=3"], "needs a calibrator too"),
        (["RUN"], "--help"),
    ],
)
def test_mistakes_leave_the_run_as_it_was(run, capsys, arguments, said):
    before = (run / "metrics.json").read_bytes()
    with pytest.raises(SystemExit) as ended:
        calibrate.main([str(run) if item == "RUN" else item for item in arguments])
    assert ended.value.code == 2
    found = capsys.readouterr().err
    assert said in found
    assert "Traceback" not in found
    assert (run / "metrics.json").read_bytes() == before


def test_a_damaged_run_is_named(run, tmp_path, capsys):
    (tmp_path / "metrics.json").write_text("{}")
    with pytest.raises(SystemExit, match="2"):
        plot.main([str(tmp_path)])
    assert "has no predictions.npz" in capsys.readouterr().err
    (tmp_path / "metrics.json").write_bytes((run / "metrics.json").read_bytes())
    (tmp_path / "predictions.npz").write_bytes((run / "predictions.npz").read_bytes()[:1000])
    with pytest.raises(SystemExit, match="2"):
        plot.main([str(tmp_path)])
    assert "is the file complete?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (["config"], "does not say config"),
        (["config", "seed"], "does not say seed"),
        (["config", "calibration"], "does not say calibration"),
        (["config", "choices"], "does not say choices"),
        (["config", "problem"], "does not say problem"),
        (["config", "choices", "method"], "does not say method"),
        (["u"], "does not say u"),
    ],
)
def test_damaged_metrics_are_named(run, tmp_path, capsys, lost, said):
    shutil.copytree(run, tmp_path / "run")
    metrics = lose(tmp_path / "run" / "metrics.json", lost)
    commands = [lambda: calibrate.main([str(tmp_path / "run"), "calibration=var"])]
    if lost != ["u"]:  # figures do not need it
        commands.append(lambda: plot.main([str(tmp_path / "run")]))
    for command in commands:
        with pytest.raises(SystemExit) as ended:
            command()
        assert ended.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"metrics.json {said}" in line
    assert (tmp_path / "run" / "metrics.json").read_text() == metrics


@pytest.mark.parametrize("lost", [["problem"], ["problem", "_target_"], ["model"], ["dtype"]])
def test_a_damaged_model_is_named(run, tmp_path, capsys, lost):
    shutil.copytree(run, tmp_path / "run")
    lose(tmp_path / "run" / "model" / "config.json", lost)
    (tmp_path / "points.csv").write_text("x\n0.5\n")
    with pytest.raises(SystemExit) as ended:
        predict.main([str(tmp_path / "run"), str(tmp_path / "points.csv")])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert lost[-1] in line


def lose(path: Path, keys: list[str]) -> str:
    """Take a nested key out of a JSON file; returns what is left."""
    content = json.loads(path.read_text())
    node = content
    for key in keys[:-1]:
        node = node[key]
    del node[keys[-1]]
    path.write_text(json.dumps(content))
    return path.read_text()


def test_a_store_that_is_none_is_named(place):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("MLFLOW_TRACKING_URI", "nonsense://x")
        with pytest.raises(ConfigError, match="nor the id of a run in MLflow"):
            find_run("0" * 32)


@contextmanager
def server(*arguments: str, cwd: Path, **variables: str) -> Iterator[Callable[..., Any]]:
    """A real ``mlflow`` server on a free port of loopback, and a function that asks it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # MLflow starts uvicorn by its name
    process = subprocess.Popen(
        [sys.executable, "-m", "mlflow", *arguments, "--port", str(port)],
        cwd=cwd,
        env=environment(PATH=path, **variables),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def ask(path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        deadline = time.monotonic() + 180
        while True:
            try:
                return json.load(urllib.request.urlopen(request, timeout=60))
            except urllib.error.HTTPError:
                raise
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
                time.sleep(0.3)

    try:
        yield ask
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


@pytest.mark.full
def test_the_model_is_served(place, run):
    """The same numbers through ``mlflow models serve``."""
    from mlflow import MlflowClient

    run_id = json.loads((run / "resume.json").read_text())["mlflow_run"]
    uri = f"sqlite:///{place / 'mlflow.db'}"
    (*_, model) = MlflowClient(uri).get_run(run_id).outputs.model_outputs
    command = ["models", "serve", "--model-uri", f"models:/{model.model_id}", "--env-manager", "local"]
    with server(*command, cwd=place, MLFLOW_TRACKING_URI=uri) as ask:
        points = {"columns": ["x"], "data": [[-0.5], [0.25]]}
        answer = ask("/invocations", {"dataframe_split": points})["predictions"]
        with pytest.raises(urllib.error.HTTPError):
            ask("/invocations", {"dataframe_split": {"columns": ["y"], "data": [[1.0]]}})
    (place / "served.csv").write_text("x\n-0.5\n0.25\n")
    table = pd.read_csv(io.StringIO(tool("predict", str(run), "served.csv", cwd=place).stdout))
    for name in ("mean", "std", "aleatoric_std", "epistemic_std", "lower", "upper", "cal_lower", "cal_upper"):
        np.testing.assert_allclose([row[name] for row in answer], table[name], rtol=1e-9)


@pytest.mark.full
def test_runs_are_found_in_the_real_server(place, run):
    """Parameters that can be filtered, metrics grouped by quantity and split, figures among the artifacts."""
    store = ["--backend-store-uri", f"sqlite:///{place / 'mlflow.db'}"]
    with server("server", *store, "--workers", "1", cwd=place) as ask:
        experiments = ask("/api/2.0/mlflow/experiments/search", {"max_results": 10})["experiments"]
        (number,) = [item["experiment_id"] for item in experiments if item["name"] == "sciuq"]
        query = {"experiment_ids": [number], "filter": "params.method = 'mfvi' and metrics.`u/id/rl2e` < 100"}
        everything = ask("/api/2.0/mlflow/runs/search", query)["runs"]
        query["filter"] = "params.method = 'hmc'"
        assert not ask("/api/2.0/mlflow/runs/search", query).get("runs")
    run_id = json.loads((run / "resume.json").read_text())["mlflow_run"]
    (found,) = [item for item in everything if item["info"]["run_id"] == run_id]
    values = {item["key"]: item["value"] for item in found["data"]["metrics"]}
    assert values["u/cal_id/rmsce"] == pytest.approx(read_metrics(run)["u"]["cal_id"]["rmsce"])
    figures = Path(found["info"]["artifact_uri"].removeprefix("file://")) / "figures"
    assert (figures / "u_bands.png").is_file()
