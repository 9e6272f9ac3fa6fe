"""Shared by the tests of problems from YAML files: how one is made, and two of them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io
from sciuq_runner.problems.user import UserProblem

from sciuq_runner.physics.problem import Problem
from sciuq_runner.schema import build

TARGET = "sciuq_runner.problems.user.UserProblem"

SIMPLE = """
coordinates: {x: [0, 1]}
unknowns: {u: [x]}
observed:
  u: {file: data.csv, noise: 0.1}
"""


def problem(folder: Path, node: dict[str, Any]) -> UserProblem:
    """The problem of a YAML file in ``folder``, as the command line makes it."""
    return build({"_target_": TARGET, **node, "file": str(folder / "mine.yaml")}, "problem", Problem)


def save(path: Path, **columns: np.ndarray) -> None:
    if path.suffix == ".csv":
        pd.DataFrame(columns).to_csv(path, index=False, float_format="%.17g")
    elif path.suffix == ".npz":
        np.savez(path, **columns)
    else:
        scipy.io.savemat(path, columns)


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    (folder / name).write_text(text)
    return folder / name


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
