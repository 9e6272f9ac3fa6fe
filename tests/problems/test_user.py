"""Problems from YAML files: twins of the built-in ones, every mistake with its sentence, and the examples at work."""

from __future__ import annotations

import copy
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io
import torch
import yaml
from sciuq_runner.problems.forward_pde import ForwardPDE
from sciuq_runner.problems.function import Function
from sciuq_runner.problems.mixed_pde import TIMES, MixedPDE
from sciuq_runner.problems.user import UserProblem

from sciuq_runner.errors import ConfigError
from sciuq_runner.files import read_tensors
from sciuq_runner.models.bnn import BNN
from sciuq_runner.problem import Problem, Readings
from sciuq_runner.schema import build
from sciuq_runner.target import Target
from tests.conftest import environment, program, read_metrics, run_folders

EXAMPLES = Path(__file__).parents[2] / "examples"
TARGET = "sciuq_runner.problems.user.UserProblem"


def problem(folder: Path, node: dict[str, Any]) -> UserProblem:
    """The problem of a YAML file in ``folder``, as the command line makes it."""
    return build({"_target_": TARGET, **node, "file": str(folder / "mine.yaml")}, "problem", Problem)


def example(name: str) -> UserProblem:
    return problem(EXAMPLES, yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text()))


# Twins


def save(path: Path, **columns: np.ndarray) -> None:
    if path.suffix == ".csv":
        pd.DataFrame(columns).to_csv(path, index=False, float_format="%.17g")
    elif path.suffix == ".npz":
        np.savez(path, **columns)
    else:
        scipy.io.savemat(path, columns)


def columns(names: str, readings: Readings) -> dict[str, np.ndarray]:
    """Readings that are listed once for each of their copies, once."""
    n = len(readings) // readings.copies
    return dict(zip(names.split(), [*readings.x[:n].T, readings.y[:n, 0]], strict=True))


def function_twin(folder: Path) -> tuple[Problem, dict[str, Any]]:
    twin = Function()
    data = twin.dataset(np.random.default_rng(0))
    save(folder / "u.csv", **columns("x u", data["u"].train))
    return twin, {
        "coordinates": {"x": [-1, 1]},
        "unknowns": {"u": ["x"]},
        "observed": {"u": {"file": "u.csv", "noise": 0.1}},
    }


def mixed_twin(folder: Path, case: str) -> tuple[Problem, dict[str, Any]]:
    twin = MixedPDE(case=case, n_test_x=5, n_test_t=5)
    data = twin.dataset(np.random.default_rng(0))
    save(folder / "u.npz", **columns("t x u", data["u"].train))
    source = columns("t x f", data["f"].train)
    save(folder / "f.mat", place=source["x"], f=source["f"])
    save(folder / "lambda.csv", **columns("x lambda", data["lambda"].train))
    noise: dict[str, Any] = {"kind": "learned", "scale": 0.05, "shape": 0.5, "hyper_scale": 40, "group": "all"}
    if case == "heteroscedastic":
        noise = {"kind": "heteroscedastic", "scale": 0.05, "group": "lambda"}
    return twin, {
        "coordinates": {"t": [0, 1], "x": [-1, 1]},
        "unknowns": {"u": ["t", "x"], "lambda": ["x"]},
        "constants": {"D": 0.01},
        "equations": {"f": "u_t - D*u_xx + lambda*u**3"},
        "observed": {
            "u": {"file": "u.npz", "noise": noise},
            "f": {"file": "f.mat", "columns": {"x": "place"}, "repeat": {"t": TIMES.tolist()}, "noise": noise},
            "lambda": {"file": "lambda.csv", "noise": noise},
        },
    }


def forward_twin(folder: Path) -> tuple[Problem, dict[str, Any]]:
    twin = ForwardPDE()
    data = twin.dataset(np.random.default_rng(0))
    for name in ("u", "f"):
        save(folder / f"{name}.csv", **columns(f"x {name}", data[name].train))
    return twin, {
        "coordinates": {"x": [-1, 1]},
        "unknowns": {"u": ["x"]},
        "equations": {"f": "0.01*u_xx - 0.7*u**3"},
        "observed": {name: {"file": f"{name}.csv", "noise": 0.1} for name in ("u", "f")},
    }


TWINS = {
    "function": function_twin,
    "mixed_pde standard": lambda folder: mixed_twin(folder, "standard"),
    "mixed_pde heteroscedastic": lambda folder: mixed_twin(folder, "heteroscedastic"),
    "forward_pde": forward_twin,
}


def target_of(chosen: Problem) -> Target:
    data = chosen.dataset(np.random.default_rng(0))
    readings = {name: item.train for name, item in data.items()}
    model = BNN(width=20).bind(chosen, chosen.noise)
    return Target(model, chosen.noise, readings, dtype=torch.float64)


@pytest.mark.parametrize("name", TWINS)
def test_a_yaml_twin_has_the_same_log_density_and_gradient(name, tmp_path):
    ours, node = TWINS[name](tmp_path)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(node, sort_keys=False))
    theirs = problem(tmp_path, yaml.safe_load((tmp_path / "mine.yaml").read_text()))
    targets = [target_of(ours), target_of(theirs)]
    assert targets[0].size == targets[1].size
    assert targets[0].n_readings == targets[1].n_readings
    theta = 0.5 * torch.randn(3, targets[0].size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = []
    for target in targets:
        at = theta.clone().requires_grad_()
        density = target.log_density(at)
        found.append((density, *torch.autograd.grad(density.sum(), at)))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found[1][1], found[0][1], rtol=1e-9, atol=1e-9)


# What a file can say


@pytest.fixture
def base(tmp_path: Path) -> dict[str, Any]:
    """A problem that uses most of what there is, with its data."""
    rng = np.random.default_rng(0)
    save(tmp_path / "u.csv", t=rng.uniform(0, 1, 12), x=rng.uniform(-1, 1, 12), u=rng.normal(size=12), note=range(12))
    save(tmp_path / "q.npz", x=np.linspace(-1, 1, 6), q=rng.normal(size=6))
    return {
        "coordinates": {"t": [0, 1], "x": [-1, 1]},
        "unknowns": {"u": ["t", "x"], "q": ["x"]},
        "parameters": {"k": {"prior": "lognormal", "median": 1, "spread": 0.5, "reference": 2, "start": 1.5}},
        "constants": {"D": 0.1},
        "equations": {"heat": "u_t - D*u_xx + k*u - q", "left": "u", "flux": "-D*u_x"},
        "observed": {
            "u": {"file": "u.csv", "noise": 0.1},
            "q": {"file": "q.npz", "noise": {"kind": "learned", "scale": 0.2}},
            "heat": {"value": 0, "points": 20, "noise": "exact"},
            "left": {"value": "sin(t)", "points": 5, "at": {"x": -1}, "noise": {"kind": "exact", "scale": 0.05}},
        },
        "exact": {"u": "t*x"},
        "grid": {"t": 4, "x": 6},
        "slices": {"end": {"t": 1}, "third": {"t": 0.3}},
        "probe": {"u": [0.5, 0.0]},
    }


def changed(node: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The same with other values under dotted keys; ``...`` takes one away."""
    found = copy.deepcopy(node)
    for key, value in changes.items():
        *groups, last = key.split(".")
        inner = found
        for group in groups:
            inner = inner.setdefault(group, {})
        if value is ...:
            del inner[last]
        else:
            inner[last] = value
    return found


def test_what_becomes_of_a_file(base, tmp_path):
    found = problem(tmp_path, base)
    assert found.coordinates_of("flux") == ("t", "x")
    assert found.direct == ("u", "q")
    assert found.scalars["k"].reference == 2
    assert {name: (noise.kind, noise.scale) for name, noise in found.noise.items()} == {
        "u": ("known", 0.1),
        "q": ("learned", 0.2),
        "heat": ("exact", 0.01),
        "left": ("exact", 0.05),
        "flux": ("exact", 1.0),
    }
    data = found.dataset(np.random.default_rng(0))
    assert {name: len(item.train) for name, item in data.items()} == {"u": 12, "q": 6, "heat": 20, "left": 5, "flux": 0}
    t, x = data["u"].test.x.T
    assert np.unique(t).tolist() == pytest.approx([0, 0.3, 1 / 3, 2 / 3, 1])
    np.testing.assert_allclose(data["u"].reference[:, 0], t * x)
    assert 0.03 < np.std(data["u"].test.y - data["u"].reference) < 0.3
    assert {name: int(mask.sum()) for name, mask in data["u"].splits.items()} == {"id": 30, "end": 6, "third": 6}
    assert list(data["q"].splits) == ["id"]
    assert set(data["left"].test.x[:, 1]) == {-1.0}
    np.testing.assert_allclose(data["left"].train.y, np.sin(data["left"].train.x[:, :1]))
    assert np.isnan(data["flux"].test.y).all()


def test_the_same_generator_gives_the_same_data(base, tmp_path):
    base["hold_out"] = {"calibration": 2, "validation": 1}
    first, again = (problem(tmp_path, base).dataset(np.random.default_rng(3)) for _ in range(2))
    for name in first:
        for part in ("train", "calibration", "validation", "test"):
            np.testing.assert_array_equal(getattr(first[name], part).y, getattr(again[name], part).y)


def rows(readings: Readings) -> set[tuple[float, ...]]:
    return {tuple(row) for row in np.concatenate([readings.x, readings.y], axis=1).tolist()}


def test_readings_set_aside_are_disjoint_and_all_there(base, tmp_path):
    node = changed(base, {"hold_out": {"calibration": 3, "validation": 2}, "observed.q.hold_out": {"validation": 1}})
    found = problem(tmp_path, node)
    assert found.n_calibration_points == 3
    data = found.dataset(np.random.default_rng(0))
    parts = [rows(part) for part in (data["u"].train, data["u"].calibration, data["u"].validation)]
    assert [len(part) for part in parts] == [7, 3, 2]
    assert set.union(*parts) == rows(problem(tmp_path, base).dataset(np.random.default_rng(0))["u"].train)
    assert [len(part) for part in (data["q"].train, data["q"].calibration, data["q"].validation)] == [5, 0, 1]
    assert not len(data["heat"].calibration)


def test_a_reading_that_holds_at_several_points_is_one(base, tmp_path):
    """All copies of one reading are on one side, and one set aside is compared at one of its points."""
    save(tmp_path / "f.csv", x=np.linspace(-1, 1, 8), f=np.arange(8.0))
    steady = {"file": "f.csv", "repeat": {"t": [0, 0.5, 1]}, "drift": 0.2, "noise": 0.1}
    node = changed(base, {"equations.f": "u_t - q", "observed.f": steady})
    node["hold_out"] = {"calibration": 2, "validation": 1}
    data = problem(tmp_path, node).dataset(np.random.default_rng(0))["f"]
    assert (len(data.train), data.train.copies, data.train.drift) == (15, 3, 0.2)
    assert (len(data.calibration), data.calibration.copies, len(data.validation)) == (2, 1, 1)
    sides = [set(part.y[:, 0]) for part in (data.train, data.calibration, data.validation)]
    assert sorted(value for side in sides for value in side) == list(range(8))
    assert set(data.calibration.x[:, 0]) <= {0, 0.5, 1}
    conditions = changed(base, {"observed.left": {"value": 0, "points": 5, "repeat": {"x": [-1, 1]}, "noise": "exact"}})
    left = problem(tmp_path, conditions).dataset(np.random.default_rng(0))["left"]
    assert (len(left.train), left.train.copies) == (10, 1)


def test_test_readings_and_conditions_at_one_point(base, tmp_path):
    save(tmp_path / "test.mat", t=[0.5, 0.2, 0.2], where=[0, 1, -1], u=[1, 2, 3])
    more = {"test.u": {"file": "test.mat", "columns": {"x": "where"}}, "observed.left.at": {"t": 0, "x": -1}}
    data = problem(tmp_path, changed(base, more)).dataset(np.random.default_rng(0))
    assert data["u"].test.x.tolist() == [[0.2, -1], [0.2, 1], [0.5, 0]]
    assert data["u"].test.y[:, 0].tolist() == [3, 2, 1]
    assert list(data["u"].splits) == ["id"]
    assert data["left"].train.x.tolist() == [[0, -1]]


def test_true_noise_makes_test_readings(base, tmp_path):
    student = {"kind": "learned", "family": "student_t", "degrees_of_freedom": 6, "reference": 0.3}
    node = changed(base, {"observed.u.noise": student, "grid": {"t": 41, "x": 41}})
    data = problem(tmp_path, node).dataset(np.random.default_rng(0))["u"]
    expected = 0.3 * np.sqrt(6 / 4)
    assert data.noise_reference is not None
    assert data.noise_reference[0, 0] == pytest.approx(expected)
    assert np.std(data.test.y - data.reference) == pytest.approx(expected, rel=0.15)


def test_physics_of_a_file(base, tmp_path):
    """Against autograd, with an unknown number, a constant, a coordinate and two fields."""
    node = changed(base, {"equations.heat": "u_t - D*u_xx + k*sin(x)*u*q_x"})
    made = problem(tmp_path, node)
    model = BNN(width=8).bind(made, made.noise)
    theta = torch.randn(2, model.n_params, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points = torch.rand(5, 2, dtype=torch.float64, requires_grad=True)
    parts, k = model.parts(theta), model.parameters(theta[:, -1:])["k"]
    found = model.observe(theta, "heat", points)
    for member in range(2):
        u = model.networks["u"](parts["u"][member : member + 1], points)[0, :, 0]
        q = model.networks["q"](parts["q"][member : member + 1], points[:, 1:])[0, :, 0]
        u_t, u_x = torch.autograd.grad(u.sum(), points, create_graph=True)[0].T
        u_xx = torch.autograd.grad(u_x.sum(), points, create_graph=True)[0][:, 1]
        q_x = torch.autograd.grad(q.sum(), points)[0][:, 1]
        expected = u_t - 0.1 * u_xx + k[member] * torch.sin(points[:, 1]) * u * q_x
        torch.testing.assert_close(found[member, :, 0], expected)


@pytest.mark.parametrize("name", ["rod", "kdv", "epidemic", "poisson"])
def test_examples_compile_in_one_graph(name):
    target = target_of(example(name))
    theta = 0.1 * torch.randn(2, target.size, dtype=torch.float64)
    compiled = torch.compile(target.log_density, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(theta), target.log_density(theta))


# Mistakes


def spoil(folder: Path) -> None:
    """Files that cannot be used."""
    (folder / "mine.yaml").write_text("coordinates:\n")
    (folder / "nan.csv").write_text("t,x,u\n0,0,1\n0.5,0,nan\n")
    (folder / "text.csv").write_text("t,x,u\n0,0,1\n0.5,0,warm\n")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("t,x,u\n")
    (folder / "twice.csv").write_text("t,x,u,u\n0,0,1,1\n")
    save(folder / "shapes.npz", t=np.zeros(3), x=np.zeros(3), u=np.zeros(4))


MISTAKES: list[tuple[dict[Any, Any], str]] = [
    ({"coordinates.pi": [0, 1]}, "problem.coordinates=pi is the number 3.1416 in expressions: choose another name."),
    ({"unknowns.sin": ["x"]}, "problem.unknowns=sin is a function in expressions: choose another name."),
    (
        {"parameters.u": {"prior": "normal", "mean": 0, "std": 1}},
        "problem.parameters.u has the name of one of problem.unknowns: rename one.",
    ),
    ({"equations.x": "u"}, "problem.equations.x has the name of one of problem.coordinates: rename one."),
    (
        {"equations.2nd": "u"},
        "problem.equations='2nd' cannot be used in expressions: a name has letters, digits and _ only.",
    ),
    ({"coordinates.value": [0, 1]}, "problem.coordinates.value cannot be told apart in derivatives: rename it."),
    ({"coordinates.xx": [0, 1]}, "problem.coordinates.xx cannot be told apart in derivatives: rename it."),
    ({"coordinates": {}}, "problem needs at least one of coordinates and one of unknowns."),
    ({"coordinates": {True: [0, 1]}}, "problem.coordinates={True: [0, 1]} is not valid: it should be a valid string."),
    ({"coordinates.x": [1, -1]}, "problem.coordinates.x=[1.0, -1.0] should be a range [low, high] with low < high."),
    (
        {"coordinates.x": [0, 1, 2]},
        "problem.coordinates.x=[0.0, 1.0, 2.0] should be a range [low, high] with low < high.",
    ),
    ({"coordinates.x": [0, "one"]}, "problem.coordinates.x=[0, 'one'] is not valid: it should be a valid number."),
    (
        {"coordinates.x": [0, float("inf")]},
        "problem.coordinates.x=[0, inf] is not valid: it should be a finite number.",
    ),
    ({"coordinates.x": 1}, "problem.coordinates.x=1 is not valid: it should be a valid list."),
    ({"unknowns.u": ["t", "z"]}, "problem.unknowns.u: z is no coordinate: choose one of t, x"),
    ({"unknowns.u": "t, x"}, "problem.unknowns.u='t, x' is not valid: it should be a valid list."),
    (
        {"unknowns.u": []},
        "problem.unknowns.u=[] should name the coordinates of the field, each once: an unknown number "
        "belongs under problem.parameters.",
    ),
    (
        {"unknowns.u": ["x", "x"]},
        "problem.unknowns.u=['x', 'x'] should name the coordinates of the field, each once: an unknown "
        "number belongs under problem.parameters.",
    ),
    (
        {"unknowns.v": ["x"]},
        "problem.unknowns.v: nothing under problem.observed depends on v: observe an equation with it, or "
        "leave it out.",
    ),
    (
        {"parameters.k": 1.0},
        "problem.parameters.k.prior is missing: write {prior: lognormal, median: 1, spread: 0.5} or alike.",
    ),
    (
        {"parameters.k": {"median": 1, "spread": 1}},
        "problem.parameters.k.prior is missing: write {prior: lognormal, median: 1, spread: 0.5} or alike.",
    ),
    (
        {"parameters.k.prior": "lognorm"},
        "problem.parameters.k.prior='lognorm' is not a prior: did you mean 'lognormal'?",
    ),
    (
        {"parameters.k.prior": ["normal"]},
        "problem.parameters.k.prior=['normal'] is not a prior: did you mean 'normal'?",
    ),
    ({"parameters.k.median": -1}, "problem.parameters.k.median=-1 is not valid: it should be greater than 0."),
    ({"parameters.k.spread": 0}, "problem.parameters.k.spread=0 is not valid: it should be greater than 0."),
    ({"parameters.k.spread": "wide"}, "problem.parameters.k.spread='wide' is not valid: it should be a valid number."),
    ({"parameters.k.spread": ...}, "problem.parameters.k.spread is missing."),
    (
        {"parameters.k.std": 1},
        "problem.parameters.k.std is not a setting of problem.parameters.k: did you mean 'start'?",
    ),
    (
        {"parameters.k.reference": float("nan")},
        "problem.parameters.k.reference=nan is not valid: it should be a finite number.",
    ),
    ({"parameters.k.start": -1}, "problem.parameters.k.start=-1 is impossible under the prior."),
    (
        {"parameters.k": {"prior": "uniform", "low": 1, "high": 0}},
        "problem.parameters.k: low=1 should be less than high=0.",
    ),
    (
        {"parameters.k": {"prior": "uniform", "low": 0, "high": 1, "start": 2}},
        "problem.parameters.k.start=2 is impossible under the prior.",
    ),
    (
        {"parameters.c": {"prior": "normal", "mean": 0, "std": 1}},
        "problem.parameters.c: nothing under problem.observed depends on c: observe an equation with it, or "
        "leave it out.",
    ),
    ({"constants.D": "0.1 m"}, "problem.constants.D='0.1 m' is not valid: it should be a valid number."),
    ({"constants.D": True}, "problem.constants.D=True is not valid: it should be a valid number."),
    ({"constants.u_x": 1}, "problem.constants.u_x is the name of a derivative of u: rename it."),
    (
        {"parameters.u_tx": {"prior": "normal", "mean": 0, "std": 1}},
        "problem.parameters.u_tx is the name of a derivative of u: rename it.",
    ),
    (
        {"equations.heat": "u_t - D*u_xx + kk*u"},
        "problem.equations.heat: 'kk' at column 16 is not known: did you mean 'k'?",
    ),
    (
        {"equations.heat": "u_t - D*u_xx + k*w"},
        "problem.equations.heat: 'w' at column 18 is not known: choose one of D, e, k, pi, q, t, u, x",
    ),
    (
        {"equations.heat": "u_t - D*u_xy + k*q"},
        "problem.equations.heat: 'u_xy' at column 9 is a derivative along y, and u depends on t, x.",
    ),
    (
        {"equations.heat": "q_t + k*u"},
        "problem.equations.heat: 'q_t' at column 1 is a derivative along t, and q depends on x.",
    ),
    (
        {"equations.heat": "u_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
        "problem.equations.heat: 'u_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' at column 1 is a derivative of "
        "too high an order: write at most 30 letters.",
    ),
    (
        {"equations.heat": "u_value"},
        "problem.equations.heat: 'u_value' at column 1 is a derivative along value, and u depends on t, x.",
    ),
    (
        {"equations.heat": "u_t = k*u"},
        "problem.equations.heat: '=' at column 5 is not understood: bring all terms to one side.",
    ),
    ({"equations.heat": ""}, "problem.equations.heat is empty: write an expression such as u_t - D*u_xx."),
    ({"equations.heat": ["u_t"]}, "problem.equations.heat=['u_t'] is not valid: it should be a valid string."),
    ({"equations.heat": "2*x + k"}, "problem.equations.heat='2*x + k' uses no field: write an expression of u, q."),
    ({"equations.heat": 0}, "problem.equations.heat=0 uses no field: write an expression of u, q."),
    ({"equations.heat": "u_t/(D - 0.1) + k*q"}, "problem.equations.heat: '/' at column 4 divides by zero."),
    ({"observed": {}}, "problem.observed is empty: name at least one quantity with its readings."),
    (
        {"observed.v": {"value": 0, "noise": 0.1}},
        "problem.observed.v is neither a field nor an equation: choose one of flux, heat, left, q, u",
    ),
    (
        {"observed.flow": {"value": 0, "noise": 0.1}},
        "problem.observed.flow is neither a field nor an equation: did you mean 'flux'?",
    ),
    (
        {"observed.u": "u.csv"},
        "problem.observed.u='u.csv' should say where readings come from: {file: ...}, {value: ...}.",
    ),
    (
        {"observed.u": {"noise": 0.1}},
        "problem.observed.u: give either file (readings) or value (an expression that holds), not both and not none.",
    ),
    (
        {"observed.u.value": 0},
        "problem.observed.u: give either file (readings) or value (an expression that holds), not both and not none.",
    ),
    ({"observed.u.points": 10}, "problem.observed.u: points belongs to value: all readings of a file are taken."),
    (
        {"observed.heat.points": 0},
        "problem.observed.heat.points=0 is not valid: it should be greater than or equal to 1.",
    ),
    (
        {"observed.heat.columns": {"t": "time"}},
        "problem.observed.heat: columns and hold_out belong to file, and there is none.",
    ),
    (
        {"observed.heat.values": 0},
        "problem.observed.heat.values is not a setting of problem.observed.heat: did you mean 'value'?",
    ),
    (
        {"observed.heat.value": "u"},
        "problem.observed.heat.value: 'u' at column 1 is not known: choose one of D, e, pi, t, x",
    ),
    (
        {"observed.heat.value": "k*x"},
        "problem.observed.heat.value: 'k' at column 1 is not known: choose one of D, e, pi, t, x",
    ),
    ({"observed.left.value": "log(t)"}, "problem.observed.left.value=log(t) gives no finite number at t=0, x=-1."),
    ({"observed.left.at": {"y": 0}}, "problem.observed.left: left does not depend on y: choose one of t, x"),
    ({"observed.left.at": {"x": -2}}, "problem.observed.left: x=-2 is outside of the range [-1, 1] of x."),
    (
        {"observed.left.at": {"x": "left"}},
        "problem.observed.left.at={'x': 'left'} is not valid: it should be a valid number.",
    ),
    (
        {"observed.left.repeat": {"x": [0]}},
        "problem.observed.left: repeat.x should list values of a coordinate that at does not fix.",
    ),
    (
        {"observed.heat.repeat": {"x": []}},
        "problem.observed.heat: repeat.x should list values of a coordinate that at does not fix.",
    ),
    ({"observed.heat.drift": 0.1}, "problem.observed.heat: drift belongs to readings of a file that repeat."),
    ({"observed.u.drift": 0.1}, "problem.observed.u: drift belongs to readings of a file that repeat."),
    ({"observed.q.repeat": {"t": [0]}}, "problem.observed.q: q does not depend on t: choose one of x"),
    (
        {"observed.u.noise": ...},
        "problem.observed.u.noise is missing: write a number, learned, exact, or {kind: learned, scale: 0.1} ...",
    ),
    ({"observed.u.noise": 0}, "problem.observed.u.noise.scale=0 is not valid: it should be greater than 0."),
    (
        {"observed.u.noise": "known"},
        "problem.observed.u.noise.scale is missing: how large is the noise? Write kind: learned if that is unknown.",
    ),
    (
        {"observed.u.noise": "heteroskedastic"},
        "problem.observed.u.noise.kind='heteroskedastic' is not valid: did you mean 'heteroscedastic'?",
    ),
    ({"observed.u.noise": [0.1]}, "problem.observed.u.noise.scale=[0.1] is not valid: it should be a valid number."),
    (
        {"observed.u.noise": {"kind": "learned", "sigma": 1}},
        "problem.observed.u.noise.sigma is not a setting of problem.observed.u.noise: choose one of "
        "degrees_of_freedom, family, group, hyper_scale, kind, reference, scale, shape",
    ),
    (
        {"observed.u.noise": {"scale": 0.1, "group": "all"}},
        "problem.observed.u.noise.group has no meaning for noise of kind known: leave it out.",
    ),
    (
        {"observed.u.noise": {"kind": "exact", "family": "student_t"}},
        "problem.observed.u.noise.family has no meaning for noise of kind exact: leave it out.",
    ),
    (
        {"observed.u.noise": {"scale": 0.1, "degrees_of_freedom": 4}},
        "problem.observed.u.noise.degrees_of_freedom has no meaning without family: student_t.",
    ),
    (
        {"observed.u.noise": {"scale": 0.1, "family": "student_t", "degrees_of_freedom": 2}},
        "problem.observed.u.noise.degrees_of_freedom=2 is not valid: it should be greater than 2.",
    ),
    (
        {"observed.u.noise": {"kind": "learned", "scale": 0.5, "group": "q"}},
        "problem.observed.q.noise shares its scale with the noise of u: scale, shape and hyper_scale should "
        "be the same for both.",
    ),
    (
        {"observed.heat.noise": "heteroscedastic"},
        "problem.observed.heat.noise.group='heat' should be the field whose network predicts the noise too, "
        "depending on no more than heat does: one of u, q.",
    ),
    (
        {"observed.q.noise": {"kind": "heteroscedastic", "group": "u"}},
        "problem.observed.q.noise.group='u' should be the field whose network predicts the noise too, "
        "depending on no more than q does: one of q.",
    ),
    ({"observed.u.file": "none.csv"}, "problem.observed.u: none.csv does not exist: check the name and the folder."),
    ({"observed.u.file": "mine.yaml"}, "problem.observed.u: mine.yaml should end with .csv, .npz or .mat."),
    ({"observed.u.columns": {"u": "U"}}, "problem.observed.u: u.csv has no column U: choose one of note, t, u, x"),
    ({"observed.u.columns": {"t": "time"}}, "problem.observed.u: u.csv has no column time: did you mean 'note'?"),
    (
        {"observed.u.columns": {"y": "time"}},
        "problem.observed.u.columns.y is not read from the file: choose one of t, u, x",
    ),
    (
        {"observed.u.columns": {"u": 3}},
        "problem.observed.u.columns={'u': 3} is not valid: it should be a valid string.",
    ),
    ({"observed.u.file": "q.npz"}, "problem.observed.u: q.npz has no array t: choose one of q, x"),
    ({"observed.u.file": "nan.csv"}, "problem.observed.u: nan.csv has nan in line 3, column u: remove the line."),
    (
        {"observed.u.file": "text.csv"},
        "problem.observed.u: text.csv has 'warm' in line 3, column u: it should be a number.",
    ),
    ({"observed.u.file": "empty.csv"}, "problem.observed.u: empty.csv is empty: is the file complete?"),
    ({"observed.u.file": "header.csv"}, "problem.observed.u: header.csv has a header and no rows: add at least one."),
    ({"observed.u.file": "twice.csv"}, "problem.observed.u: twice.csv has 2 columns u: rename all but one."),
    (
        {"observed.u.file": "shapes.npz"},
        "problem.observed.u: shapes.npz has arrays of the lengths t 3, x 3, u 4: all should have the same.",
    ),
    (
        {"coordinates.x": [-1, 0]},
        "problem.observed.u: u.csv has x=0.7148085532 in row 1 of its data, outside of the domain from -1 to "
        "0: extend the domain or remove the row.",
    ),
    ({"exact.v": "x"}, "problem.exact.v is neither a field nor an equation: choose one of flux, heat, left, q, u"),
    ({"exact.u": "k*x"}, "problem.exact.u: 'k' at column 1 is not known: choose one of D, e, pi, t, x"),
    ({"exact.u": "1/x**0.5"}, "problem.exact.u=1/x**0.5 gives no finite number at t=0, x=-1."),
    ({"exact.q": "t"}, "problem.exact.q: 't' at column 1 is not known: choose one of D, e, pi, x"),
    (
        {"test.u": {"file": "u.csv", "noise": 0.1}},
        "problem.test.u.noise is not a setting of test readings: choose one of at, columns, file, repeat",
    ),
    (
        {"test.u": {"value": 0}},
        "problem.test.u.value is not a setting of test readings: choose one of at, columns, file, repeat",
    ),
    (
        {"test.w": {"file": "u.csv"}},
        "problem.test.w is neither a field nor an equation: choose one of flux, heat, left, q, u",
    ),
    ({"test.u": {"file": "none.npz"}}, "problem.test.u: none.npz does not exist: check the name and the folder."),
    ({"grid.z": 3}, "problem.grid: z is no coordinate: choose one of t, x"),
    ({"grid.t": 1}, "problem.grid.t=1 is not valid: it should be greater than or equal to 2."),
    ({"grid.t": "many"}, "problem.grid.t='many' is not valid: it should be a valid integer."),
    ({"slices.end": {"y": 1}}, "problem.slices.end: y is no coordinate: choose one of t, x"),
    ({"slices.end": {"t": 2}}, "problem.slices.end: t=2 is outside of the range [0, 1] of t."),
    ({"slices.end": {}}, "problem.slices.end is empty: name coordinates and their values, such as t: 1."),
    ({"slices.end": 1}, "problem.slices.end=1 is not valid: it should be a valid dictionary."),
    ({"slices.id": {"t": 1}}, "problem.slices.id: choose another name, of letters, digits and _."),
    ({"probe.w": [0]}, "problem.probe.w is neither a field nor an equation: choose one of flux, heat, left, q, u"),
    ({"probe.u": [0.5]}, "problem.probe.u=[0.5] should be one point: [t, x]."),
    ({"probe.u": [2, 0]}, "problem.probe.u: t=2 is outside of the range [0, 1] of t."),
    (
        {"hold_out": {"calibration": 8, "validation": 4}},
        "problem.hold_out sets 12 of the 12 readings of u aside: leave at least one for training.",
    ),
    (
        {"hold_out": {"calibration": -1}},
        "problem.hold_out.calibration=-1 is not valid: it should be greater than or equal to 0.",
    ),
    (
        {"hold_out": {"callibration": 1}},
        "problem.hold_out.callibration is not a setting of problem.hold_out: did you mean 'calibration'?",
    ),
    (
        {"observed.u.hold_out": {"calibration": 12}},
        "problem.hold_out sets 12 of the 12 readings of u aside: leave at least one for training.",
    ),
    (
        {
            "hold_out": {"calibration": 1},
            "observed.u": {"value": 0, "noise": 0.1},
            "observed.q": {"value": 0, "noise": 0.1},
        },
        "problem.hold_out sets readings aside, and no quantity is read from a file: leave it out.",
    ),
    ({"parameters": None}, "problem.parameters=None is not valid: it should be a valid dictionary."),
    ({"equation": {}}, "problem.equation is not a setting of problem: did you mean 'equations'?"),
    ({"observed": ...}, "problem.observed is missing."),
]


@pytest.mark.parametrize(("changes", "sentence"), MISTAKES, ids=[str(list(item[0].items()))[:60] for item in MISTAKES])
def test_every_mistake_has_its_sentence(base, tmp_path, changes, sentence):
    spoil(tmp_path)
    with pytest.raises(ConfigError) as caught:
        problem(tmp_path, changed(base, changes)).dataset(np.random.default_rng(0))
    assert str(caught.value).replace(f"{tmp_path}/", "") == sentence


# The real program


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    (folder / name).write_text(text)
    return folder / name


SIMPLE = """
coordinates: {x: [0, 1]}
unknowns: {u: [x]}
observed:
  u: {file: data.csv, noise: 0.1}
"""

REFUSED = {
    "problem=nowhere.yaml": ("", "problem=nowhere.yaml is not there"),
    "problem=./mine.yaml": ("- a\n- list\n", "mine.yaml should describe a problem"),
    "problem=mine.yaml": (SIMPLE.replace("unknowns", "unknown"), "problem.unknown is not a setting of problem"),
    "problem=mine.yaml ": (SIMPLE + "  u: {value: 0}\n", "mine.yaml is not valid YAML"),
    "problem=mine.yaml  ": (SIMPLE.replace("}", ""), "mine.yaml is not valid YAML"),
    "problem=mine.yaml   ": (SIMPLE.replace("data", "dat"), "dat.csv does not exist"),
    "problem=mine.yaml    ": (SIMPLE + "equations: {cost: u_x}\n", "a quantity cannot be called cost"),
    "problem=mine.yaml     ": (SIMPLE + "equations: {f: u_xx - a*u}\n", "'a' at column 8 is not known"),
    "problem.observed.u.noise=-1 problem=mine.yaml": (SIMPLE, "problem.observed.u.noise.scale=-1 is not valid"),
    "calibration=var problem=mine.yaml": (SIMPLE, "needs calibration readings, and the problem has none"),
}


@pytest.mark.cli
@pytest.mark.parametrize("arguments", REFUSED)
def test_the_program_refuses_a_file_in_one_sentence_and_leaves_nothing(cli, tmp_path, arguments):
    text, sentence = REFUSED[arguments]
    write(tmp_path, text)
    write(tmp_path, "x,u\n0,1\n1,2\n", "data.csv")
    before = sorted(tmp_path.iterdir())
    found = cli(*arguments.split(), "fidelity=smoke")
    assert found.returncode == 2, found.stdout + found.stderr
    assert found.stdout == ""
    assert found.stderr.count("\n") == 1, found.stderr
    assert found.stderr.startswith("sciuq-run: ")
    assert sentence in found.stderr
    assert sorted(tmp_path.iterdir()) == before


def check_run(folder: Path, quantities: set[str], parameters: set[str]) -> dict[str, Any]:
    found = read_metrics(folder)
    assert quantities <= set(found)
    assert set(found["parameters"]) == parameters
    with np.load(folder / "predictions.npz") as arrays:
        for name in arrays["quantities"]:
            assert np.isfinite(arrays[f"{name}_mean"]).all()
    assert "could not be drawn" not in (folder / "run.log").read_text()
    return found


@pytest.mark.cli
@pytest.mark.parametrize(
    ("name", "judged", "parameters", "more"),
    [
        ("kdv", {"u"}, {"a", "b"}, []),
        ("epidemic", {"s", "i", "r"}, {"beta", "gamma"}, ["calibration=var"]),
        ("poisson", {"u", "f"}, set(), ["calibration=[var,cdf]"]),
    ],
)
def test_examples_run_from_their_files_alone(cli, tmp_path, name, judged, parameters, more):
    """Two methods in one sweep; calibrated where readings are set aside."""
    found = cli("-m", f"problem={EXAMPLES / name}.yaml", "method=hmc,dens", "fidelity=smoke", "tracking=none", *more)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "Traceback" not in found.stdout + found.stderr
    folders = run_folders(tmp_path)
    assert len(folders) == 2
    for folder in folders:
        metrics = check_run(folder, judged, parameters)
        for quantity in judged:
            assert metrics[quantity]["id"]["rl2e"] > 0
        calibrated = {quantity for quantity in judged if "cal_id" in metrics[quantity]}
        assert calibrated == {"kdv": set(), "epidemic": {"i", "r"}, "poisson": {"f"}}[name]
        figures = {path.name for path in (folder / "figures").glob("*.png")}
        assert ("distributions.png" in figures) == bool(parameters)
        if name != "epidemic":
            assert "u_maps.png" in figures


@pytest.mark.cli
def test_readings_alone_are_enough(cli, tmp_path):
    """Without any truth there are no metrics, but predictions and figures."""
    write(tmp_path, SIMPLE)
    write(tmp_path, "x,u\n0,1\n1,2\n", "data.csv")
    found = cli("problem=mine.yaml", "method=dens", "fidelity=smoke", "tracking=none")
    assert found.returncode == 0, found.stdout + found.stderr
    (folder,) = run_folders(tmp_path)
    assert check_run(folder, {"u"}, set())["u"] == {}
    assert (folder / "figures" / "u_bands.png").is_file()


@pytest.mark.cli
def test_a_user_problem_in_a_configuration_folder(cli, tmp_path):
    """Named like any other problem; listed in --help."""
    (tmp_path / "mine" / "problem").mkdir(parents=True)
    text = f"# A line of my own\n_target_: {TARGET}\nfile: mine/problem/line.yaml\n{SIMPLE}exact: {{u: x}}\n"
    write(tmp_path / "mine" / "problem", text, "line.yaml")
    write(tmp_path / "mine" / "problem", "x,u\n0,1\n1,2\n", "data.csv")
    found = cli("--config-dir", "mine", "problem=line", "method=dens", "fidelity=smoke", "tracking=none")
    assert found.returncode == 0, found.stdout + found.stderr
    (folder,) = run_folders(tmp_path)
    check_run(folder, {"u"}, set())
    assert "A line of my own" in cli("--help", "--config-dir", "mine").stdout


def copy_of(name: str, folder: Path) -> Path:
    """An example in a folder of its own."""
    folder.mkdir()
    for path in EXAMPLES.glob(f"{name}.*"):
        shutil.copy(path, folder)
    return folder / f"{name}.yaml"


@pytest.mark.cli
def test_a_finished_run_predicts_without_its_file(cli, tmp_path):
    source = copy_of("rod", tmp_path / "source")
    found = cli("problem=source/rod.yaml", "method=hmc", "fidelity=smoke", "tracking=none")
    assert found.returncode == 0, found.stderr
    shutil.rmtree(source.parent)
    (folder,) = run_folders(tmp_path)
    write(tmp_path, "t,x\n0.5,0.5\n1,0.25\n", "points.csv")
    for quantity in ("u", "heat"):
        command = [
            "from sciuq_runner.tools import predict; predict()",
            str(folder),
            "points.csv",
            "--quantity",
            quantity,
        ]
        found = subprocess.run(
            [program()[0], "-c", *command], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
        )
        assert found.returncode == 0, found.stderr
        lines = found.stdout.strip().splitlines()
        assert lines[0].startswith("t,x,mean,std")
        assert len(lines) == 3


@pytest.mark.cli
def test_a_killed_run_of_a_user_problem_is_resumed(cli, tmp_path):
    source = f"problem={copy_of('rod', tmp_path / 'source')}"
    settings = [source, "fidelity=smoke", "tracking=none", "checkpoint_interval=0.05", "method.n_samples=400"]
    undisturbed = cli(*settings)
    assert undisturbed.returncode == 0, undisturbed.stderr
    (reference,) = run_folders(tmp_path)
    process = subprocess.Popen(
        program(*settings), cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not (found := list(tmp_path.glob("runs/*/checkpoint.safetensors"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (path,) = found
    resumed = cli(f"resume={path.parent}")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "Going on after" in resumed.stdout
    ours, theirs = (read_tensors(folder / "samples.safetensors")[0]["theta"] for folder in (path.parent, reference))
    assert torch.equal(ours, theirs)


def test_files_of_one_name_are_two_problems(tmp_path):
    """And a name that would be read as a number or is taken gets another."""
    from sciuq_runner.composition import adopt_files

    paths = [tmp_path / name for name in ("a/rod.yaml", "b/rod.yaml", "1.yaml", "function.yaml")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("coordinates: {x: [0, 1]}\n")
    (found,) = adopt_files([f"problem={','.join(map(str, paths))}"])
    assert found == "problem=rod,rod_2,user_1,user_function"
    assert adopt_files([f"problem={paths[0]}"]) == ["problem=rod"]
