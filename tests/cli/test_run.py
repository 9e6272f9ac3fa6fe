"""The real program, in a process of its own, into a real SQLite MLflow."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from sciuq_runner.cli import plot
from sciuq_runner.evaluation.metrics_file import NOT_QUANTITIES
from tests.conftest import Cli, Inside, environment, program, read_metrics, run_folders, start

pytestmark = pytest.mark.cli

METRICS = {"rl2e", "mpl", "rmsce", "piw", "sdcv"}


def client(folder: Path) -> MlflowClient:
    return MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")


def runs(folder: Path) -> list:
    store = client(folder)
    return store.search_runs([store.get_experiment_by_name("sciuq").experiment_id])


def names(group: str) -> list[str]:
    return sorted(path.stem for path in (Path(__file__).parents[2] / "conf" / group).glob("*.yaml"))


PROBLEMS = ["function", *(name for name in names("problem") if name not in ("function", "operator"))]  # that needs data
METHODS = ["hmc", *(name for name in names("method") if name not in ("hmc", "gp"))]  # a GP is of functions only
DEALT = {name: METHODS[i :: len(PROBLEMS)] + ["gp"] * (i == 0) for i, name in enumerate(PROBLEMS)}
"""Some methods for each problem, so that every method has one."""


def test_every_method_is_dealt():
    assert sorted(name for dealt in DEALT.values() for name in dealt) == names("method")
    assert all(DEALT.values())


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_problem_and_every_method_leave_everything_behind(problem, cli, tmp_path):
    """With figures and MLflow, which take most of the time, for one problem."""
    whole = problem == "function"
    tracking = [] if whole else ["tracking=none"]
    for folder in sweep(problem, DEALT[problem], cli, tmp_path, f"figures={whole}", *tracking):
        assert (folder / "figures").exists() is whole
        if whole:
            check_figures(folder)
    if whole:
        check_mlflow(tmp_path, recorded_sweep(tmp_path, DEALT[problem])["hmc"])


@pytest.mark.full
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_sweep_of_every_method_leaves_everything_behind(problem, cli, tmp_path):
    """In MLflow, too. Figures are left out, and drawn later of two methods."""
    methods = METHODS + ["gp"] * (problem == "function")
    for folder in sweep(problem, methods, cli, tmp_path, "figures=false"):
        if read_metrics(folder)["config"]["choices"]["method"] in ("hmc", "dens"):
            with pytest.raises(SystemExit, match="0"):
                plot.main([str(folder)])
            check_figures(folder)
    recorded_sweep(tmp_path, methods)


def sweep(problem: str, methods: list[str], cli: Cli, tmp_path: Path, *settings: str) -> list[Path]:
    """One sweep; its run folders, with all files of the contract in each."""
    found = cli("-m", f"problem={problem}", f"method={','.join(methods)}", "fidelity=smoke", *settings)
    assert found.returncode == 0, found.stdout + found.stderr
    folders = run_folders(tmp_path)
    assert len(folders) == len(methods)
    for folder in folders:
        check_folder(folder)
    return folders


def recorded_sweep(tmp_path: Path, methods: list[str]) -> dict[str, Run]:
    """Parent and children of a sweep in MLflow; the children by their methods."""
    recorded = runs(tmp_path)
    parents = [run for run in recorded if "mlflow.parentRunId" not in run.data.tags]
    assert len(parents) == 1
    assert len(recorded) == len(methods) + 1
    assert {run.info.status for run in recorded} == {"FINISHED"}
    jobs = [run for run in recorded if run is not parents[0]]
    assert {run.data.tags["mlflow.parentRunId"] for run in jobs} == {parents[0].info.run_id}
    by_method = {run.data.tags["method"]: run for run in jobs}
    assert set(by_method) == set(methods)
    return by_method


@pytest.mark.full
@pytest.mark.parametrize(
    "settings",
    [
        ("problem=mixed_pde", "model=gan_fp", "method=hmc"),
        ("problem=forward_pde", "model=gp_pi_gan", "method=hmc"),
        ("problem=spde", "model=nnpc_plus", "method=dens"),
        ("problem=spde", "model=pi_gan", "method=dens"),
        ("problem=darcy", "model=fno", "method=dens"),
        ("problem=darcy", "problem.case=noisy", "model=pa_gp_fp", "method=hmc"),  # others are in test_operator_runs.py
    ],
    ids=" ".join,
)
def test_other_models_leave_everything_behind(settings, cli, tmp_path):
    found = cli(*settings, "fidelity=smoke")
    assert found.returncode == 0, found.stdout + found.stderr
    (folder,) = run_folders(tmp_path)
    check_folder(folder)
    check_figures(folder)


@pytest.mark.full
def test_a_learned_prior_is_made_once_and_serves_other_methods(cli, tmp_path):
    """Pre-trained by the first job of a sweep, found by the others; from MLflow where the folder is gone."""
    methods = ["dens", "hmc", "la", "mfvi"]
    settings = ("problem.case=heteroscedastic", "model=gan_fp", "fidelity=smoke")
    found = cli("-m", *settings, f"method={','.join(methods)}")
    assert found.returncode == 0, found.stdout + found.stderr
    folders = run_folders(tmp_path)
    for folder in folders:
        check_folder(folder)
        assert (folder / "figures" / "prior.png").exists()
    assert sorted(read_metrics(folder)["pretraining"]["reused"] for folder in folders) == [0] + [1] * (len(methods) - 1)
    shutil.rmtree(tmp_path / "pretrained")
    again = cli(*settings, "method=hmc", "seed=1")
    assert again.returncode == 0, again.stderr
    assert "Pre-training was done before" in again.stdout


def test_a_method_that_cannot_serve_a_problem_says_so(inside: Inside, tmp_path):
    found = inside("problem=mixed_pde", "method=gp", "fidelity=smoke")
    assert found.status == 2
    assert "method=gp is for function approximation" in found.err
    assert "Traceback" not in found.err
    assert not list(tmp_path.iterdir())


def check_folder(folder: Path) -> None:
    found = read_metrics(folder)
    assert {"noise", "parameters", "diagnostics", "cost", "config"} <= set(found)
    quantities = set(found) - set(NOT_QUANTITIES)
    assert ("baselines" in found) == ("detection" in found) == (folder / "detection.npz").exists()
    assert {"train_s", "total_s", "grad_evals", "peak_rss_mb"} == set(found["cost"])
    with np.load(folder / "predictions.npz", allow_pickle=False) as arrays:
        for q in quantities:
            for values in found[q].values():
                assert set(values) >= METRICS
                assert all(np.isfinite(list(values.values())))
            for name in ("x", "mean", "aleatoric_std", "epistemic_std", "reference", "train_x", "train_y"):
                assert np.isfinite(arrays[f"{q}_{name}"]).all()
            assert len(arrays[f"{q}_mean"]) == len(arrays[f"{q}_x"])
    assert (folder / "samples.safetensors").stat().st_size > 500
    assert (folder / ".hydra" / "config.yaml").exists()
    assert "unknowns" in (folder / "run.log").read_text()
    assert not list(folder.rglob("*.partial*"))


def check_figures(folder: Path) -> None:
    figures = {path.name for path in (folder / "figures").glob("*.png")}
    with np.load(folder / "predictions.npz", allow_pickle=False) as arrays:
        for q in set(read_metrics(folder)) - set(NOT_QUANTITIES):
            assert (f"{q}.png" if str(arrays[f"{q}_statistic_of"]) else f"{q}_calibration.png") in figures


def check_mlflow(folder: Path, run) -> None:
    assert run.data.metrics["u/id/rl2e"] > 0
    assert run.data.params["method"] == "hmc"
    assert run.data.params["method.n_leapfrog"] == "5"
    assert run.data.tags["fidelity"] == "smoke"
    assert {"problem", "case", "model", "calibration", "seed", "git_commit"} <= set(run.data.tags)
    artifacts = {item.path for item in client(folder).list_artifacts(run.info.run_id)}
    assert {
        "metrics.json",
        "predictions.npz",
        "figures",
        "samples.safetensors",
        ".hydra",
        "run.log",
    } <= artifacts
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    model = mlflow.pyfunc.load_model(f"runs:/{run.info.run_id}/model")
    points = pd.DataFrame({"x": np.linspace(-1, 1, 5)})
    table = model.predict(points)
    assert {"mean", "std", "lower", "upper"} <= set(table.columns)
    np.testing.assert_allclose(table["upper"] - table["mean"], 1.959964 * table["std"], rtol=1e-5)
    own = next(f for f in run_folders(folder) if read_metrics(f)["config"]["choices"]["method"] == "hmc")
    with np.load(own / "predictions.npz") as arrays:
        every = np.searchsorted(arrays["u_x"][:, 0], points["x"] - 1e-9)
        np.testing.assert_allclose(table["mean"], arrays["u_mean"][every, 0], rtol=1e-4, atol=1e-5)
    assert not [path for path in (folder / "mlartifacts").rglob("*") if path.suffix in (".pkl", ".py", ".pt")]


def test_same_seed_same_numbers_and_other_seed_others(cli, inside: Inside, tmp_path):
    """In another process, too."""
    settings = ("fidelity=smoke", "tracking=none", "figures=false")
    found = cli(*settings, "seed=3")
    assert found.returncode == 0, found.stderr
    for seed in (3, 4):
        assert inside(*settings, f"seed={seed}").status == 0
    first, again, other = (read_metrics(folder) for folder in sorted(run_folders(tmp_path), key=started))
    for metrics in (first, again, other):
        metrics.pop("cost")
    assert json.dumps(first, sort_keys=True) == json.dumps(again, sort_keys=True)
    assert first["u"] != other["u"]
    assert not (tmp_path / "mlflow.db").exists()


def started(folder: Path) -> float:
    return (folder / ".hydra" / "config.yaml").stat().st_mtime


def test_the_last_lines_say_metrics_folder_and_how_to_compare(inside: Inside, tmp_path):
    found = inside("fidelity=smoke", "method=dens", "figures=false", "gold=null")
    lines = found.out.strip().splitlines()
    assert re.search(r"u\s+│ id\s+│", found.out)
    assert lines[-2].startswith("results: ")
    assert Path(lines[-2].removeprefix("results: ")).is_dir()
    assert re.match(r"compare runs: .*mlflow ui --backend-store-uri '?sqlite:///", lines[-1])
    assert "training 100/100 loss=" in found.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["method=hmcc"],
        ["problem.n_train=one"],
        ["-m", "method=hmc,dens", "method.n_burn=-1,5"],
        ["--config-dir", "nowhere"],
        ["temperature=inf"],
        ["--config-name", "nope"],
        ["method=hmc", "--nope"],
        ["-sc", "foo"],
        ["-sc", "install=foo"],
        ["method=gp", "problem.case=unknown"],
        ["method=dens", "temperature=0.5"],
    ],
    ids=" ".join,
)
def test_mistakes_end_in_one_sentence_and_leave_nothing(inside: Inside, tmp_path, sentence, arguments):
    sentence(refusal(inside, tmp_path, arguments))


@pytest.mark.parametrize(
    "arguments",
    [["device=cuda"], ["tracking.uri=sqlite:////dev/null/all.db"], ["method=hmc", "--cfg", "nope"]],
    ids=" ".join,
)
def test_mistakes_that_depend_on_the_machine_end_so_too(inside: Inside, tmp_path, arguments):
    assert arguments[-1] in refusal(inside, tmp_path, arguments)


def refusal(inside: Inside, tmp_path: Path, arguments: list[str]) -> str:
    """The one sentence with which the program refuses."""
    found = inside(*arguments) if arguments[0].startswith("--") else inside(*arguments, "fidelity=smoke")
    assert found.status == 2
    assert found.out == ""
    assert found.err.count("\n") == 1, found.err
    assert found.err.startswith("sciuq-run: ")
    assert not list(tmp_path.iterdir())
    return found.err


@pytest.mark.parametrize("arguments", [["problem.n_train=one"], ["method=hmc", "--nope"]], ids=" ".join)
def test_a_process_of_its_own_ends_so_too(cli, tmp_path, arguments):
    found = cli(*arguments)
    assert found.returncode == 2
    assert found.stdout == ""
    assert found.stderr.count("\n") == 1, found.stderr
    assert found.stderr.startswith("sciuq-run: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.full
def test_two_first_runs_at_once_both_arrive(tmp_path):
    started = [
        subprocess.Popen(
            program("fidelity=smoke", "method=dens", "figures=false", f"seed={seed}"),
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for seed in (0, 1)
    ]
    for process in started:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
    assert {run.data.tags["seed"] for run in runs(tmp_path)} == {"0", "1"}
    assert {run.info.status for run in runs(tmp_path)} == {"FINISHED"}
    assert len(run_folders(tmp_path)) == 2


@pytest.mark.full
def test_ctrl_c_keeps_what_was_computed(tmp_path):
    process = start(tmp_path, "fidelity=smoke", "method.n_samples=40000", "method.compile=never", "figures=false")
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith("sampling"):
            break
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=300)
    assert process.returncode == 130, "".join(seen) + rest
    assert "Stopped early" in rest
    (folder,) = run_folders(tmp_path)
    check_folder(folder)
    (run,) = runs(tmp_path)
    assert run.info.status == "KILLED"
    assert run.data.metrics["u/id/rl2e"] > 0


PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
import torch
from sciuq_runner.methods.base import Method
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.physics.problem import FieldSpec, Noise, PointObservations, Problem, QuantityData


@dataclass(frozen=True)
class Sine(Problem):
    frequency: float = 3.0
    fields: ClassVar = {"v": FieldSpec(("t",))}

    @property
    def noise(self):
        return {"v": Noise("known", 0.1)}

    @property
    def n_calibration_points(self):
        return 5

    def observe(self, quantity, unknowns, x):
        return unknowns[quantity](x)

    def dataset(self, rng):
        def read(n):
            t = np.linspace(0, 1, n)[:, None]
            return PointObservations(t, np.sin(self.frequency * t) + 0.1 * rng.standard_normal(t.shape))
        test = read(50)
        everywhere = np.ones(50, dtype=bool)
        splits = {"id": everywhere}
        reference = np.sin(self.frequency * test.x)
        return {"v": QuantityData(read(10), test, reference, splits, read(5), read(0), ("t",))}


@dataclass(frozen=True)
class PriorDraws(Method):
    n_samples: int = 8

    def run(self, target, generator, loop):
        for _ in loop.steps("drawing", 3):
            theta = target.init(self.n_samples, generator)
        return Posterior(theta)
"""


@pytest.mark.full
def test_a_new_problem_and_a_new_method_need_no_change_of_the_package(cli, tmp_path):
    (tmp_path / "my_science.py").write_text(PLUGIN)
    (tmp_path / "mine" / "problem").mkdir(parents=True)
    (tmp_path / "mine" / "method").mkdir()
    (tmp_path / "mine/problem/sine.yaml").write_text("# A sine\n_target_: my_science.Sine\nfrequency: 2.0\n")
    (tmp_path / "mine/method/prior.yaml").write_text("# Draws\n_target_: my_science.PriorDraws\nn_samples: 8\n")
    mine = ["--config-dir", "mine", "problem=sine", "method=prior"]
    refused = cli(*mine)
    assert refused.returncode == 2
    assert "add trust=[my_science]" in refused.stderr
    found = cli(*mine, "trust=[my_science]", "method.n_samples=12")
    assert found.returncode == 0, found.stderr
    (folder,) = run_folders(tmp_path)
    assert read_metrics(folder)["v"]["id"]["rl2e"] > 0
    wrong = cli(*mine, "trust=[my_science]", "problem.frequncy=1")
    assert "did you mean 'problem.frequency'?" in wrong.stderr
    (tmp_path / "mine/experiment").mkdir()
    (tmp_path / "mine/experiment/sneaky.yaml").write_text("# @package _global_\ntrust: [my_science]\n")
    sneaky = cli(*mine, "experiment=sneaky")
    assert sneaky.returncode == 2
    assert "command line only" in sneaky.stderr
    assert "A sine" not in cli("--help").stdout
    assert "Draws" in cli("--help", "--config-dir", "mine").stdout


def test_flags_may_stand_behind_settings(inside: Inside, tmp_path):
    found = inside("fidelity=smoke", "method=gp", "-m", "seed=0,1", "tracking=none", "figures=false")
    assert found.status == 0, found.err
    assert len(run_folders(tmp_path)) == 2


def test_hydras_own_options_work(cli, tmp_path):
    shown = cli("--cfg", "job", "method=dens")
    assert shown.returncode == 0
    assert "n_members: 10" in shown.stdout
    info = cli("--info", "defaults")
    assert info.returncode == 0
    assert "method/hmc" in info.stdout
    completion = cli("-sc", "query=bash", env={"COMP_LINE": "sciuq-run method=", "COMP_POINT": "17"})
    assert {"method=dens", "method=hmc"} <= set(completion.stdout.split())
    assert cli("--cfg", "job", "method=densx").returncode == 2
    assert not (tmp_path / "runs").exists()


def test_numbers_that_go_wrong_stop_the_run_with_a_sentence(inside: Inside, tmp_path):
    found = inside("fidelity=smoke", "method=dens", "method.learning_rate=1e30")
    assert found.status == 1
    assert "try a smaller method.learning_rate" in found.out
    assert "Traceback" not in found.out + found.err
    (run,) = runs(tmp_path)
    assert run.info.status == "FAILED"


@pytest.mark.full
def test_ctrl_c_ends_a_whole_sweep(tmp_path):
    process = start(tmp_path, "-m", "fidelity=smoke", "method.n_samples=40000", "method.compile=never", "seed=0,1,2")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("sampling"):
            break
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=300)
    assert process.returncode == 130, rest
    assert [run.info.status for run in runs(tmp_path)] == ["KILLED", "KILLED"]  # the job and its parent


def test_a_failing_job_does_not_stop_the_others(inside: Inside, tmp_path):
    found = inside("-m", "fidelity=smoke", "method=dens", "figures=false", "method.learning_rate=1e30,1e-3")
    assert found.status == 1
    assert sorted(run.info.status for run in runs(tmp_path)) == ["FAILED", "FAILED", "FINISHED"]
    assert len(run_folders(tmp_path)) == 1


def test_a_folder_that_holds_a_run_is_not_used_again(inside: Inside, finished, tmp_path):
    shutil.copytree(finished, tmp_path / "here")
    before = (tmp_path / "here" / "metrics.json").read_text()
    again = inside("fidelity=smoke", "method=dens", "tracking=none", "hydra.run.dir=here", "seed=1")
    assert again.status == 2
    assert "already holds a run" in again.err
    assert (tmp_path / "here" / "metrics.json").read_text() == before


def test_a_database_that_is_none_is_refused_before_any_work(inside: Inside, tmp_path):
    (tmp_path / "mlflow.db").write_text("this is not a database")
    refused = inside("fidelity=smoke", "method=dens")
    assert refused.status == 2
    assert "tracking=none" in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.full
def test_without_a_compiler_the_run_goes_on_and_says_so(cli, tmp_path):
    empty = tmp_path / "cache"
    env = {
        "CXX": "/no/such/compiler",
        "TORCHINDUCTOR_CACHE_DIR": str(empty),
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    }
    found = cli("fidelity=smoke", "method.compile=always", "tracking=none", "figures=false", env=env)
    assert found.returncode == 0, found.stderr
    assert "going on in eager mode" in found.stdout


def test_a_terminal_gets_a_bar(tmp_path):
    """Under a pseudo-terminal the progress is drawn in place, with the numbers that matter."""
    import os
    import pty

    leader, follower = pty.openpty()
    process = subprocess.Popen(
        program("fidelity=smoke", "tracking=none", "figures=false", "gold=null"),
        cwd=tmp_path,
        env=environment(TERM="xterm", COLUMNS="120"),
        stdout=follower,
        stderr=follower,
        close_fds=True,
    )
    os.close(follower)
    shown = b""
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        try:
            part = os.read(leader, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert process.wait(timeout=60) == 0
    text = shown.decode(errors="replace")
    assert "━" in text
    assert "accept=" in text
    assert "step_size=" in text
