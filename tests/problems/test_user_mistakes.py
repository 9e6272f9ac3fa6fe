"""Every mistake in the YAML file of a problem, or in its data, has its sentence."""

from __future__ import annotations

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


MISTAKES: list[tuple[dict[Any, Any], str]] = [
    ({"fields": {"v": ["x"]}}, "problem.fields is not a setting of problem: did you mean 'unknowns'?"),
    ({"pde": {"f": "u_x"}}, "problem.pde is not a setting of problem: did you mean 'equations'?"),
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
    (
        {"coordinates": {True: [0, 1]}},
        "problem.coordinates has a name that YAML reads as True: put the name in quotes, such as 'on'.",
    ),
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
    ({"coordinates.x": 1}, "problem.coordinates.x=1 is not valid: it should be a list in square brackets."),
    ({"unknowns.u": ["t", "z"]}, "problem.unknowns.u: z is no coordinate: choose one of t, x"),
    (
        {"unknowns.u": "t, x"},
        "problem.unknowns.u='t, x' is not valid: it should be a list in square brackets: write [t, x].",
    ),
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
        "too high an order: the highest is 10.",
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
    ({"equations.heat": ["u_t"]}, "problem.equations.heat=['u_t'] is not valid: it should be a text."),
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
        {"observed.left.at": {"t": 0, "x": -1}},
        "problem.observed.left.points=5 has no meaning where no coordinate is left free: leave it out, or fix fewer.",
    ),
    (
        {"observed.left.at": {"x": -1}, "observed.left.repeat": {"t": [0, 1]}},
        "problem.observed.left.points=5 has no meaning where no coordinate is left free: leave it out, or fix fewer.",
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
        "problem.observed.left.at.x='left' is not valid: it should be a valid number.",
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
    (
        {"equations.left": "heat - u"},
        "problem.equations.left: 'heat' at column 1 is an equation, which cannot be used in another one or in itself: "
        "write out what it stands for.",
    ),
    (
        {"equations.left": "diff(u, x, x)"},
        "problem.equations.left: 'diff' at column 1 is not a function: derivatives are written like u_xx.",
    ),
    ({"observed.u.noise": "unknown"}, "problem.observed.u.noise: noise of an unknown scale is of kind learned."),
    (
        {"observed.q.noise": {"kind": "learned", "group": "prior"}},
        "problem.observed.q.noise.group should have another name than 'prior', under which the scale of the weights is "
        "found: q_noise, say.",
    ),
    (
        {"coordinates.std": [0, 1]},
        "problem.coordinates.std is the name of a column of predictions: rename it.",
    ),
    (
        {"observed.u.columns": {"u": "x"}},
        "problem.observed.u.columns: the column 'x' cannot be x and u at once: name the column of each.",
    ),
    (
        {"observed.u.file": "~nobody_of_that_name/u.csv"},
        "problem: file=~nobody_of_that_name/u.csv is in the home folder of a user who is not known here: write the "
        "whole path.",
    ),
    ({"observed.u.noise": "0.1"}, "problem.observed.u.noise='0.1' is a text: write the number without quotes."),
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
        "be the same for both; give them where units differ.",
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
        "problem.observed.u.columns.u=3 is not valid: it should be a text.",
    ),
    ({"observed.u.file": "q.npz"}, "problem.observed.u: q.npz has no array t: choose one of q, x"),
    ({"observed.u.file": "nan.csv"}, "problem.observed.u: nan.csv has nan in line 3, column u: remove the line."),
    (
        {"observed.u.file": "text.csv"},
        "problem.observed.u: text.csv has 'warm' in line 3, column u: it should be a number.",
    ),
    (
        {"observed.u.file": "huge.csv"},
        "problem.observed.u: huge.csv has -1e39 in line 3, column u: its square is more than single precision holds: "
        "write it in other units.",
    ),
    (
        {"observed.u.file": "huge.npz"},
        "problem.observed.u: huge.npz: u has a value of 1e+300: its square is more than single precision holds: write "
        "it in other units.",
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
    ({"slices.end": 1}, "problem.slices.end=1 is not valid: it should be names with values (a: b)."),
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
    (  # nothing below a key is as good as no key
        {"parameters": None},
        "problem.equations.heat: 'k' at column 16 is not known: choose one of D, e, pi, q, t, u, x",
    ),
    ({"equation": {}}, "problem.equation is not a setting of problem: did you mean 'equations'?"),
    ({"observed": ...}, "problem.observed is missing."),
]


@pytest.mark.parametrize(("changes", "sentence"), MISTAKES, ids=[str(list(item[0].items()))[:60] for item in MISTAKES])
def test_every_mistake_has_its_sentence(base, tmp_path, changes, sentence):
    spoil(tmp_path)
    with pytest.raises(ConfigError) as caught:
        problem(tmp_path, changed(base, changes)).dataset(np.random.default_rng(0))
    assert str(caught.value).replace(f"{tmp_path}/", "") == sentence


REFUSED = {
    "problem=nowhere.yaml": ("", "problem=nowhere.yaml is not there"),
    "problem=./mine.yaml": ("- a\n- list\n", "mine.yaml should describe a problem"),
    "problem=mine.yaml": (SIMPLE.replace("unknowns", "unknown"), "problem.unknown is not a setting of problem"),
    "problem=mine.yaml ": (SIMPLE + "  u: {value: 0}\n", "mine.yaml is not valid YAML"),
    "problem=mine.yaml  ": (SIMPLE.replace("}", ""), "mine.yaml is not valid YAML"),
    "problem=mine.yaml   ": (SIMPLE.replace("data", "dat"), "dat.csv does not exist"),
    "problem=mine.yaml    ": (SIMPLE + "equations: {cost: u_x}\n", "a quantity cannot be called cost"),
    "problem=mine.yaml     ": (SIMPLE + "equations: {f: u_xx - a*u}\n", "'a' at column 8 is not known"),
    "problem=mine.yaml      ": (
        SIMPLE + "  f: {value: 0, points: 5, noise: exact}\nequations: {f: u_xx + u_x/x}\n",
        "the equation of f has no value at x = 0, one of its readings",
    ),
    "problem.observed.u.noise=-1 problem=mine.yaml": (SIMPLE, "problem.observed.u.noise.scale=-1 is not valid"),
    "calibration=var problem=mine.yaml": (SIMPLE, "needs calibration readings, and the problem has none"),
}


@pytest.mark.cli
@pytest.mark.parametrize("arguments", REFUSED)
def test_the_program_refuses_a_file_in_one_sentence_and_leaves_nothing(inside: Inside, tmp_path, arguments):
    text, sentence = REFUSED[arguments]
    write(tmp_path, text)
    write(tmp_path, "x,u\n0,1\n1,2\n", "data.csv")
    before = sorted(tmp_path.iterdir())
    found = inside(*arguments.split(), "fidelity=smoke")
    assert found.status == 2, found.out + found.err
    assert found.out == ""
    assert found.err.count("\n") == 1, found.err
    assert found.err.startswith("sciuq-run: ")
    assert sentence in found.err
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
