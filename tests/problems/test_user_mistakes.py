"""Every mistake in the YAML file of a problem, or in its data, has its sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sciuq_runner.errors import ConfigError
from tests.conftest import Inside
from tests.problems.conftest import SIMPLE, changed, problem, save, write


def spoil(folder: Path) -> None:
    """Files that cannot be used."""
    (folder / "mine.yaml").write_text("coordinates:\n")
    (folder / "nan.csv").write_text("t,x,u\n0,0,1\n0.5,0,nan\n")
    (folder / "text.csv").write_text("t,x,u\n0,0,1\n0.5,0,warm\n")
    (folder / "huge.csv").write_text("t,x,u\n0,0,1\n0.5,0,-1e39\n")
    save(folder / "huge.npz", t=np.zeros(2), x=np.zeros(2), u=np.array([1.0, 1e300]))
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("t,x,u\n")
    (folder / "twice.csv").write_text("t,x,u,u\n0,0,1,1\n")
    save(folder / "shapes.npz", t=np.zeros(3), x=np.zeros(3), u=np.zeros(4))


MISTAKES: list[tuple[dict[Any, Any], str]] = [  # with the key that the sentence begins with
    ({"fields": {"v": ["x"]}}, "problem.fields"),
    ({"pde": {"f": "u_x"}}, "problem.pde"),
    ({"coordinates.pi": [0, 1]}, "problem.coordinates"),
    ({"unknowns.sin": ["x"]}, "problem.unknowns"),
    ({"parameters.u": {"prior": "normal", "mean": 0, "std": 1}}, "problem.parameters.u"),
    ({"equations.x": "u"}, "problem.equations.x"),
    ({"equations.2nd": "u"}, "problem.equations"),
    ({"coordinates.value": [0, 1]}, "problem.coordinates.value"),
    ({"coordinates.xx": [0, 1]}, "problem.coordinates.xx"),
    ({"coordinates": {}}, "problem"),
    ({"coordinates": {True: [0, 1]}}, "problem.coordinates"),
    ({"coordinates.x": [1, -1]}, "problem.coordinates.x"),
    ({"coordinates.x": [0, 1, 2]}, "problem.coordinates.x"),
    ({"coordinates.x": [0, "one"]}, "problem.coordinates.x"),
    ({"coordinates.x": [0, float("inf")]}, "problem.coordinates.x"),
    ({"coordinates.x": 1}, "problem.coordinates.x"),
    ({"unknowns.u": ["t", "z"]}, "problem.unknowns.u"),
    ({"unknowns.u": "t, x"}, "problem.unknowns.u"),
    ({"unknowns.u": []}, "problem.unknowns.u"),
    ({"unknowns.u": ["x", "x"]}, "problem.unknowns.u"),
    ({"unknowns.v": ["x"]}, "problem.unknowns.v"),
    ({"parameters.k": 1.0}, "problem.parameters.k.prior"),
    ({"parameters.k": {"median": 1, "spread": 1}}, "problem.parameters.k.prior"),
    ({"parameters.k.prior": "lognorm"}, "problem.parameters.k.prior"),
    ({"parameters.k.prior": ["normal"]}, "problem.parameters.k.prior"),
    ({"parameters.k.median": -1}, "problem.parameters.k.median"),
    ({"parameters.k.spread": 0}, "problem.parameters.k.spread"),
    ({"parameters.k.spread": "wide"}, "problem.parameters.k.spread"),
    ({"parameters.k.spread": ...}, "problem.parameters.k.spread"),
    ({"parameters.k.std": 1}, "problem.parameters.k.std"),
    ({"parameters.k.reference": float("nan")}, "problem.parameters.k.reference"),
    ({"parameters.k.start": -1}, "problem.parameters.k.start"),
    ({"parameters.k": {"prior": "uniform", "low": 1, "high": 0}}, "problem.parameters.k"),
    ({"parameters.k": {"prior": "uniform", "low": 0, "high": 1, "start": 2}}, "problem.parameters.k.start"),
    ({"parameters.c": {"prior": "normal", "mean": 0, "std": 1}}, "problem.parameters.c"),
    ({"constants.D": "0.1 m"}, "problem.constants.D"),
    ({"constants.D": True}, "problem.constants.D"),
    ({"constants.u_x": 1}, "problem.constants.u_x"),
    ({"parameters.u_tx": {"prior": "normal", "mean": 0, "std": 1}}, "problem.parameters.u_tx"),
    ({"equations.heat": "u_t - D*u_xx + kk*u"}, "problem.equations.heat"),
    ({"equations.heat": "u_t - D*u_xx + k*w"}, "problem.equations.heat"),
    ({"equations.heat": "u_t - D*u_xy + k*q"}, "problem.equations.heat"),
    ({"equations.heat": "q_t + k*u"}, "problem.equations.heat"),
    ({"equations.heat": "u_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}, "problem.equations.heat"),
    ({"equations.heat": "u_value"}, "problem.equations.heat"),
    ({"equations.heat": "u_t = k*u"}, "problem.equations.heat"),
    ({"equations.heat": ""}, "problem.equations.heat"),
    ({"equations.heat": ["u_t"]}, "problem.equations.heat"),
    ({"equations.heat": "2*x + k"}, "problem.equations.heat"),
    ({"equations.heat": 0}, "problem.equations.heat"),
    ({"equations.heat": "u_t/(D - 0.1) + k*q"}, "problem.equations.heat"),
    ({"observed": {}}, "problem.observed"),
    ({"observed.v": {"value": 0, "noise": 0.1}}, "problem.observed.v"),
    ({"observed.flow": {"value": 0, "noise": 0.1}}, "problem.observed.flow"),
    ({"observed.u": "u.csv"}, "problem.observed.u"),
    ({"observed.u": {"noise": 0.1}}, "problem.observed.u"),
    ({"observed.u.value": 0}, "problem.observed.u"),
    ({"observed.u.points": 10}, "problem.observed.u"),
    ({"observed.heat.points": 0}, "problem.observed.heat.points"),
    ({"observed.left.at": {"t": 0, "x": -1}}, "problem.observed.left.points"),
    ({"observed.left.at": {"x": -1}, "observed.left.repeat": {"t": [0, 1]}}, "problem.observed.left.points"),
    ({"observed.heat.columns": {"t": "time"}}, "problem.observed.heat"),
    ({"observed.heat.values": 0}, "problem.observed.heat.values"),
    ({"observed.heat.value": "u"}, "problem.observed.heat.value"),
    ({"observed.heat.value": "k*x"}, "problem.observed.heat.value"),
    ({"observed.left.value": "log(t)"}, "problem.observed.left.value"),
    ({"observed.left.at": {"y": 0}}, "problem.observed.left"),
    ({"observed.left.at": {"x": -2}}, "problem.observed.left"),
    ({"observed.left.at": {"x": "left"}}, "problem.observed.left.at.x"),
    ({"observed.left.repeat": {"x": [0]}}, "problem.observed.left"),
    ({"observed.heat.repeat": {"x": []}}, "problem.observed.heat"),
    ({"observed.heat.drift": 0.1}, "problem.observed.heat"),
    ({"observed.u.drift": 0.1}, "problem.observed.u"),
    ({"observed.q.repeat": {"t": [0]}}, "problem.observed.q"),
    ({"observed.u.noise": ...}, "problem.observed.u.noise"),
    ({"observed.u.noise": 0}, "problem.observed.u.noise.scale"),
    ({"observed.u.noise": "known"}, "problem.observed.u.noise.scale"),
    ({"observed.u.noise": "heteroskedastic"}, "problem.observed.u.noise.kind"),
    ({"equations.left": "heat - u"}, "problem.equations.left"),
    ({"equations.left": "diff(u, x, x)"}, "problem.equations.left"),
    ({"observed.u.noise": "unknown"}, "problem.observed.u.noise"),
    ({"observed.q.noise": {"kind": "learned", "group": "prior"}}, "problem.observed.q.noise.group"),
    ({"coordinates.std": [0, 1]}, "problem.coordinates.std"),
    ({"observed.u.columns": {"u": "x"}}, "problem.observed.u.columns"),
    ({"observed.u.file": "~nobody_of_that_name/u.csv"}, "problem"),
    ({"observed.u.noise": "0.1"}, "problem.observed.u.noise"),
    ({"observed.u.noise": [0.1]}, "problem.observed.u.noise.scale"),
    ({"observed.u.noise": {"kind": "learned", "sigma": 1}}, "problem.observed.u.noise.sigma"),
    ({"observed.u.noise": {"scale": 0.1, "group": "all"}}, "problem.observed.u.noise.group"),
    ({"observed.u.noise": {"kind": "exact", "family": "student_t"}}, "problem.observed.u.noise.family"),
    ({"observed.u.noise": {"scale": 0.1, "degrees_of_freedom": 4}}, "problem.observed.u.noise.degrees_of_freedom"),
    (
        {"observed.u.noise": {"scale": 0.1, "family": "student_t", "degrees_of_freedom": 2}},
        "problem.observed.u.noise.degrees_of_freedom",
    ),
    ({"observed.u.noise": {"kind": "learned", "scale": 0.5, "group": "q"}}, "problem.observed.q.noise"),
    ({"observed.heat.noise": "heteroscedastic"}, "problem.observed.heat.noise.group"),
    ({"observed.q.noise": {"kind": "heteroscedastic", "group": "u"}}, "problem.observed.q.noise.group"),
    ({"observed.u.file": "none.csv"}, "problem.observed.u"),
    ({"observed.u.file": "mine.yaml"}, "problem.observed.u"),
    ({"observed.u.columns": {"u": "U"}}, "problem.observed.u"),
    ({"observed.u.columns": {"t": "time"}}, "problem.observed.u"),
    ({"observed.u.columns": {"y": "time"}}, "problem.observed.u.columns.y"),
    ({"observed.u.columns": {"u": 3}}, "problem.observed.u.columns.u"),
    ({"observed.u.file": "q.npz"}, "problem.observed.u"),
    ({"observed.u.file": "nan.csv"}, "problem.observed.u"),
    ({"observed.u.file": "text.csv"}, "problem.observed.u"),
    ({"observed.u.file": "huge.csv"}, "problem.observed.u"),
    ({"observed.u.file": "huge.npz"}, "problem.observed.u"),
    ({"observed.u.file": "empty.csv"}, "problem.observed.u"),
    ({"observed.u.file": "header.csv"}, "problem.observed.u"),
    ({"observed.u.file": "twice.csv"}, "problem.observed.u"),
    ({"observed.u.file": "shapes.npz"}, "problem.observed.u"),
    ({"coordinates.x": [-1, 0]}, "problem.observed.u"),
    ({"exact.v": "x"}, "problem.exact.v"),
    ({"exact.u": "k*x"}, "problem.exact.u"),
    ({"exact.u": "1/x**0.5"}, "problem.exact.u"),
    ({"exact.q": "t"}, "problem.exact.q"),
    ({"test.u": {"file": "u.csv", "noise": 0.1}}, "problem.test.u.noise"),
    ({"test.u": {"value": 0}}, "problem.test.u.value"),
    ({"test.w": {"file": "u.csv"}}, "problem.test.w"),
    ({"test.u": {"file": "none.npz"}}, "problem.test.u"),
    ({"grid.z": 3}, "problem.grid"),
    ({"grid.t": 1}, "problem.grid.t"),
    ({"grid.t": "many"}, "problem.grid.t"),
    ({"slices.end": {"y": 1}}, "problem.slices.end"),
    ({"slices.end": {"t": 2}}, "problem.slices.end"),
    ({"slices.end": {}}, "problem.slices.end"),
    ({"slices.end": 1}, "problem.slices.end"),
    ({"slices.id": {"t": 1}}, "problem.slices.id"),
    ({"probe.w": [0]}, "problem.probe.w"),
    ({"probe.u": [0.5]}, "problem.probe.u"),
    ({"probe.u": [2, 0]}, "problem.probe.u"),
    ({"hold_out": {"calibration": 8, "validation": 4}}, "problem.hold_out"),
    ({"hold_out": {"calibration": -1}}, "problem.hold_out.calibration"),
    ({"hold_out": {"callibration": 1}}, "problem.hold_out.callibration"),
    ({"observed.u.hold_out": {"calibration": 12}}, "problem.hold_out"),
    (
        {
            "hold_out": {"calibration": 1},
            "observed.u": {"value": 0, "noise": 0.1},
            "observed.q": {"value": 0, "noise": 0.1},
        },
        "problem.hold_out",
    ),
    ({"parameters": None}, "problem.equations.heat"),
    ({"equation": {}}, "problem.equation"),
    ({"observed": ...}, "problem.observed"),
]


def name_of(changes: dict[Any, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in changes.items())


@pytest.mark.parametrize(("changes", "key"), MISTAKES, ids=[name_of(changes) for changes, _ in MISTAKES])
def test_every_mistake_has_its_sentence(base, tmp_path, sentence, changes, key):
    spoil(tmp_path)
    with pytest.raises(ConfigError) as caught:
        problem(tmp_path, changed(base, changes)).dataset(np.random.default_rng(0))
    assert re.match(rf"{re.escape(key)}[ :=]", str(caught.value)), caught.value
    sentence(str(caught.value))


REFUSED = {
    "no file": (["problem=nowhere.yaml"], "", "problem=nowhere.yaml"),
    "a list": (["problem=./mine.yaml"], "- a\n- list\n", "mine.yaml"),
    "no setting": (["problem=mine.yaml"], SIMPLE.replace("unknowns", "unknown"), "problem.unknown"),
    "twice": (["problem=mine.yaml"], SIMPLE + "  u: {value: 0}\n", "mine.yaml"),
    "no YAML": (["problem=mine.yaml"], SIMPLE.replace("}", ""), "mine.yaml"),
    "no data": (["problem=mine.yaml"], SIMPLE.replace("data", "dat"), "dat.csv"),
    "name": (["problem=mine.yaml"], SIMPLE + "equations: {cost: u_x}\n", "cost"),
    "expression": (["problem=mine.yaml"], SIMPLE + "equations: {f: u_xx - a*u}\n", "problem.equations.f"),
    "no value": (
        ["problem=mine.yaml"],
        SIMPLE + "  f: {value: 0, points: 5, noise: exact}\nequations: {f: u_xx + u_x/x}\n",
        "equation of f",
    ),
    "noise": (["problem.observed.u.noise=-1", "problem=mine.yaml"], SIMPLE, "problem.observed.u.noise.scale=-1"),
    "calibration": (["calibration=var", "problem=mine.yaml"], SIMPLE, "calibration"),
}


@pytest.mark.cli
@pytest.mark.parametrize("name", REFUSED)
def test_the_program_refuses_a_file_in_one_sentence_and_leaves_nothing(inside: Inside, tmp_path, sentence, name):
    arguments, text, named = REFUSED[name]
    write(tmp_path, text)
    write(tmp_path, "x,u\n0,1\n1,2\n", "data.csv")
    before = sorted(tmp_path.iterdir())
    found = inside(*arguments, "fidelity=smoke")
    assert found.status == 2, found.out + found.err
    assert found.out == ""
    assert found.err.count("\n") == 1, found.err
    assert found.err.startswith("sciuq-run: ")
    assert named in found.err
    sentence(found.err)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"observed.heat.points": 10**12}, "problem.observed.heat.points=1000000000000"),
        ({"grid": {"t": 10**6, "x": 10**6}}, "problem.grid"),
    ],
)
def test_points_that_no_memory_holds_are_refused_before_they_are_made(base, tmp_path, changes, key):
    with pytest.raises(ConfigError) as found:
        problem(tmp_path, changed(base, changes)).dataset(np.random.default_rng(0))
    assert str(found.value).startswith(f"{key} is too large for the memory: 1000000000000 points take about 9")
