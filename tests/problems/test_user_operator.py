"""Operators from files: what becomes of one, the program at work on it, and a sentence for every mistake."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sciuq_runner.problems.operator import INPUT, OUTPUT, UserOperator
from torch import Generator, Tensor

from sciuq_runner.cli import predict
from sciuq_runner.cli.run import main
from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.result_files import read_results
from sciuq_runner.methods.base import Method
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.models.base import Prior
from sciuq_runner.models.operators import OperatorModel
from sciuq_runner.predict.emulator import Emulator
from sciuq_runner.runs.pipeline import execute
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop
from tests.conftest import read_metrics, run_folders, start
from tests.operators import OneWeight
from tests.problems.conftest import save

SENSORS, POINTS = np.linspace(0, 1, 12)[:, None], np.linspace(0, 1, 9)[:, None]
KEPT = {"n_test": 6, "n_calibration": 4, "n_validation": 3}
COUNTS = [f"problem.{name}={count}" for name, count in KEPT.items()]


def integrals(n: int, seed: int = 0, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Random functions at the sensors, and one plus their integrals from 0 at the points."""
    k = np.pi * np.arange(1, 5)
    weights = scale * np.random.default_rng(seed).standard_normal((n, 5)) / (1 + np.arange(5))
    f = np.hstack([np.ones_like(SENSORS), np.cos(k * SENSORS)])
    u = np.hstack([POINTS, np.sin(k * POINTS) / k])
    return weights @ f.T, 1 + weights @ u.T


def arrays(**changes: Any) -> dict[str, np.ndarray]:
    """The content of a file; ``None`` takes an array away."""
    inputs, values = integrals(30)
    strange, led_to = integrals(5, 1, 10.0)
    found = {"inputs": inputs, "sensors": SENSORS, "points": POINTS, "values": values}
    found |= {"ood_inputs": strange, "ood_values": led_to, **changes}
    return {name: array for name, array in found.items() if array is not None}


def problem(path: Path, **settings: Any) -> UserOperator:
    return UserOperator(data=str(path), coordinates=["x"], **{**KEPT, **settings})


# What becomes of a file


@pytest.mark.parametrize("kind", ["npz", "mat"])
def test_functions_are_shared_out(tmp_path, kind):
    path, whole = tmp_path / f"pairs.{kind}", arrays()
    save(path, **whole)
    made = problem(path)
    data = made.dataset(np.random.default_rng(0))[OUTPUT]
    sizes = {"train": 17, "test": 6 + 5, "calibration": 4, "validation": 3}
    for name, count in sizes.items():
        part = getattr(data, name)
        assert part.inputs.shape == (count, 12)
        assert part.y.shape == (9, count)
        np.testing.assert_array_equal(part.x, POINTS)
        for function, values in zip(part.inputs, part.y.T, strict=True):  # what belongs together stays together
            source = "ood_" if name == "test" and not (whole["inputs"] == function).all(1).any() else ""
            (row,) = np.flatnonzero((whole[f"{source}inputs"] == function).all(1))
            np.testing.assert_array_equal(values, whole[f"{source}values"][row])
    together = np.concatenate([getattr(data, name).inputs[: 6 if name == "test" else None] for name in sizes])
    assert len(np.unique(together, axis=0)) == 30
    assert {name: mask.all(0).sum() for name, mask in data.splits.items()} == {"id": 6, "ood": 5}
    np.testing.assert_array_equal(data.test.inputs[6:], whole["ood_inputs"])
    again = problem(path).dataset(np.random.default_rng(7))[OUTPUT]
    np.testing.assert_array_equal(again.train.inputs, data.train.inputs)
    assert made.data_files == (path,)


def test_both_kinds_of_files_give_the_same(tmp_path):
    found = []
    for kind in ("npz", "mat"):
        save(tmp_path / f"pairs.{kind}", **arrays())
        found.append(problem(tmp_path / f"pairs.{kind}").dataset(np.random.default_rng(0))[OUTPUT])
    np.testing.assert_array_equal(found[0].train.y, found[1].train.y)
    np.testing.assert_array_equal(found[0].test.inputs, found[1].test.inputs)


def test_units_are_those_of_the_functions_that_train(tmp_path):
    whole = arrays()
    whole["inputs"] = np.exp(whole["inputs"])
    whole["ood_inputs"] = np.exp(whole["ood_inputs"])
    save(tmp_path / "pairs.npz", **whole)
    made = problem(tmp_path / "pairs.npz", log_input=True)
    train = made.dataset(np.random.default_rng(0))[OUTPUT].train
    units = made.transforms()
    assert (units[INPUT].log, units[OUTPUT].log) == (True, False)
    np.testing.assert_allclose(units[INPUT].centre, np.log(train.inputs).mean(0))
    np.testing.assert_allclose(units[OUTPUT].scale[1:], train.y.std(1)[1:])
    assert made.noise[OUTPUT].kind == "exact"
    noisy = problem(tmp_path / "pairs.npz", noise_scale=0.2).noise[OUTPUT]
    assert (noisy.kind, noisy.scale) == ("known", 0.2)


def test_without_functions_of_another_kind_there_is_one_split(tmp_path):
    save(tmp_path / "pairs.npz", **arrays(ood_inputs=None, ood_values=None))
    data = problem(tmp_path / "pairs.npz").dataset(np.random.default_rng(0))[OUTPUT]
    assert list(data.splits) == ["id"]
    assert data.test.y.shape == (9, 6)


def test_vectors_will_do_for_places_on_a_line(tmp_path):
    for kind in ("npz", "mat"):  # which writes a vector as a row
        save(tmp_path / f"pairs.{kind}", **arrays(sensors=SENSORS[:, 0], points=POINTS[:, 0]))
        data = problem(tmp_path / f"pairs.{kind}").dataset(np.random.default_rng(0))[OUTPUT]
        np.testing.assert_array_equal(data.train.x, POINTS)


def test_one_value_of_every_function_will_do(tmp_path):
    """A functional: the values are a column, or a vector."""
    whole = arrays()
    for shape in ((-1, 1), (-1,)):
        numbers = {name: whole[name][:, -1].reshape(shape) for name in ("values", "ood_values")}
        save(tmp_path / "pairs.npz", **{**whole, "points": np.array([[1.0]]), **numbers})
        data = problem(tmp_path / "pairs.npz").dataset(np.random.default_rng(0))[OUTPUT]
        assert data.train.y.shape == (1, 17)


@pytest.mark.parametrize("kind", ["npz", "mat"])
def test_one_point_has_all_coordinates(tmp_path, kind):
    """In two dimensions it is a row of two numbers, and not two points on a line."""
    whole, point = arrays(ood_inputs=None, ood_values=None), np.array([[0.5, 0.25]])
    save(tmp_path / f"pairs.{kind}", **{**whole, "points": point, "values": whole["values"][:, -1:]})
    data = replace(problem(tmp_path / f"pairs.{kind}"), coordinates=["x", "y"]).dataset(np.random.default_rng(0))
    np.testing.assert_array_equal(data[OUTPUT].train.x, point)
    assert data[OUTPUT].train.y.shape == (1, 17)


# At work


def settings_of(*overrides: str) -> dict[str, Any]:
    register_resolvers()
    return plain(compose(["problem=operator", "model.branch=mlp", "fidelity=smoke", *COUNTS, *overrides], None))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file and a run that has learned from it."""
    folder = tmp_path_factory.mktemp("operator")
    save(folder / "pairs.npz", **arrays())
    settings = ["problem=operator", "problem.data=pairs.npz", "problem.coordinates=[x]", "model.branch=mlp"]
    process = start(folder, *settings, *COUNTS, "method=dens", "fidelity=smoke", "tracking=none")
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return folder


@pytest.mark.cli
def test_the_program_learns_an_operator_of_ones_own(finished, tmp_path):
    (folder,) = run_folders(finished)
    found = read_metrics(folder)
    assert set(found["u"]) == {"id", "ood"}
    assert set(found["baselines"]["id"]) >= {"linear", "member"}
    assert set(found["detection"]) == {"std", "rl2e"}
    assert found["detection"]["std"]["auroc_ood"] == 1  # functions ten times as large
    result = read_results(folder)["u"]
    assert result.mean.shape == (9, 11)
    assert result.inputs is not None
    assert result.inputs.shape == (11, 12)
    figures = {path.name for path in (folder / "figures").glob("*.png")}
    assert {"u_id_bands.png", "u_ood_bands.png", "u_calibration.png", "detection.png"} <= figures
    save(tmp_path / "pairs.mat", **arrays())
    again = brief(tmp_path / "run", f"problem.data={tmp_path / 'pairs.mat'}", "problem.coordinates=[x]", "method=dens")
    for split, values in found["u"].items():
        assert again["u"][split] == pytest.approx(values, rel=1e-6)


@pytest.mark.cli
def test_new_functions_are_predicted_without_the_data(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where there is no file of this name
    run, inputs = run_folders(finished)[0], integrals(3, 5)[0]
    tables = []
    for name, content in {
        "same.npz": {"inputs": inputs},
        "places.npz": {"inputs": inputs, "sensors": SENSORS, "points": POINTS},
        "other.mat": {"inputs": inputs[:, ::-1], "sensors": SENSORS[::-1], "points": POINTS[:, 0]},
    }.items():
        save(tmp_path / name, **content)
        with pytest.raises(SystemExit) as ended:
            predict.main([str(run), name, "-o", "out.csv"])
        assert not ended.value.code
        tables.append(pd.read_csv("out.csv"))
    for table in tables:
        assert list(table.columns[:3]) == ["function", "x", "mean"]
        assert len(table) == 27
        np.testing.assert_allclose(table["mean"], tables[0]["mean"], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(table["ood_flag"], tables[0]["ood_flag"])


def brief(folder: Path, *settings: str) -> dict[str, Any]:
    """The numbers of a run in this process, without figures."""
    run = assemble(settings_of(*settings))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sciuq_runner.evaluation.plots.draw_all", lambda *_: [])
        return execute(
            run, *prepare(run), folder, Loop(), {"problem": "operator", "method": "dens", "model": "deeponet"}
        ).metrics


@pytest.fixture
def logarithmic(tmp_path: Path) -> Path:
    """A file whose functions are positive."""
    whole = arrays()
    save(tmp_path / "pairs.npz", **{name: np.exp(part) if "inputs" in name else part for name, part in whole.items()})
    return tmp_path / "pairs.npz"


def test_positive_functions_are_learned_by_their_logarithm(logarithmic, tmp_path):
    name = f"problem.data={logarithmic}"
    given = {"problem.coordinates=[x]", name, "method=dens", "tracking=none"}
    found = brief(tmp_path / "run", *given, "problem.log_input=true", "problem.noise_scale=0.1")
    assert np.isfinite(list(found["u"]["id"].values())).all()
    save(tmp_path / "wrong.npz", inputs=-np.ones((1, 12)))
    with pytest.raises(SystemExit) as ended:
        predict.main([str(tmp_path / "run"), str(tmp_path / "wrong.npz")])
    assert ended.value.code == 2  # there is no logarithm of these
    emulator, steep = Emulator(tmp_path / "run" / "model"), np.exp(5 * np.resize([1.0, -1.0], (1, 6)))
    between = emulator.functions(steep, SENSORS[::2] + 0.04)
    assert (between > 0).all()
    assert np.isfinite(emulator.operate(between)["mean"]).all()
    np.testing.assert_allclose(emulator.functions(np.exp(2 * SENSORS[:6].T), SENSORS[:6]), np.exp(2 * SENSORS.T))


def test_values_are_learned_by_their_logarithm(tmp_path):
    whole = arrays()
    save(tmp_path / "pairs.mat", **{name: np.exp(part) if "values" in name else part for name, part in whole.items()})
    given = {"problem.coordinates=[x]", f"problem.data={tmp_path / 'pairs.mat'}", "method=dens", "tracking=none"}
    found = brief(tmp_path / "run", *given, "problem.log_output=true")
    assert np.isfinite(list(found["u"]["ood"].values())).all()
    assert (read_results(tmp_path / "run")["u"].mean > 0).all()


class Damping(OneWeight):
    """Every function times the only weight, at its sensors."""

    def __call__(self, theta: Tensor, x: Tensor, inputs: Tensor) -> Tensor:
        return theta[:, :, None] * inputs.T


@dataclass(frozen=True)
class LinearOperator(OperatorModel):
    @property
    def prior(self) -> Prior:
        return Prior()

    def make_network(self, sensors: np.ndarray, low: np.ndarray, high: np.ndarray) -> Damping:
        return Damping()


@dataclass(frozen=True)
class Known(Method):
    """An operator that is known to a hundredth."""

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        return Posterior(torch.tensor([[0.79], [0.81]], dtype=target.dtype))


def test_intervals_hold_values_with_their_noise(tmp_path, monkeypatch):
    """Standard normal values, read with noise of scale 0.75: their deviation is 1.25, of which noise makes 0.6 and the
    function 0.8."""
    rng, counts = np.random.default_rng(0), {"n_test": 300, "n_calibration": 200, "n_validation": 100}
    inputs = rng.standard_normal((1600, 12))
    values = inputs + 0.75 * rng.standard_normal(inputs.shape)
    save(tmp_path / "pairs.npz", inputs=inputs, sensors=SENSORS, points=SENSORS, values=values)
    given = [f"problem.data={tmp_path / 'pairs.npz'}", "problem.coordinates=[x]", "problem.noise_scale=0.6"]
    given += [f"problem.{name}={count}" for name, count in counts.items()]
    made = assemble(settings_of(*given, "calibration=[var,conformal]", "tracking=none"))
    config = {**made.config, "model": {"_target_": f"{__name__}.LinearOperator"}}
    made = replace(made, model=LinearOperator(), method=Known(), config=config)
    monkeypatch.setattr("sciuq_runner.evaluation.plots.draw_all", lambda *_: [])
    choices = {"problem": "operator", "method": "known"}
    found = execute(made, *prepare(made), tmp_path / "run", Loop(), choices)
    # 3600 values, and units that a thousand functions tell to three in a hundred: coverages err by less than 0.02
    for split in ("id", "cal_var_id", "cal_conformal_id"):
        assert found.metrics["u"][split]["coverage"] == pytest.approx(0.95, abs=0.02), split
        assert found.metrics["u"][split]["rmsce"] < 0.02
    assert read_results(tmp_path / "run")["u"].standards["var"].std == pytest.approx(1, abs=0.05)
    assert found.headline == pytest.approx(0.5 * np.log(2 * np.pi * 0.75**2) + 0.5, abs=0.1)

    new = rng.standard_normal((300, 12))
    table = Emulator(tmp_path / "run" / "model", [__name__]).operate(new)
    read = (new + 0.75 * rng.standard_normal(new.shape)).ravel()
    assert np.mean((table["lower"] < read) & (read < table["upper"])) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    "settings",
    [["detection=gan"], ["problem.n_calibration=0", "problem.n_validation=0"]],
    ids=" ".join,
)
def test_an_operator_of_ones_own_can_do_what_others_can(settings, tmp_path):
    save(tmp_path / "pairs.npz", **arrays())
    given = ["problem.coordinates=[x]", f"problem.data={tmp_path / 'pairs.npz'}", "method=dens", "tracking=none"]
    if settings[0] == "detection=gan":
        settings = [*settings, "detection.prior.n_realisations=20"]
    found = brief(tmp_path / "run", *given, *settings)
    assert np.isfinite(list(found["u"]["id"].values())).all()
    if settings[0] == "detection=gan":
        assert {"gan_mse", "gan_nll"} < set(found["detection"])


# Mistakes


def places(n: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).random((n, width))


FILES: dict[str, tuple[dict[str, Any], list[str]]] = {
    **{f"no {name}": ({name: None}, [f"has no array {name}"]) for name in ("inputs", "sensors", "points", "values")},
    "nan": ({"values": np.where(np.arange(9) == 4, np.nan, integrals(30)[1])}, ["values has nan", "(1, 5)", "remove"]),
    "infinite": ({"sensors": np.where(SENSORS > 0.9, np.inf, SENSORS)}, ["sensors has inf", "remove"]),
    "complex": ({"inputs": integrals(30)[0] + 0j}, ["inputs holds complex numbers", "save"]),
    "empty": ({"values": np.empty((0, 9))}, ["values has no values"]),
    "transposed inputs": ({"inputs": integrals(30)[0].T}, ["inputs of the shape 12 x 30", "should be"]),
    "transposed values": ({"values": integrals(30)[1].T}, ["values of the shape 9 x 30", "30 x 9"]),
    "more sensors": ({"sensors": np.linspace(0, 1, 13)}, ["inputs of the shape 30 x 12", "30 x 13"]),
    "fewer points": ({"points": POINTS[:-1]}, ["values of the shape 30 x 9", "30 x 8"]),
    "fewer values": ({"values": integrals(29)[1]}, ["values of the shape 29 x 9", "30 x 9"]),
    "three dimensions": ({"inputs": np.zeros((30, 12, 2))}, ["inputs of the shape 30 x 12 x 2", "30 x 12"]),
    "ood inputs alone": ({"ood_values": None}, ["both of ood_inputs and ood_values, or neither"]),
    "ood values alone": ({"ood_inputs": None}, ["both of ood_inputs and ood_values, or neither"]),
    "ood of another width": ({"ood_inputs": np.zeros((5, 11))}, ["ood_inputs of the shape 5 x 11", "5 x 12"]),
    "ood of another number": ({"ood_values": np.zeros((4, 9))}, ["ood_values of the shape 4 x 9", "5 x 9"]),
    "two coordinates": ({"points": places(9, 2)}, ["problem.coordinates=['x']", "2 columns of points"]),
    "too few": (
        {"inputs": integrals(14)[0], "values": integrals(14)[1]},
        ["14 functions", "leave 1", "set aside fewer"],
    ),
    "far too few": (
        {"inputs": integrals(3)[0], "values": integrals(3)[1]},
        ["3 functions", "leave 0", "problem.n_test"],
    ),
}


def sentence(*overrides: str) -> str:
    with pytest.raises(ConfigError) as refused:
        prepare(assemble(settings_of("method=dens", *overrides)))
    said = str(refused.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize("kind", ["npz", "mat"])
@pytest.mark.parametrize("mistake", FILES)
def test_mistakes_in_a_file_are_named(tmp_path, mistake, kind):
    changes, parts = FILES[mistake]
    path = tmp_path / f"pairs.{kind}"
    save(path, **arrays(**changes))
    with pytest.raises(ConfigError) as refused:
        problem(path).dataset(np.random.default_rng(0))
    said = str(refused.value)
    assert "\n" not in said
    for part in (str(path), "problem.", *parts):
        assert part in said


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        (
            ["problem.data=''"],
            ["problem", "data should name an NPZ or MAT file with inputs, sensors, points and values"],
        ),
        (["problem.data=nowhere.npz"], ["problem.data: nowhere.npz does not exist", "check the name"]),
        (["problem.data=."], ["problem.data: . is a folder"]),
        (["problem.data=PAIRS.csv"], ["problem.data", ".npz or .mat"]),
        (["problem.data=PAIRS.npz", "problem.coordinates=[]"], ["coordinates should name every column", "[x, y]"]),
        (
            ["problem.data=PAIRS.npz", "problem.coordinates=[x,x]"],
            ["coordinates should name every column of the points once"],
        ),
        (["problem.data=PAIRS.npz", "problem.coordinates=[x,y]"], ["problem.coordinates=['x', 'y']", "1 columns"]),
        (["problem.data=PAIRS.npz", "problem.log_input=true"], ["problem.log_input=true needs positive", "use false"]),
        (
            ["problem.data=PAIRS.npz", "problem.log_output=true"],
            ["problem.log_output=true needs positive", "use false"],
        ),
        (["problem.data=PAIRS.npz", "problem.n_test=0"], ["problem.n_test=0"]),
        (["problem.data=PAIRS.npz", "problem.n_test=100"], ["30 functions", "set aside fewer"]),
        (["problem.data=PAIRS.npz", "problem.noise_scale=-1"], ["problem.noise_scale=-1"]),
        (["problem.data=PAIRS.npz", "problem.tolerance=0"], ["problem.tolerance=0"]),
        (["problem.data=PAIRS.npz", "problem.sensors=3"], ["problem.sensors"]),
        (["problem.data=PAIRS.npz", "model.branch=cnn"], ["model.branch=cnn", "use mlp"]),
        (["problem.data=PAIRS.npz", "model.branch=rnn"], ["model.branch"]),
        (["problem.data=PAIRS.npz", "detection.score=residual"], ["detection.score=residual"]),
    ],
    ids=lambda part: part[-1] if isinstance(part, list) and "problem" in part[-1] else None,
)
def test_mistakes_in_settings_are_named(tmp_path, overrides, parts, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "PAIRS.npz", **arrays())
    (tmp_path / "PAIRS.csv").write_text("x,u\n1,2\n")
    said = sentence("problem.coordinates=[x]", *overrides)
    for part in parts:
        assert part in said


def test_convolutions_of_scattered_sensors_are_refused(tmp_path):
    whole = arrays(sensors=places(16, 2), ood_inputs=None, ood_values=None)
    whole["inputs"] = np.random.default_rng(0).standard_normal((30, 16))
    save(tmp_path / "pairs.npz", **whole)
    given = [f"problem.data={tmp_path / 'pairs.npz'}", "problem.coordinates=[x]"]
    assert "model.branch=cnn needs functions on a rectangular grid" in sentence(*given, "model.branch=cnn")
    prepare(assemble(settings_of("method=dens", *given)))  # which others take as they are


def test_one_field_with_readings_is_another_problem(tmp_path):
    save(tmp_path / "pairs.npz", **arrays())
    register_resolvers()
    given = [f"problem.data={tmp_path / 'pairs.npz'}", "problem.coordinates=[x]", *COUNTS]
    config = plain(compose(["problem=operator", "model=pa_bnn_fp", "fidelity=smoke", *given], None))
    with pytest.raises(ConfigError, match=r"use model=deeponet or fno\.$"):  # there are no cases to choose from
        prepare(assemble(config))


def test_the_program_ends_with_the_sentence_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    save(tmp_path / "pairs.npz", **arrays(values=None))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCIUQ_TRUST", "")  # which the program changes
    with pytest.raises(SystemExit) as ended:
        main(["problem=operator", "problem.data=pairs.npz", "problem.coordinates=[x]"])
    assert ended.value.code == 2
    found = capsys.readouterr()
    assert found.out == ""
    (said,) = found.err.splitlines()
    assert said.startswith("sciuq-run: problem.data: pairs.npz has no array values")
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.npz"]
