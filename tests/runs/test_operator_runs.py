"""Finished runs of an operator, used afterwards: files, figures, calibration, and predictions for new functions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.image
import mlflow
import numpy as np
import pandas as pd
import pytest
import scipy.io
from sciuq_runner.problems.darcy import Darcy

from sciuq_runner.cli import calibrate, plot, predict
from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.result_files import read_results
from sciuq_runner.physics.data_cache import CACHE_VARIABLE
from sciuq_runner.predict.emulator import Emulator
from sciuq_runner.predict.out_of_distribution import read_detection
from sciuq_runner.pyfunc import PyFunc
from sciuq_runner.runs.pipeline import execute
from sciuq_runner.training.loop import Loop
from tests.conftest import read_metrics, run_folders, start
from tests.tiers import FULL

pytestmark = pytest.mark.cli

SCORES = ("std", "residual", "gan_mse", "gan_nll")
COLUMNS = ["function", "x", "y", "mean", "std", "aleatoric_std", "epistemic_std", "lower", "upper"]


def finish(folder: Path, *settings: str) -> Path:
    process = start(folder, *settings, "fidelity=smoke")
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    (folder / "said.txt").write_text(said)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of a deep ensemble and its MLflow."""
    return finish(tmp_path_factory.mktemp("operator"), "problem=darcy", "method=dens", "detection=gan")


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    (folder,) = run_folders(place)
    return folder


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """The same run where it may be changed."""
    return Path(shutil.copytree(run, tmp_path / "run"))


def is_drawn(path: Path) -> bool:
    """Whether a figure shows anything."""
    return float(np.ptp(matplotlib.image.imread(path))) > 0


# What is left behind


def test_metrics_baselines_and_scores_of_all_splits(place, run):
    found = read_metrics(run)
    assert set(found["u"]) == {"id", "ood"}
    assert {"rl2e", "rl2e_standardised", "coverage"} < set(found["u"]["id"])
    assert {split: set(item) for split, item in found["baselines"].items()} == {
        split: {"linear", "linear_log", "member", "member_standardised"} for split in ("id", "ood")
    }
    assert set(found["detection"]) == {*SCORES, "rl2e"}
    for name, numbers in found["detection"].items():
        wanted = {"mean_id", "mean_ood", "rise_ood", "auroc_ood"}
        assert set(numbers) == wanted | ({"threshold", "flagged_id", "flagged_ood"} if name != "rl2e" else set())
        assert np.isfinite(list(numbers.values())).all()
        assert 0 <= numbers["auroc_ood"] <= 1
    assert found["detection"]["rl2e"]["mean_id"] == pytest.approx(found["u"]["id"]["rl2e"])
    assert {"distance", "reused", "log_lambda_spectrum_error"} < set(found["pretraining"])
    said = (place / "said.txt").read_text()
    assert "splits by correlation length: id 0.25, ood 0.15" in said
    assert "rl2e of simpler methods, id: linear" in said
    assert "out-of-distribution score gan_mse" in said


def test_predictions_have_a_column_for_every_function(run):
    with np.load(run / "predictions.npz", allow_pickle=False) as arrays:
        shapes = {name: arrays[f"u_{name}"].shape for name in ("x", "mean", "reference", "inputs", "sensors", "units")}
        held = {name: arrays[f"u_{name}_mean"].shape for name in ("train", "calibration")}
        std = np.hypot(arrays["u_aleatoric_std"], arrays["u_epistemic_std"])
    functions = (100, 10)
    assert shapes == {
        "x": (100, 2),
        "mean": functions,
        "reference": functions,
        "inputs": (10, 100),
        "sensors": (100, 2),
        "units": (100, 2),
    }
    assert held == {"train": (100, 20), "calibration": (100, 5)}
    result = read_results(run)["u"]
    assert {split: mask.all(0).tolist() for split, mask in result.splits.items()} == {
        "id": [True] * 5 + [False] * 5,
        "ood": [False] * 5 + [True] * 5,
    }
    errors = np.linalg.norm(result.mean - result.reference, axis=0) / np.linalg.norm(result.reference, axis=0)
    metrics = read_metrics(run)["u"]
    assert metrics["id"]["rl2e"] == pytest.approx(errors[:5].mean())
    assert metrics["ood"]["rl2e"] == pytest.approx(errors[5:].mean())
    inside = np.abs(result.reference - result.mean) <= 1.959964 * std
    assert metrics["ood"]["coverage"] == pytest.approx(inside[:, 5:].mean())


def test_scores_are_kept_with_what_they_are_of(run):
    found, metrics = read_detection(run), read_metrics(run)
    for name in (*SCORES, "rl2e"):
        scores = found[f"score_{name}"]
        assert scores.shape == (10,)
        assert scores[found["split_ood"]].mean() == pytest.approx(metrics["detection"][name]["mean_ood"])
    assert (float(found["value_id"]), float(found["value_ood"])) == (0.25, 0.15)
    kept = json.loads((run / "model" / "thresholds.json").read_text())
    assert kept == {name: pytest.approx(metrics["detection"][name]["threshold"]) for name in SCORES}


def test_figures_show_something(run):
    figures = {path.name for path in (run / "figures").glob("*.png")}
    assert {"u_id_maps.png", "u_ood_maps.png", "u_calibration.png", "detection.png", "prior.png"} <= figures
    for name in figures:
        assert is_drawn(run / "figures" / name), name


def test_figures_are_drawn_again(copy, capsys):
    before = {path.name: path.read_bytes() for path in (copy / "figures").iterdir()}
    shutil.rmtree(copy / "figures")
    with pytest.raises(SystemExit) as ended:
        plot.main([str(copy)])
    assert not ended.value.code
    assert {Path(line).name for line in capsys.readouterr().out.splitlines()} == set(before)
    assert (copy / "figures" / "detection.png").read_bytes() == before["detection.png"]


def test_functions_held_out_calibrate(copy, capsys, monkeypatch):
    monkeypatch.setattr("sciuq_runner.runs.afterwards.redraw", lambda *_: [])
    with pytest.raises(SystemExit) as ended:
        calibrate.main([str(copy), "calibration=[var,cdf]"])
    assert not ended.value.code, capsys.readouterr().err
    found = read_metrics(copy)
    kinds = ("cal", "cal_var", "cal_cdf")
    assert set(found["u"]) == {
        split if not kind else f"{kind}_{split}" for kind in ("", *kinds) for split in ("id", "ood")
    }
    assert found["u"]["id"] == read_metrics(copy)["u"]["id"]
    assert {"baselines", "detection"} < set(found)
    result = read_results(copy)["u"]
    residuals = (result.calibration.y - result.calibration.mean) / result.calibration.std
    assert result.standards["var"].std == pytest.approx(np.sqrt(np.mean(residuals**2)))
    table = PyFunc(Emulator(copy / "model")).predict(result.inputs[:1])
    np.testing.assert_allclose(table["cal_std"] / table["std"], result.standards["var"].std)


# New functions


def predicted(run: Path, path: Path, *options: str) -> pd.DataFrame:
    """What the command line makes of a file of functions."""
    out = path.with_name("out.csv")
    with pytest.raises(SystemExit) as ended:
        predict.main([str(run), str(path), "-o", str(out), *options])
    assert not ended.value.code
    return pd.read_csv(out)


def refused(capsys: pytest.CaptureFixture[str], run: Path, path: Path, *options: str) -> str:
    """The sentence that the command line answers."""
    with pytest.raises(SystemExit) as ended:
        predict.main([str(run), str(path), *options])
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.out == ""
    (sentence,) = said.err.splitlines()
    assert sentence.startswith("sciuq-predict: ")
    return sentence


def save(folder: Path, kind: str, **arrays: Any) -> Path:
    path = folder / f"functions.{kind}"
    if kind == "npz":
        np.savez(path, **arrays)
    elif kind == "mat":
        scipy.io.savemat(path, arrays)
    else:
        np.savetxt(path, np.atleast_2d(arrays["inputs"]), delimiter=",")
    return path


@pytest.mark.parametrize("kind", ["npz", "mat", "csv"])
@pytest.mark.parametrize("count", [3, 1])
def test_functions_of_a_file_are_predicted(run, tmp_path, kind, count):
    result = read_results(run)["u"]
    assert result.inputs is not None
    chosen = [0, 7, 9][:count]
    table = predicted(run, save(tmp_path, kind, inputs=result.inputs[chosen]))
    assert list(table.columns) == [*COLUMNS, "ood_score", "ood_flag"]
    assert len(table) == 100 * count
    assert table["function"].tolist() == np.repeat(np.arange(count), 100).tolist()
    np.testing.assert_allclose(table[["x", "y"]], np.tile(result.x, (count, 1)))
    for name in ("mean", "epistemic_std"):
        expected = getattr(result, name)[:, chosen].T.ravel()
        np.testing.assert_allclose(table[name], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(table["upper"] - table["mean"], 1.959964 * table["std"], rtol=1e-5, atol=1e-9)
    scores = read_detection(run)
    np.testing.assert_allclose(table["ood_score"][::100], scores["score_std"][chosen], rtol=1e-4)
    np.testing.assert_array_equal(table["ood_flag"][::100], scores["score_std"][chosen] > scores["threshold_std"])


@pytest.mark.parametrize("score", SCORES)
def test_every_score_can_decide(copy, score):
    """A function far from all of training is flagged by what sees the input or the equation."""
    path = copy / "model" / "config.json"
    config = json.loads(path.read_text())
    config["detection"]["score"] = score
    path.write_text(json.dumps(config))
    result, scores = read_results(copy)["u"], read_detection(copy)
    assert result.inputs is not None
    known = PyFunc(Emulator(copy / "model")).predict(result.inputs)
    np.testing.assert_allclose(known["ood_score"][::100], scores[f"score_{score}"], rtol=1e-2)
    strange = PyFunc(Emulator(copy / "model")).predict(10 * np.sign(np.random.default_rng(0).normal(size=(1, 100))))
    assert strange["ood_flag"].all() or score == "gan_nll"  # no input of the generator comes near it
    assert strange["ood_flag"].dtype == bool


def test_other_sensors_and_points(run, tmp_path):
    """A function that is linear is rebuilt exactly from any sensors; values are asked for where one likes."""

    def plane(x: np.ndarray) -> np.ndarray:
        return np.stack([0.3 + x[:, 0] - 0.5 * x[:, 1], -x[:, 0]])

    rng = np.random.default_rng(0)
    sensors, points = rng.random((25, 2)), np.array([[0.21, 0.4], [0.5, 0.5], [0.95, 0.05]])
    result = read_results(run)["u"]
    table = predicted(run, save(tmp_path, "npz", inputs=plane(sensors), sensors=sensors, points=points))
    assert len(table) == 6
    np.testing.assert_allclose(table[["x", "y"]], np.tile(points, (2, 1)))
    again = predicted(run, save(tmp_path, "npz", inputs=plane(result.x), points=points))
    np.testing.assert_allclose(table["mean"], again["mean"], rtol=1e-4)
    on_grid = predicted(run, save(tmp_path, "npz", inputs=plane(result.x), points=result.x[[3, 50]]))
    whole = predicted(run, save(tmp_path, "npz", inputs=plane(result.x)))
    np.testing.assert_allclose(on_grid["mean"], np.ravel([whole["mean"][[3 + s, 50 + s]] for s in (0, 100)]), rtol=1e-4)


def test_a_function_is_as_strange_wherever_it_is_asked_for(run, tmp_path):
    """The threshold is of scores at the points of training, and so is the score."""
    result = read_results(run)["u"]
    whole = predicted(run, save(tmp_path, "npz", inputs=result.inputs))
    some = predicted(run, save(tmp_path, "npz", inputs=result.inputs, points=np.array([[0.02, 0.5], [0.05, 0.5]])))
    np.testing.assert_allclose(some["ood_score"][::2], whole["ood_score"][::100], rtol=1e-6)
    np.testing.assert_array_equal(some["ood_flag"][::2], whole["ood_flag"][::100])


def test_one_point_is_enough(run, tmp_path):
    result = read_results(run)["u"]
    for kind in ("npz", "mat"):
        table = predicted(run, save(tmp_path, kind, inputs=result.inputs, points=np.array([[0.4, 0.6]])))
        assert len(table) == 10
        assert set(table["x"]) == {0.4}
        assert set(table["y"]) == {0.6}


def test_the_model_of_mlflow_gives_the_same(place, run, tmp_path):
    result = read_results(run)["u"]
    assert result.inputs is not None
    mlflow.set_tracking_uri(f"sqlite:///{place / 'mlflow.db'}")
    run_id = json.loads((run / "resume.json").read_text())["mlflow_run"]
    model = mlflow.pyfunc.load_model(f"runs:/{run_id}/model")
    found = model.predict(result.inputs[:2])
    table = predicted(run, save(tmp_path, "npz", inputs=result.inputs[:2]))
    assert list(found.columns) == list(table.columns)
    for name in COLUMNS:
        np.testing.assert_allclose(found[name], table[name], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(found["ood_score"], table["ood_score"], rtol=1e-5)
    np.testing.assert_array_equal(found["ood_flag"], table["ood_flag"])
    with pytest.raises(Exception, match="100"):
        model.predict(result.inputs[:2, :99])


GRID = Darcy(n_grid=10).grid.points
INPUTS = np.random.default_rng(0).standard_normal((2, 100))
SPOILED = np.where(np.arange(100) == 41, np.nan, INPUTS)
LINE = np.column_stack([np.linspace(0, 1, 25), np.linspace(0, 1, 25)])
MISTAKES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "too few values": ("npz", {"inputs": INPUTS[:, :99]}, ["values (log_lambda) at the 100 sensors", "2x99"]),
    "too few values in csv": ("csv", {"inputs": INPUTS[:, :99]}, ["100"]),
    "transposed": ("mat", {"inputs": INPUTS.T}, ["100 sensors", "100x2"]),
    "squares": ("npz", {"inputs": INPUTS.reshape(2, 10, 10)}, ["2x10x10"]),
    "no inputs": ("npz", {"functions": INPUTS}, ["has no array inputs"]),
    "no inputs in mat": ("mat", {"functions": INPUTS}, ["has no array inputs"]),
    "nan": ("npz", {"inputs": SPOILED}, ["inputs has nan", "(1, 42)"]),
    "nan in csv": ("csv", {"inputs": SPOILED}, ["finite"]),
    "text": ("npz", {"inputs": np.full((2, 100), "a")}, ["inputs holds text"]),
    "nothing": ("npz", {"inputs": np.empty((0, 100))}, ["inputs has no values"]),
    "sensors of another number": ("npz", {"inputs": INPUTS, "sensors": GRID[:25]}, ["25 sensors", "2x100"]),
    "sensors on a line": ("npz", {"inputs": INPUTS, "sensors": GRID[:, :1]}, ["sensors", "2 co"]),
    "sensors in a row": ("npz", {"inputs": INPUTS[:, :25], "sensors": LINE}, ["sensors lie on a line"]),
    "sensors twice": ("npz", {"inputs": INPUTS[:, :26], "sensors": GRID[[*range(25), 0]]}, ["twice in one place"]),
    "nan in sensors": ("npz", {"inputs": INPUTS, "sensors": np.where(GRID > 0.9, np.nan, GRID)}, ["sensors has nan"]),
    "three sensors": ("npz", {"inputs": INPUTS[:, :3], "sensors": GRID[[0, 9, 90]]}, ["at least four"]),
    "points of three coordinates": ("npz", {"inputs": INPUTS, "points": np.ones((4, 3))}, ["points", "2 columns"]),
    "points of one coordinate": ("npz", {"inputs": INPUTS, "points": GRID[:4, :1]}, ["points", "2 columns"]),
    "infinite points": ("npz", {"inputs": INPUTS, "points": np.full((4, 2), np.inf)}, ["points has inf"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_functions_that_are_none_are_named(run, tmp_path, capsys, mistake):
    kind, arrays, said = MISTAKES[mistake]
    sentence = refused(capsys, run, save(tmp_path, kind, **arrays))
    for part in said:
        assert part in sentence


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("f.csv", "", "f.csv"),
        ("f.csv", "a,b\n1,2\n", "100 numbers in each row"),
        ("f.csv", "1,2\n1,2,3\n", "100 numbers in each row"),
        ("f.npz", "no archive", "f.npz"),
        ("f.txt", "1 2 3", ".npz"),
        ("f.csv", None, "is not a file"),
    ],
)
def test_files_that_are_none_are_named(run, tmp_path, capsys, name, content, said):
    if content is not None:
        (tmp_path / name).write_text(content)
    assert said in refused(capsys, run, tmp_path / name)


def test_a_quantity_that_is_not_predicted_is_named(run, tmp_path, capsys):
    path = save(tmp_path, "npz", inputs=INPUTS)
    assert len(predicted(run, path, "--quantity", "u")) == 200
    capsys.readouterr()
    assert "quantity=v" in refused(capsys, run, path, "--quantity", "v")


def test_points_alone_are_not_enough(run):
    with pytest.raises(ConfigError, match="give them instead of points"):
        Emulator(run / "model").predict(np.ones((3, 2)))


@pytest.fixture
def without_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No fields can be drawn and no flows solved, and none were kept."""

    def refuse(*_: Any) -> None:
        raise AssertionError("no data are needed")

    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "empty"))
    monkeypatch.setattr(Darcy, "draw", refuse)


@pytest.mark.usefixtures("without_data")
def test_a_saved_operator_makes_no_data(run):
    assert len(PyFunc(Emulator(run / "model")).predict(INPUTS)) == 200


# One field with noisy readings


@pytest.fixture(scope="module", params=FULL)
def noisy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of both priors in front of one operator."""
    folder = tmp_path_factory.mktemp("noisy")
    settings = ("problem=darcy", "problem.case=noisy", "method=hmc", "problem.new_length=0.2", "tracking=none")
    finish(folder, "-m", *settings, "model=pa_bnn_fp,pa_gan_fp")
    return {read_metrics(path)["config"]["choices"]["model"]: path for path in run_folders(folder)}


def test_both_priors_share_an_operator(noisy):
    folder = noisy["pa_bnn_fp"].parents[2]
    assert len(list((folder / "pretrained").glob("*.safetensors"))) == 2  # the operator, and the generator
    errors = {name: read_metrics(path)["pretraining"]["operator_rl2e"] for name, path in noisy.items()}
    assert errors["pa_bnn_fp"] == errors["pa_gan_fp"] > 0


@pytest.mark.parametrize("model", ["pa_bnn_fp", "pa_gan_fp"])
def test_input_and_output_of_a_new_field_are_found(noisy, model):
    found, results = read_metrics(noisy[model]), read_results(noisy[model])
    assert "detection" not in found
    assert "baselines" not in found
    for name, count in (("log_lambda", 20), ("u", 10)):
        assert set(found[name]) == {"ood"}
        assert {"rl2e", "rl2e_standardised", "coverage"} < set(found[name]["ood"])
        assert results[name].mean.shape == (100, 1)
        assert (len(results[name].train), len(results[name].calibration)) == (count, 5)
        for figure in (f"{name}_maps.png", f"{name}_calibration.png"):
            assert is_drawn(noisy[model] / "figures" / figure)
    assert (model == "pa_gan_fp") == (noisy[model] / "figures" / "prior.png").is_file()


@pytest.mark.parametrize("model", ["pa_bnn_fp", "pa_gan_fp"])
def test_a_new_field_is_predicted_at_points(noisy, model, tmp_path):
    results = read_results(noisy[model])
    path = tmp_path / "points.csv"
    pd.DataFrame(GRID[[5, 77]], columns=["x", "y"]).to_csv(path, index=False)
    for name in ("log_lambda", "u"):
        table = predicted(noisy[model], path, "--quantity", name)
        np.testing.assert_allclose(table["mean"], results[name].mean[[5, 77], 0], rtol=1e-4)
        np.testing.assert_allclose(table["std"], results[name].std[[5, 77], 0], rtol=1e-4)
        assert "ood_flag" not in table


@pytest.mark.usefixtures("without_data")
@pytest.mark.parametrize("model", ["pa_bnn_fp", "pa_gan_fp"])
def test_a_saved_field_makes_no_data(noisy, model):
    assert len(Emulator(noisy[model] / "model").predict(GRID[:3], "u")["mean"]) == 3


def brief(folder: Path, *settings: str) -> dict[str, Any]:
    """The numbers of a run in this process, without figures."""
    register_resolvers()
    run = assemble(plain(compose(["fidelity=smoke", *settings], None)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sciuq_runner.evaluation.plots.draw_all", lambda *_: [])
        return execute(
            run, *prepare(run), folder, Loop(), {"problem": "darcy", "method": "hmc", "model": "any"}
        ).metrics


CASES: dict[str, tuple[list[str], Callable[[dict[str, Any]], bool]]] = {
    "readings of the input alone": (
        ["problem.case=noisy", "model=pa_bnn_fp", "method=hmc", "problem.n_u=0", "model.n_operators=3"],
        lambda found: found["u"]["id"]["rl2e"] > 0,
    ),
    "few places, the logarithm, fully connected": (
        ["method=dens", "problem.n_lambda=30", "problem.target=log_u", "model.branch=mlp"],
        lambda found: set(found["u"]) == {"id", "ood"},
    ),
    "noise in training, one deviation, some cells": (
        ["method=dens", "problem.train_noise=0.1", "problem.standardise=shared", "problem.stride=3"],
        lambda found: found["baselines"]["id"]["linear"] < 2,
    ),
    "nothing held out": (
        ["method=dens", "problem.n_calibration=0", "problem.n_validation=0"],
        lambda found: "threshold" not in found["detection"]["std"],
    ),
    "only another kind": (["method=dens", "problem.test_lengths=[0.1]"], lambda found: set(found["u"]) == {"ood"}),
    "three kinds": (
        ["method=dens", "problem.test_lengths=[0.1,0.25,0.4]"],
        lambda found: {"auroc_ood_0.1", "auroc_ood_0.4"} < set(found["detection"]["std"]),
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_other_cases_of_the_problem(case, tmp_path, capsys):
    settings, check = CASES[case]
    found = brief(tmp_path, "problem=darcy", *settings)
    assert check(found)
    for name in {"log_lambda", "u"} & set(found):
        for values in found[name].values():
            assert np.isfinite(list(values.values())).all()
