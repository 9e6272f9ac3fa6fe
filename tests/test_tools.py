"""What one does with a finished run, through the real command lines."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sciuq_runner.results import read_panels, read_results
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
    code = f"from sciuq_runner.tools import {name}; {name}()"
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
    for split, values in result.evaluate().items():
        for name, value in values.items():
            assert metrics[split][name] == pytest.approx(value, rel=1e-12)
    assert set(read_panels(run)) == {"theta", "u(0)", "noise scale of u"}
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


def test_recalibration_reaches_folder_model_and_mlflow(place, run):
    from mlflow import MlflowClient

    before = read_metrics(run)
    found = tool("calibrate", str(run), "calibration=cdf", "calibration.n=20", cwd=place)
    assert found.returncode == 0, found.stderr
    after = read_metrics(run)
    assert after["u"]["id"] == before["u"]["id"]
    assert {split for split in after["u"] if split.startswith("cal")} == {"cal_id", "cal_ood"}
    assert after["u"]["cal_id"] != before["u"]["cal_cdf_id"]
    assert list(json.loads((run / "model" / "calibration.json").read_text())["u"]) == ["cdf"]
    run_id = json.loads((run / "resume.json").read_text())["mlflow_run"]
    stored = MlflowClient(f"sqlite:///{place / 'mlflow.db'}").get_run(run_id)
    assert stored.info.status == "FINISHED"
    assert stored.data.metrics["u/cal_id/rmsce"] == pytest.approx(after["u"]["cal_id"]["rmsce"])
    every = ["calibration=[var,cdf,crude,conformal]"]
    assert tool("calibrate", run_id, *every, cwd=place).returncode == 0  # by its id in MLflow, and back to what it was
    assert read_metrics(run)["u"] == before["u"]
    overfitted = tool("calibrate", str(run), *every, "calibration.data=train", cwd=place)
    assert overfitted.returncode == 0
    assert read_metrics(run)["u"] != before["u"]
    assert tool("calibrate", str(run), *every, cwd=place).returncode == 0


def test_predictions_at_points_of_ones_own(place, run):
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
    printed = tool("predict", str(run), "points.csv", cwd=place)
    assert printed.stdout == (place / "out.csv").read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "cannot be read as CSV"),
        ("x\n", "holds no points"),
        ("y\n1.0\n", "lack the column x"),
        ("x\nnan\n", "finite numbers"),
        ("x\nhello\n", "table of finite numbers"),
        (None, "is not a file"),
    ],
)
def test_points_that_are_none_are_named(place, run, content, said):
    path = place / "wrong.csv"
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_text(content)
    found = tool("predict", str(run), "wrong.csv", "-o", "never.csv", cwd=place)
    assert found.returncode == 2
    assert said in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert not (place / "never.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "calibration=var"], "nowhere is not the folder of a run"),
        (["RUN", "calibration=vr"], "did you mean 'var'"),
        (["RUN", "calibration=var", "calibration.n=51"], "more than the 50 readings of u"),
        (["RUN", "calibration=var", "calibration.by.var.criterion=mse"], "calibration.by.var.criterion"),
        (["RUN", "seed=3"], "not a setting of the calibration"),
        (["RUN"], "--help"),
    ],
)
def test_mistakes_leave_the_run_as_it_was(place, run, arguments, said):
    before = (run / "metrics.json").read_bytes()
    found = tool("calibrate", *[str(run) if item == "RUN" else item for item in arguments], cwd=place)
    assert found.returncode == 2
    assert said in found.stderr
    assert "Traceback" not in found.stderr
    assert (run / "metrics.json").read_bytes() == before


def test_a_damaged_run_is_named(place, run, tmp_path):
    (tmp_path / "metrics.json").write_text("{}")
    assert "has no predictions.npz" in tool("plot", str(tmp_path), cwd=place).stderr
    (tmp_path / "metrics.json").write_bytes((run / "metrics.json").read_bytes())
    (tmp_path / "predictions.npz").write_bytes((run / "predictions.npz").read_bytes()[:1000])
    found = tool("plot", str(tmp_path), cwd=place)
    assert found.returncode == 2
    assert "is the file complete?" in found.stderr


def test_the_model_is_served(place, run):
    """The same numbers through ``mlflow models serve``, over loopback."""
    from mlflow import MlflowClient

    run_id = json.loads((run / "resume.json").read_text())["mlflow_run"]
    uri = f"sqlite:///{place / 'mlflow.db'}"
    (*_, model) = MlflowClient(uri).get_run(run_id).outputs.model_outputs
    port = "5871"
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", f"models:/{model.model_id}", "-p", port]
    server = subprocess.Popen(
        [*command, "--env-manager", "local"],
        cwd=place,
        env=environment(MLFLOW_TRACKING_URI=uri),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/invocations",
        json.dumps({"dataframe_split": {"columns": ["x"], "data": [[-0.5], [0.25]]}}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        answer = None
        deadline = time.monotonic() + 180
        while answer is None and time.monotonic() < deadline and server.poll() is None:
            try:
                answer = json.load(urllib.request.urlopen(request, timeout=30))["predictions"]
            except OSError:
                time.sleep(0.5)
        assert answer is not None
        assert {"mean", "std", "lower", "upper", "cal_lower", "cal_upper"} <= set(answer[0])
        assert answer[0]["lower"] < answer[0]["mean"] < answer[0]["upper"]
    finally:
        server.terminate()
        server.wait()
