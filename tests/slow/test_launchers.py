"""Launchers that take long to start, and processes that die under them."""

from __future__ import annotations

import re

import pytest

from sciuq_runner.files import read_json
from tests.conftest import run_folders
from tests.test_sweeps import all_runs, call, check_family, database

pytestmark = [pytest.mark.slow, pytest.mark.cli]


def test_ray_runs_jobs_on_two_workers(tmp_path):
    """A real cluster of two workers on this machine; a job that fails stops neither the others nor the sweep."""
    sweep = ("fidelity=smoke", "method=dens", "gold=null", "sweep=ray", "sweep.cores=2")
    found = call(tmp_path, "-m", *sweep, "seed=range(0,4)")
    assert found.returncode == 0, found.stdout + found.stderr
    check_family(database(tmp_path), 4)
    failing = call(tmp_path, "-m", *sweep, "seed=0", "method.learning_rate=1e30,1e-3")
    assert failing.returncode == 1, failing.stdout + failing.stderr
    assert re.search(r"job 0 failed: .* try a smaller method.learning_rate", failing.stdout)
    assert len(run_folders(tmp_path)) == 5


MORTAL = """
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from sciuq_runner.methods.base import Method, Posterior


@dataclass(frozen=True)
class Mortal(Method):
    deadly: bool = False

    def run(self, target, generator, loop):
        for _ in loop.steps("drawing", 3):
            theta = target.init(8, generator)
        if self.deadly and not Path("died").exists():
            Path("died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Posterior(theta)
"""


def test_a_worker_that_is_killed_costs_its_job_a_second_start_and_others_nothing(tmp_path):
    (tmp_path / "mortal.py").write_text(MORTAL)
    (tmp_path / "mine" / "method").mkdir(parents=True)
    (tmp_path / "mine/method/mortal.yaml").write_text("# Dies once\n_target_: mortal.Mortal\ndeadly: false\n")
    mine = ("--config-dir", "mine", "method=mortal", "trust=[mortal]", "fidelity=smoke", "gold=null")
    found = call(tmp_path, "-m", *mine, "method.deadly=true,false", "seed=0,1", "sweep=local", "sweep.jobs=2")
    assert found.returncode == 0, found.stdout + found.stderr
    assert (tmp_path / "died").exists()
    assert "A process of the sweep died" in found.stdout
    assert len(run_folders(tmp_path)) == 4
    assert [run.info.status for run in all_runs(database(tmp_path))] == ["FINISHED"] * 5


def test_a_search_gets_better_and_is_resumed_by_its_proposals(tmp_path):
    search = ("-m", "fidelity=smoke", "method=dens", "gold=null", "tracking=none", "search=optuna", "search.trials=4")
    space = ("method.learning_rate=tag(log,interval(1e-5,1e-1))", "method.n_members=1,2")
    found = call(tmp_path, *search, *space)
    assert found.returncode == 0, found.stdout + found.stderr
    (record,) = tmp_path.glob("runs/*/sweep.json")
    rows = read_json(record)["jobs"]
    best = min(rows, key=lambda row: row["score"])
    assert f"best settings: {best['settings']}" in found.stdout
    assert len({row["settings"] for row in rows}) == 4
    again = call(tmp_path, *search, *space, "sweep.resume=true")
    assert again.returncode == 0, again.stdout + again.stderr
    resumed = read_json(record)["jobs"]
    assert {row["status"] for row in resumed} == {"finished before"}
    assert [(row["settings"], row["score"]) for row in resumed] == [(row["settings"], row["score"]) for row in rows]
