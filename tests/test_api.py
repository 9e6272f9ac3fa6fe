"""``import sciuq_runner as sq``: what a script or a notebook can do."""

from __future__ import annotations

import doctest
import json
import logging
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from hydra.core.global_hydra import GlobalHydra
from threadpoolctl import threadpool_info

import sciuq_runner as sq
from sciuq_runner import api
from sciuq_runner.physics.python_equations import fingerprint
from sciuq_runner.training.loop import Silent
from tests.conftest import Inside

SMOKE = {"fidelity": "smoke", "progress": False, "figures": False}
X = np.linspace(0, 1, 20)
U = np.exp(-2 * X) + 0.02 * np.random.default_rng(0).standard_normal(20)


def decay(data: Any, **more: Any) -> dict[str, Any]:
    """u' = -k u with k = 2, as a mapping."""
    return {
        "coordinates": {"x": [0, 1]},
        "unknowns": {"u": ["x"]},
        "parameters": {"k": {"prior": "lognormal", "median": 1.0, "spread": 1.0}},
        "equations": {"ode": "u_x + k*u"},
        "observed": {
            "u": {"file": data, "noise": 0.02},
            "ode": {"value": 0, "points": 20, "noise": {"kind": "exact", "scale": 0.05}},
        },
        **more,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder for the runs of this module."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("api"))
    yield Path.cwd()
    os.chdir(before)


@pytest.fixture(scope="module")
def made(folder) -> sq.Run:
    problem = decay({"x": X, "u": U}, hold_out={"calibration": 5}, exact={"u": "exp(-2*x)"})
    return sq.run(problem, method="hmc", calibration="var", seed=3, **SMOKE)


def test_importing_takes_no_time():
    code = "import sys, sciuq_runner; print([m for m in ('torch', 'hydra', 'mlflow', 'pandas') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_command_line_finds_the_same(folder, inside: Inside):
    """Nothing but paths, cost and tracking may differ."""
    ours = sq.run("function", method="dens", seed=1, overrides=["method.n_members=2"], **SMOKE)
    line = ["problem=function", "method=dens", "seed=1", "method.n_members=2", "fidelity=smoke", "figures=false"]
    inside(*line, "tracking=none", "hydra.run.dir=line")
    theirs = json.loads(Path("line/metrics.json").read_text())
    for found in (ours.metrics, theirs):
        found.pop("cost")
    assert ours.metrics == theirs


def test_settings_by_keyword_reach_the_run(made):
    config = made.metrics["config"]
    assert (config["seed"], config["choices"]["method"], config["choices"]["calibration"]) == (3, "hmc", "var")
    assert config["figures"] is False


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"u": U, "x": X, "other": X}),
        np.stack([X, U], axis=1),
        xr.DataArray(U, coords={"x": X}, dims="x", name="u"),
        xr.DataArray(U, coords={"x": X}, dims="x"),
        xr.Dataset({"u": ("x", U)}, coords={"x": X}),
    ],
    ids=["frame", "array", "xarray", "xarray without a name", "dataset"],
)
def test_data_come_as_arrays_and_tables(folder, data):
    """All of these are the same observations, so the run is the same."""
    fields = sq.run(decay(data), method="la", **SMOKE).predictions["u_mean"]
    same = sq.run(decay({"x": X, "u": U}), method="la", **SMOKE).predictions["u_mean"]
    xr.testing.assert_identical(fields, same)


def test_equations_are_python_functions_too(folder):
    """The same equation finds the same, whichever way it is written; in two coordinates, with a constant."""
    t, x = (part.ravel() for part in np.meshgrid([0.1, 0.5, 1.0], [0.2, 0.5, 0.8], indexing="ij"))
    problem = {
        "coordinates": {"t": [0, 1], "x": [0, 1]},
        "unknowns": {"u": ["t", "x"]},
        "parameters": {"k": {"prior": "lognormal", "median": 0.1, "spread": 1.0}},
        "constants": {"c": 2.0},
        "observed": {
            "u": {"file": {"t": t, "x": x, "u": np.exp(-t) * np.sin(x)}, "noise": 0.05},
            "heat": {"value": 0, "points": 20, "noise": {"kind": "exact", "scale": 0.05}},
        },
    }
    written = {**problem, "equations": {"heat": "u_t - k*u_xx + c*x*u**2"}}
    function = {**problem, "equations": {"heat": lambda u, k, c, x: u.t - k * u.xx + c * x * u.value**2}}
    expected, found = (sq.run(one, method="dens", dtype="float64", **SMOKE) for one in (written, function))
    np.testing.assert_allclose(found.predictions["heat_mean"], expected.predictions["heat_mean"], rtol=1e-6)
    np.testing.assert_allclose(found.parameters["k"], expected.parameters["k"], rtol=1e-6)

    def heat(u, k, q):
        return u.t - k * q

    with pytest.raises(sq.ConfigError, match=r"problem\.equations\.heat takes q, which is neither a field"):
        sq.run({**problem, "equations": {"heat": heat}}, method="la", **SMOKE)
    with pytest.raises(sq.ConfigError, match=r"problem\.equations\.heat cannot be evaluated: u\.y is no derivative"):
        sq.run({**problem, "equations": {"heat": lambda u, k: u.y - k * u.xx}}, method="la", **SMOKE)
    with pytest.raises(sq.ConfigError, match="sweep=local runs jobs in other processes"):
        sq.sweep({"seed": [0, 1]}, function, sweep="local", **SMOKE)


def test_a_function_is_given_again_in_another_process(folder, monkeypatch):
    def ode(u, k):
        return u.x + k * u.value

    run = sq.run(decay({"x": X, "u": U}, equations={"ode": ode}), method="la", **SMOKE)
    monkeypatch.setattr("sciuq_runner.physics.python_equations._REGISTERED", {})
    with pytest.raises(sq.ConfigError, match=r"sq.load\(folder, functions=\{'ode': ode\}\)"):
        sq.load(run.folder).predict({"x": [0.5]})
    with pytest.raises(sq.ConfigError, match="another function"):
        sq.load(run.folder, {"ode": lambda u, k: u.x - k * u.value})
    assert len(sq.load(run.folder, {"ode": ode}).predict({"x": [0.5]}, "ode")) == 1


def test_a_problem_without_files_is_kept_by_its_content(made):
    """So that runs can be resumed, and repeated from the command line, and those of equal problems are known."""
    file = Path(made.metrics["config"]["problem"]["file"])
    assert {path.name for path in file.parent.iterdir()} == {"problem.yaml", "observed_u.csv"}
    np.testing.assert_array_equal(pd.read_csv(file.parent / "observed_u.csv")["u"], U)
    grid, problem = {"seed": [0, 1]}, decay({"x": X, "u": U})
    sq.sweep(grid, problem, method="la", **SMOKE)
    again = sq.sweep(grid, problem, method="la", overrides=["sweep.resume=true"], **SMOKE)
    assert set(again["status"]) == {"finished before"}


def test_files_of_a_mapping_are_seen_from_the_working_folder(folder):
    pd.DataFrame({"x": X, "u": U}).set_index("x").to_csv("here.csv")
    assert sq.run(decay("here.csv"), method="la", **SMOKE).metrics["parameters"]["k"]["mean"] > 0
    assert sq.run(decay(pd.read_csv("here.csv", index_col="x")), method="la", **SMOKE).warnings is not None


def test_parameters_are_draws_by_chain(made):
    draws = made.parameters["k"]
    assert draws.dims == ("chain", "draw")
    assert draws.values.mean() == pytest.approx(made.metrics["parameters"]["k"]["mean"])


def test_predictions_have_coordinates_and_bounds(made):
    found = made.predictions
    assert found["u_mean"].dims == ("x",)
    np.testing.assert_allclose(found["x"], np.linspace(0, 1, 201))
    np.testing.assert_allclose(found["u_upper"] - found["u_lower"], 2 * 1.959964 * found["u_std"], rtol=1e-6)
    np.testing.assert_allclose(found["u_std"] ** 2, found["u_aleatoric_std"] ** 2 + found["u_epistemic_std"] ** 2)
    np.testing.assert_allclose(found["u_reference"], np.exp(-2 * found["x"]))
    assert "u_cal_mean" in found


def test_quantities_on_other_grids_have_coordinates_of_their_own(folder):
    problem = decay({"x": X, "u": U}, grid={"x": 11}, test={"u": {"file": {"x": X, "u": U}}})
    found = sq.run(problem, method="la", **SMOKE).predictions
    assert found["u_mean"].dims == ("x",)
    assert found["ode_mean"].dims == ("x_ode",)
    assert len(found["x"]) == 20
    assert len(found["x_ode"]) == 11


def test_points_that_are_no_grid_have_a_dimension_of_their_own(folder):
    twice = {"x": [0.1, 0.1, 0.5], "u": [0.8, 0.82, 0.4]}
    run = sq.run(
        decay({"x": X, "u": U}, hold_out={"calibration": 5}, test={"u": {"file": twice}}), method="la", **SMOKE
    )
    found = run.calibrate("conformal").predictions
    assert found["u_mean"].dims == ("u_point",)
    np.testing.assert_allclose(found["x_u"], [0.1, 0.1, 0.5])


def test_units_have_names(folder):
    problem = decay({"x": X, "u": U}, units={"x": {"scale": 1.0, "name": "m"}, "u": {"scale": 1.0, "name": "K"}})
    found = sq.run(problem, method="la", **SMOKE).predictions
    assert found["x"].attrs["units"] == "m"
    assert found["u_mean"].attrs["units"] == "K"


def test_it_predicts_at_points_of_any_kind(made):
    points = pd.DataFrame({"x": [0.25, 0.5]})
    found = made.predict(points)
    assert len(made.predict({"x": 0.25})) == 1
    for same in ({"x": [0.25, 0.5]}, np.array([[0.25], [0.5]]), np.array([[0.5], [0.25]])[::-1]):
        pd.testing.assert_frame_equal(made.predict(same), found)
    grid = made.predictions
    np.testing.assert_allclose(found["mean"], grid["u_mean"].sel(x=[0.25, 0.5], method="nearest"), rtol=1e-6)
    assert len(made.predict(points, "ode")) == 2
    with pytest.raises(sq.ConfigError, match="the column x"):
        made.predict({"t": [0.1]})
    with pytest.raises(sq.ConfigError, match="quantity=v is not predicted"):
        made.predict(points, "v")


def test_loaded_it_is_the_same(made):
    again = sq.load(made.folder)
    assert again.metrics == made.metrics
    xr.testing.assert_identical(again.predictions, made.predictions)
    xr.testing.assert_identical(again.parameters, made.parameters)
    with pytest.raises(sq.ConfigError, match="is not the folder of a run"):
        sq.load("nowhere")


def test_it_is_calibrated_anew(folder):
    problem = decay({"x": X, "u": U}, hold_out={"calibration": 5})
    run = sq.run(problem, method="la", **SMOKE)
    assert "u_cal_mean" not in run.predictions
    assert run.calibrate("cdf", "var", n=4) is run
    assert "u_cal_cdf_mean" in run.predictions
    assert run.metrics["config"]["calibration"]["n"] == 4
    with pytest.raises(sq.ConfigError, match="needs a calibrator"):
        run.calibrate()
    for wrong in (["cfd"], ["var", "cfd"]):
        with pytest.raises(sq.ConfigError, match="calibration=cfd does not exist: did you mean 'cdf'"):
            run.calibrate(*wrong)


def test_nothing_held_out_calibrates_nothing(folder):
    run = sq.run(decay({"x": X, "u": U}), method="la", **SMOKE)
    with pytest.raises(sq.ConfigError, match="needs observations that were held out"):
        run.calibrate("var")


def test_figures_are_drawn_when_asked_for(made):
    from matplotlib.figure import Figure

    assert not (made.folder / "figures").exists()
    assert "u_bands" in made.figures
    for name in (None, "u", "calibration"):
        assert isinstance(made.plot(name), Figure)
    with pytest.raises(sq.ConfigError, match="is not a figure"):
        made.plot("v_bands")


def test_a_notebook_shows_figure_metrics_and_warnings(made):
    page = made._repr_html_()
    assert page.startswith("<img")
    assert "rl2e" in page
    assert "Warning" in page  # smoke chains have not converged


def test_arviz_has_all_groups(made):
    found = made.to_arviz()
    draws = made.parameters["k"].shape
    assert found.posterior["k"].shape == draws
    assert found.posterior["u"].shape == (*draws, 201)
    np.testing.assert_allclose(found.posterior["u"].mean(("chain", "draw")), made.predictions["u_mean"], rtol=1e-5)
    assert found.observed_data["u"].shape == (15,)
    assert found.sample_stats["lp"].shape == draws
    assert np.isfinite(found.sample_stats["lp"]).all()  # the exact condition counts by its tolerance
    assert list(found.log_likelihood) == ["u"]
    np.testing.assert_allclose(found.posterior["u_x"], made.predictions["x"])
    # by the formula of the Gaussian, from predictions at the same points
    points = found.constant_data["u_x"].values
    mean = made.predict(points)["mean"].to_numpy()
    likelihood = found.log_likelihood["u"]
    assert likelihood.shape == (*draws, 15)
    centred = -0.5 * ((found.observed_data["u"].values - mean) / 0.02) ** 2 - np.log(0.02 * np.sqrt(2 * np.pi))
    spread = made.predict(points)["epistemic_std"].to_numpy()
    expected = centred - 0.5 * (spread / 0.02) ** 2  # E (y - f)^2 = (y - E f)^2 + var f
    np.testing.assert_allclose(likelihood.mean(("chain", "draw")), expected, rtol=1e-3)


@pytest.mark.parametrize(
    ("settings", "observations"),
    [
        ({"problem": "function", "method": "gp"}, {"u": 32}),
        ({"problem": "mixed_pde", "method": "hmc"}, {"u": 66, "f": 15, "lambda": 6}),  # f holds at six times
        ({"problem": "function", "method": "la", "overrides": ["problem.case=student_t"]}, {"u": 32}),
        ({"problem": "spde", "method": "dens"}, {}),
    ],
    ids=["weighted sums", "repeated", "linearised", "random fields"],
)
def test_arviz_counts_every_observation_once(folder, settings, observations):
    found = sq.run(**settings, **SMOKE).to_arviz()
    likelihood = found.log_likelihood if observations else {}
    assert {name: part.shape[2] for name, part in likelihood.items()} == observations
    for part in likelihood.values():
        assert np.isfinite(part).all()


def test_arviz_has_nothing_of_an_operator(folder):
    with pytest.raises(sq.ConfigError, match="ArviZ needs parameters or fields"):
        sq.run("darcy", method="dens", **SMOKE).to_arviz()


def test_mistakes_raise_the_sentence_of_the_command_line(folder, inside: Inside):
    with pytest.raises(sq.ConfigError) as raised:
        sq.run("function", method="hmcc")
    assert str(raised.value) in inside("method=hmcc").err


def test_a_mistake_leaves_nothing_behind(folder):
    before = set(folder.rglob("*"))
    problem = decay({"x": X, "u": U})
    for wrong, sentence in (
        ({**problem, "unknown": {}}, "problem.unknown is not a setting"),
        (decay(np.ones((3, 5))), r"problem\.observed\.u\.file is an array of the shape \[3, 5\]"),
        (decay({"x": X, "v": U}), "column 'u'|has no column"),
        (decay({"x": ["a"], "u": [1.0]}), "should hold numbers"),
        (decay({"x": X, "u": U[1:]}), "columns of equal length; it has x 20, u 19"),
        (decay({"x": X, "u": U}, constants={"c": object()}), "problem.constants.c is a object"),
    ):
        with pytest.raises(sq.ConfigError, match=sentence):
            sq.run(wrong, method="la", **SMOKE)
    assert set(folder.rglob("*")) == before


def test_the_process_stays_as_it_was(folder):
    root = logging.getLogger()
    said = logging.FileHandler("mine.log", mode="w")
    root.addHandler(said)

    def state() -> tuple[Any, ...]:
        pools = [library["num_threads"] for library in threadpool_info()]
        own = (list(root.handlers), root.level, logging.getLogger("matplotlib").level, signal.getsignal(2))
        return (*own, torch.get_num_threads(), pools, dict(os.environ), list(sys.path), GlobalHydra.instance().hydra)

    before = state()
    sq.run("function", method="dens", trust=["json"], threads=1, **SMOKE)
    sq.sweep({"seed": [0]}, method="dens", **SMOKE)
    logging.getLogger("mine").error("still heard")
    try:
        assert state() == before
        assert "still heard" in Path("mine.log").read_text()
    finally:
        root.removeHandler(said)


def test_runs_in_threads_wait_for_each_other(folder):
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(sq.run, "function", method="dens", seed=seed, **SMOKE) for seed in range(3)]
    runs = [job.result() for job in jobs]
    assert len({run.folder for run in runs}) == 3
    assert [run.metrics["config"]["seed"] for run in runs] == [0, 1, 2]


def test_an_interrupted_run_goes_on(folder, monkeypatch):
    """With a Python function among its equations, given again as in another process; and ends as if nothing were."""

    def ode(u, k):
        return u.x + k * u.value

    problem = decay({"x": X, "u": U}, equations={"ode": ode})
    settings: dict[str, Any] = {"method": "hmc", "checkpoint_interval": 1e-9, **SMOKE}
    whole = sq.run(problem, **settings)
    update, calls = Silent.update, []

    def interrupt(self: Silent, done: int, numbers: dict[str, float]) -> None:
        calls.append(done)
        if len(calls) == 25:
            raise KeyboardInterrupt

    monkeypatch.setattr(Silent, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sq.run(problem, folder="stopped", **settings)
    monkeypatch.setattr(Silent, "update", update)
    monkeypatch.setattr("sciuq_runner.physics.python_equations._REGISTERED", {})
    assert not Path("stopped/metrics.json").exists()
    found = sq.resume("stopped", functions={"ode": ode}, progress=False)
    xr.testing.assert_identical(found.predictions, whole.predictions)


def test_functions_are_told_apart_by_all_that_they_depend_on():
    def scaled(factor: Any):
        return lambda u: factor * u.x

    long, other = np.zeros(10_000), np.zeros(10_000)
    other[5_000] = 1.0
    assert fingerprint(scaled(1.0)) == fingerprint(scaled(1.0)) != fingerprint(scaled(2.0))
    assert fingerprint(scaled(long)) != fingerprint(scaled(other))
    assert fingerprint(partial(scaled, 1.0)) != fingerprint(partial(scaled, 2.0))
    assert fingerprint(scaled(scaled(1.0))) == fingerprint(scaled(scaled(1.0))) != fingerprint(scaled(scaled(2.0)))
    assert fingerprint(scaled(object())) != fingerprint(scaled(object()))  # nothing can be told of them


def test_warnings_are_shown_and_kept(folder, capsys):
    run = sq.run("function", method="hmc", **SMOKE)
    assert any("R-hat" in text for text in run.warnings)
    assert "Warning: The chains do not agree" in capsys.readouterr().err


def test_no_mlflow_unless_asked(folder):
    sq.run("function", method="dens", **SMOKE)
    assert not Path("mlflow.db").exists()


def test_a_sweep_is_a_table(folder, capsys):
    table = sq.sweep({"method": ["la", "dens"], "seed": range(2)}, decay({"x": X, "u": U}), **SMOKE)
    assert table[["method", "seed"]].values.tolist() == [["la", 0], ["la", 1], ["dens", 0], ["dens", 1]]
    assert set(table["status"]) == {"finished"}
    assert sq.load(table["folder"][0]).metrics["parameters"]["k"]["mean"] == table["parameters/k/mean"][0]
    assert capsys.readouterr().out == ""
    for grid, more, sentence in (
        ({"method": "la"}, {}, "should be a list of values"),
        ("method=la,dens", {}, "the grid should be a mapping"),
        ({"method": ["la"]}, {"method": "dens"}, "method is in the grid and given beside it"),
    ):
        with pytest.raises(sq.ConfigError, match=sentence):
            sq.sweep(grid, **more)
    with pytest.raises(sq.ConfigError, match=r"sq\.sweep runs them all"):
        sq.run(method=["la", "dens"])


def test_examples_in_docstrings_run(folder, capsys):
    with capsys.disabled():
        failed = [doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed for module in (sq, api)]
    assert failed == [0, 0]
