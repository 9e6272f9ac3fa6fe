"""A saved model predicts as the run did, and says what is wrong with points and functions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sciuq_runner import layout
from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.result_files import read_results
from sciuq_runner.predict.emulator import Emulator
from sciuq_runner.runs.pipeline import execute
from sciuq_runner.training.loop import Loop


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose predictions were calibrated."""
    register_resolvers()
    settings = ["problem=function", "method=dens", "fidelity=smoke", "calibration=cdf", "figures=false", "gold=null"]
    made, folder = assemble(plain(compose([*settings, "tracking=none"], None))), tmp_path_factory.mktemp("run")
    execute(made, *prepare(made), folder, Loop(), {"problem": "function", "method": "dens"})
    return folder


def test_predictions_are_those_of_the_run(run):
    result = read_results(run)["u"]
    found = Emulator(run / layout.MODEL).predict(result.x)
    for name in ("mean", "std", "aleatoric_std", "epistemic_std"):
        np.testing.assert_allclose(found[name], getattr(result, name)[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["upper"] - found["lower"], 2 * 1.959964 * found["std"], rtol=1e-6)
    standard = result.standards["cdf"]
    np.testing.assert_allclose(found["cal_mean"], found["mean"] + standard.mean * found["std"])
    np.testing.assert_allclose(found["cal_std"], standard.std * found["std"])
    lower, upper = standard.interval(0.95)
    np.testing.assert_allclose(found["cal_upper"] - found["cal_lower"], (upper - lower) * found["std"])


@pytest.mark.parametrize("x", [np.zeros(3), np.zeros((3, 2)), np.array([[np.nan]])])
def test_points_that_are_none_are_named(run, x):
    with pytest.raises(ConfigError, match="one row per point and columns x"):
        Emulator(run / layout.MODEL).predict(x)


def test_a_quantity_that_is_none_is_named(run):
    with pytest.raises(ConfigError, match="quantity=v is not predicted: choose one of u"):
        Emulator(run / layout.MODEL).predict(np.zeros((1, 1)), "v")


SENSORS = np.stack(np.meshgrid([0.0, 0.5, 1.0], [0.0, 0.5, 1.0]), -1).reshape(-1, 2)


def operator(log: bool = False) -> Any:
    """What an emulator of an operator on a square knows of its inputs."""
    transforms = {"k": SimpleNamespace(log=log, x=SENSORS)}
    target = SimpleNamespace(operator=SimpleNamespace(input="k"), transforms=transforms)
    return SimpleNamespace(target=target, sensors=SENSORS, takes_functions=True)


def test_functions_at_other_points_are_interpolated():
    """Thin-plate splines reproduce planes."""
    others = np.random.default_rng(0).random((7, 2))
    found = Emulator.functions(operator(), (1 + others @ [2.0, 3.0])[None], others)
    np.testing.assert_allclose(found, (1 + SENSORS @ [2.0, 3.0])[None], rtol=1e-9)
    np.testing.assert_array_equal(Emulator.functions(operator(), np.ones(9)), np.ones((1, 9)))


LINE = np.linspace(0, 1, 5)[:, None] * [1.0, 1.0]


@pytest.mark.parametrize(
    ("values", "points", "log", "said"),
    [
        (np.ones((2, 4)), None, False, "at the 9 sensors in the columns; it has the shape 2x4"),
        (np.full((1, 9), np.inf), None, False, "finite numbers"),
        (np.zeros((1, 9)), None, True, "should be positive"),
        (np.ones((1, 3)), SENSORS[:3], False, "at least four places with 2 coordinates"),
        (np.ones((1, 5)), LINE, False, "lie on a line or twice in one place"),
        (np.ones((1, 6)), SENSORS[[0, 1, 3, 4, 8, 8]], False, "lie on a line or twice in one place"),
    ],
)
def test_functions_that_are_none_are_named(values, points, log, said):
    with pytest.raises(ConfigError, match=said):
        Emulator.functions(operator(log), values, points)


def test_an_operator_is_asked_for_functions():
    own = operator()
    own.quantity, own.coordinates_of = (lambda name: "u"), (lambda name: ("x", "y"))
    with pytest.raises(ConfigError, match="give them instead of points"):
        Emulator.predict(own, SENSORS)
