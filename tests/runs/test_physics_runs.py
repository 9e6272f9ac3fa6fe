"""Finished runs of an equation, used afterwards as any other: files, figures, predictions, calibration."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sciuq_runner.problems.user_description import PREDICTED_COLUMNS

from sciuq_runner.evaluation.result_files import read_results
from tests.conftest import read_metrics, run_folders, start
from tests.tiers import FULL

pytestmark = pytest.mark.cli


@pytest.fixture(scope="module", params=FULL)
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("physics")
    process = start(folder, "problem=mixed_pde", "method=dens", "fidelity=smoke", "calibration=var", "calibration.n=20")
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return folder


def test_metrics_and_figures_are_those_of_the_problem(finished):
    (folder,) = run_folders(finished)
    metrics = read_metrics(folder)
    assert set(metrics["u"]) == {"id", "t1", "cal_id", "cal_t1"}
    assert set(metrics["lambda"]) == {"id", "cal_id"}
    with np.load(folder / "predictions.npz") as saved:
        std = np.hypot(saved["f_aleatoric_std"], saved["f_epistemic_std"])
        inside = np.abs(saved["f_reference"] - saved["f_mean"]) <= 1.959964 * std
    assert metrics["f"]["id"]["coverage"] == pytest.approx(inside.mean())
    assert set(metrics["noise"]) == {"all"}
    figures = {path.name for path in (folder / "figures").glob("*.png")}
    assert {"u_maps.png", "f_maps.png", "u_t1_bands.png", "f_t1_bands.png", "lambda_bands.png"} <= figures
    assert "u_t1_bands_var.png" in figures


def test_a_quantity_is_predicted_where_it_depends_on(finished):
    import mlflow

    (folder,) = run_folders(finished)
    mlflow.set_tracking_uri(f"sqlite:///{finished / 'mlflow.db'}")
    run_id = json.loads((folder / "resume.json").read_text())["mlflow_run"]
    model = mlflow.pyfunc.load_model(f"runs:/{run_id}/model")
    both = pd.DataFrame({"t": [0.0, 1.0], "x": [0.3, 0.3]})
    assert np.isfinite(model.predict(both).to_numpy()).all()
    rates = model.predict(both[["x"]], params={"quantity": "lambda"})
    rounding = 1e-6  # of sums in single precision, whose order may depend on the row
    assert rates["mean"][0] == pytest.approx(rates["mean"][1], rel=rounding)
    sources = model.predict(both, params={"quantity": "f"})
    assert sources["mean"][0] != pytest.approx(sources["mean"][1], rel=100 * rounding)
    with pytest.raises(Exception, match="column t"):
        model.predict(both[["x"]], params={"quantity": "u"})


def test_points_in_a_file_are_predicted(finished, tmp_path):
    from sciuq_runner.cli.predict import main as predict

    (folder,) = run_folders(finished)
    points, out = tmp_path / "points.csv", tmp_path / "out.csv"
    points.write_text("t,x\n0.5,-0.2\n0.5,0.2\n")
    with pytest.raises(SystemExit) as ended:
        predict([str(folder), str(points), "-o", str(out), "--quantity", "f"])
    assert not ended.value.code
    assert set(pd.read_csv(out).columns) == {"t", "x", *PREDICTED_COLUMNS}


def test_copies_of_a_reading_calibrate_as_one(finished):
    """Fifteen readings of the source hold at five times each."""
    (folder,) = run_folders(finished)
    train = read_results(folder)["f"].train
    assert len(train) == 75
    rows = (train.y - train.mean) / train.std
    np.testing.assert_allclose(train.residuals, sum(rows[15 * k : 15 * (k + 1)] for k in range(5)) / 5)
