"""Launchers that take long to start, and processes that die under them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from sciuq_runner.files import read_json
from tests.conftest import run_folders
from tests.sweeps.test_sweeps import all_runs, call, check_family, database

pytestmark = [pytest.mark.slow, pytest.mark.cli]


MORTAL = """
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from threadpoolctl import threadpool_info
from sciuq_runner.methods.base import Method
from sciuq_runner.methods.posterior import Posterior


@dataclass(frozen=True)
class Mortal(Method):
    dies: str = "never"
    waits: float = 0.0

    def run(self, target, generator, loop):
        deaths = len(list(Path.cwd().glob("death_*")))
        threads = max(pool["num_threads"] for pool in threadpool_info())
        Path(f"start_{self.dies}_{os.getpid()}_{time.monotonic_ns()}").write_text(str(threads))
        for _ in loop.steps("drawing", 3):
            theta = target.init(8, generator)
        if self.dies == "always" or (self.dies == "once" and not deaths):
            Path(f"death_{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.waits)
        return Posterior(theta)
"""


@pytest.fixture
def mortal(tmp_path: Path) -> tuple[str, ...]:
    """Settings of a method that can die, and that leaves a file for each of its starts."""
    (tmp_path / "mortal.py").write_text(MORTAL)
    (tmp_path / "mine" / "method").mkdir(parents=True)
    (tmp_path / "mine/method/mortal.yaml").write_text("# Dies\n_target_: mortal.Mortal\ndies: never\nwaits: 0.0\n")
    return ("--config-dir", "mine", "method=mortal", "trust=[mortal]", "fidelity=smoke", "gold=null")


def test_ray_runs_jobs_on_two_workers(mortal, tmp_path):
    """A real cluster of two workers on this machine; a job that fails stops neither the others nor the sweep."""
    ray = ("sweep=ray", "sweep.cores=2")
    found = call(tmp_path, "-m", *mortal, *ray, "seed=range(0,4)", "method.waits=2")
    assert found.returncode == 0, found.stdout + found.stderr
    check_family(database(tmp_path), 4)
    starts = list(tmp_path.glob("start_*"))
    assert len(starts) == 4
    assert len({path.name.split("_")[2] for path in starts}) == 2
    assert {path.read_text() for path in starts} == {"1"}  # threads
    dens = ("fidelity=smoke", "method=dens", "gold=null", "method.learning_rate=1e30,1e-3")
    failing = call(tmp_path, "-m", *dens, *ray)
    assert failing.returncode == 1, failing.stdout + failing.stderr
    assert re.search(r"job 0 failed: .* try a smaller method.learning_rate", failing.stdout)
    assert len(run_folders(tmp_path)) == 5


def test_a_worker_that_is_killed_costs_its_job_a_second_start_and_others_nothing(mortal, tmp_path):
    found = call(tmp_path, "-m", *mortal, "method.dies=once,never", "seed=0", "sweep=local", "sweep.jobs=2")
    assert found.returncode == 0, found.stdout + found.stderr
    assert len(list(tmp_path.glob("death_*"))) == 1
    assert "A process of the sweep died" in found.stdout
    assert len(run_folders(tmp_path)) == 2
    assert [run.info.status for run in all_runs(database(tmp_path))] == ["FINISHED"] * 3
    assert {path.read_text() for path in tmp_path.glob("start_*")} == {"1"}  # threads


def test_a_job_that_always_dies_does_not_keep_others_from_their_end(mortal, tmp_path):
    """joblib ends all processes with it, and it is the first of all."""
    sweep = ("method.dies=always,never", "seed=range(0,2)", "sweep=local", "sweep.jobs=2", "tracking=none")
    found = call(tmp_path, "-m", *mortal, *sweep)
    assert found.returncode == 1, found.stdout + found.stderr
    assert found.stdout.count("failed: its process died at each of 3 starts.") == 2
    assert found.stdout.count("│ finished │") == 2
    assert len(run_folders(tmp_path)) == 2
    assert len(list(tmp_path.glob("start_always_*"))) == 6


def test_submitit_starts_nothing_again_that_still_works(mortal, tmp_path):
    """The first job dies at once, three times; the other is not submitted again meanwhile."""
    sweep = ("method.dies=always,never", "method.waits=15", "sweep=slurm_local", "tracking=none")
    found = call(tmp_path, "-m", *mortal, *sweep)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "job 0 failed: its process died at each of 3 starts." in found.stdout
    assert len(list(tmp_path.glob("start_never_*"))) == 1
    assert len(list(tmp_path.glob("runs/*/.submitit/*/*_submitted.pkl"))) == 4


SLURM = """#!{python}
# Stands for the commands of SLURM: sbatch starts the tasks of an array at once, and keeps what it was asked for.
import os, pathlib, re, subprocess, sys

name, arguments = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
if name == "sbatch":
    text = pathlib.Path(arguments[0]).read_text()
    pathlib.Path("{asked}").write_text(text)
    first, last = map(int, re.search("--array=([0-9]+)-([0-9]+)", text).groups())
    for task in range(first, last + 1):
        numbers = dict(ARRAY_JOB_ID=7, ARRAY_TASK_ID=task, JOB_ID=8 + task, JOB_NUM_NODES=1, NTASKS=1)
        numbers |= dict(LOCALID=0, PROCID=0, NODEID=0, JOB_NODELIST="here")
        own = {{"SLURM_" + key: str(value) for key, value in numbers.items()}}
        quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.Popen(["bash", "-c", text], env={{**os.environ, **own}}, **quiet)  # of the text as it is now
    print("Submitted batch job 7")
elif name == "srun":  # --unbuffered --output FILE COMMAND
    os.execv(arguments[3], arguments[3:])
elif name == "sacct":
    print("JobID|State|NodeList")
"""


def test_slurm_is_asked_for_what_the_settings_say(tmp_path):
    """By submitit itself, with a stand-in for the commands of SLURM: one array, and every task a job of the sweep."""
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "sbatch").write_text(SLURM.format(python=sys.executable, asked=tmp_path / "asked"))
    (commands / "sbatch").chmod(0o755)
    for name in ("srun", "sacct"):
        (commands / name).symlink_to("sbatch")
    settings = ("fidelity=smoke", "method=dens", "gold=null", "seed=0,1", "sweep=slurm")
    own = ("sweep.memory_gb=3", "sweep.minutes=17", "threads=1", "sweep.jobs=5", "hydra.launcher.partition=short")
    found = call(tmp_path, "-m", *settings, *own, PATH=f"{commands}:{os.environ['PATH']}")
    assert found.returncode == 0, found.stdout + found.stderr
    check_family(database(tmp_path), 2)
    asked = set(re.findall("^#SBATCH --(.*)$", (tmp_path / "asked").read_text(), re.MULTILINE))
    assert asked >= {"array=0-1%2", "cpus-per-task=1", "mem=3GB", "time=17", "partition=short"}, asked


def test_without_slurm_there_is_one_sentence(tmp_path):
    found = call(
        tmp_path, "-m", "fidelity=smoke", "method=dens", "gold=null", "tracking=none", "seed=0,1", "sweep=slurm"
    )
    assert found.returncode == 2, found.stdout + found.stderr
    assert re.fullmatch(r"sciuq-run: sweep=slurm could not start a job \(.*\): choose .*\n", found.stderr), found.stderr
    assert "Sweep" not in found.stdout


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
