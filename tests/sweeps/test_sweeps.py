"""Sweeps of the real program: side by side, killed and resumed, with failures, on other stores and launchers."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from mlflow import MlflowClient
from omegaconf import OmegaConf
from threadpoolctl import threadpool_info, threadpool_limits

from sciuq_runner.cli.run import main
from sciuq_runner.config.compose import register_resolvers
from sciuq_runner.config.environment import NOTES_VARIABLE
from sciuq_runner.errors import ConfigError
from sciuq_runner.files import read_json, write_json
from sciuq_runner.runs.pipeline import share_threads
from sciuq_runner.runs.resume import Origin, digest
from sciuq_runner.sweeps.earlier import find_sweep, index, locked
from sciuq_runner.sweeps.launcher import Launcher
from sciuq_runner.sweeps.notes import BEGINNING, Note, leave
from sciuq_runner.sweeps.request import read_sweep
from sciuq_runner.sweeps.run import notes_in
from sciuq_runner.sweeps.sweep import Sweep
from sciuq_runner.tracking.tracker import Tracker
from sciuq_runner.training.autodiff import workers
from tests.conftest import Inside, environment, program, read_metrics, run_folders

ROOT = Path(__file__).parents[2]
SETTINGS = ("fidelity=smoke", "method.compile=never", "gold=null", "checkpoint_interval=0.05")


def call(folder: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run the real program in ``folder`` to its end."""
    command = program(*arguments)
    return subprocess.run(
        command, cwd=folder, env=environment(**extra), capture_output=True, text=True, timeout=900, check=False
    )


def kill_when(folder: Path, ready: Callable[[], object], *arguments: str) -> int:
    """Start the real program in ``folder`` and kill it, and it alone, when ``ready()`` is true; how it ended."""
    with open(folder / "killed.log", "a") as log:
        process = subprocess.Popen(program(*arguments), cwd=folder, env=environment(), stdout=log, stderr=log)
        deadline = time.monotonic() + 300
        while not ready() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        return process.wait()


def all_runs(uri: str) -> list[Any]:
    store = MlflowClient(uri)
    return list(store.search_runs([store.get_experiment_by_name("sciuq").experiment_id], max_results=1000))


def check_family(uri: str, seeds: int) -> None:
    """One parent, one child for every seed, and all of them finished."""
    runs = all_runs(uri)
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in runs if run not in parents]
    assert [run.info.status for run in runs] == ["FINISHED"] * (seeds + 1)
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}
    assert sorted(int(run.data.tags["seed"]) for run in children) == list(range(seeds))
    assert len(parents) == 1
    for run in children:
        assert run.data.metrics["u/id/rl2e"] > 0
        assert run.data.params["seed"] == run.data.tags["seed"]


def by_seed(folder: Path) -> dict[int, dict[str, Any]]:
    """What the runs below a folder found, without their cost."""
    found = {}
    for run in run_folders(folder):
        metrics = read_metrics(run)
        assert metrics["config"]["seed"] not in found, "a job finished twice"
        found[metrics["config"]["seed"]] = {"u": metrics["u"], "diagnostics": metrics["diagnostics"]}
    return found


def database(folder: Path) -> str:
    return f"sqlite:///{folder / 'mlflow.db'}"


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Twelve jobs in two processes, into a database that is not there yet."""
    folder = tmp_path_factory.mktemp("twelve")
    found = call(folder, "-m", *SETTINGS, "seed=range(0,12)", "sweep=local", "sweep.jobs=2")
    assert found.returncode == 0, found.stdout + found.stderr
    return folder, found.stdout


@pytest.mark.full
@pytest.mark.cli
def test_twelve_jobs_side_by_side_all_arrive_under_one_parent(twelve):
    folder, output = twelve
    check_family(database(folder), 12)
    assert sorted(by_seed(folder)) == list(range(12))
    (record,) = folder.glob("runs/*/sweep.json")
    rows = read_json(record)["jobs"]
    assert [row["job"] for row in rows] == list(range(12))
    assert {row["status"] for row in rows} == {"finished"}
    for row in rows:
        assert f"seed={row['job']}" in row["settings"]
        assert row["value"] == read_metrics(Path(row["folder"]))["u"]["id"]["rl2e"]
        assert row["run"] in output
    table = output[output.index("Sweep") :]
    assert "u/id/rl2e" in table
    assert "sweep.resume" not in table
    assert not list(record.parent.glob(".notes_*"))
    threads = {run.data.params["threads"] for run in all_runs(database(folder)) if "threads" in run.data.params}
    assert threads == {"1"}


@pytest.mark.full
@pytest.mark.cli
def test_a_killed_sweep_goes_on(twelve, tmp_path):
    """Killed while a result is there but not yet in MLflow: nothing is lost, done twice, or left running."""
    sweep = ["-m", *SETTINGS, "seed=range(0,2)"]
    kill_when(tmp_path, lambda: list(tmp_path.glob("runs/*/0/metrics.json")), *sweep)
    assert "RUNNING" in {run.info.status for run in all_runs(database(tmp_path))}
    resumed = call(tmp_path, *sweep, "sweep.resume=true")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    check_family(database(tmp_path), 2)
    reference = by_seed(twelve[0])
    assert by_seed(tmp_path) == {seed: reference[seed] for seed in range(2)}
    assert not list(tmp_path.glob("runs/*/*/checkpoint.safetensors"))


@pytest.mark.full
@pytest.mark.cli
def test_ctrl_c_in_a_terminal_keeps_what_all_jobs_computed(tmp_path):
    """It reaches all processes of the terminal at once: each ends after its current step, with its results."""
    sweep = ("-m", *SETTINGS, "method.n_samples=40000", "seed=0,1", "sweep=local", "sweep.jobs=2", "tracking=none")
    process = subprocess.Popen(
        program(*sweep),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 200
    while len(list(tmp_path.glob("runs/*/*/checkpoint.safetensors"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert output.count("│ stopped │") == 2, output
    assert [read_metrics(run)["interrupted"] for run in run_folders(tmp_path)] == [True, True]
    (record,) = tmp_path.glob("runs/*/sweep.json")
    assert read_json(record)["status"] == "KILLED"


@pytest.fixture
def postgres() -> Iterator[str]:
    """The address of a real PostgreSQL server, started by the command that the documentation names."""
    if not (shutil.which("postgres") or list(Path("/usr/lib/postgresql").glob("*/bin/postgres"))):
        pytest.skip("there is no PostgreSQL server on this machine (.ci/run installs Debian's)")
    folder = Path(f"/tmp/pg_{secrets.token_hex(4)}")  # a socket needs a short name, and the server makes its folder
    process = subprocess.Popen(
        [str(ROOT / "scripts" / "postgres"), str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        address = next((line for line in process.stderr if line.startswith("MLFLOW_TRACKING_URI=")), "")
        assert address, "scripts/postgres did not start"
        for line in process.stderr:
            if "ready to accept connections" in line:
                break
        yield address.partition("=")[2].strip().strip("'")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        shutil.rmtree(folder)


@pytest.mark.full
@pytest.mark.cli
def test_processes_of_submitit_write_into_postgresql(postgres, tmp_path):
    """What SLURM would do, by submitit's local executor: one real job, and one that fails with its sentence."""
    sweep = ("method=dens", "method.learning_rate=1e-3,1e30", "sweep=slurm_local", "gold=null")
    found = call(tmp_path, "-m", "fidelity=smoke", *sweep, MLFLOW_TRACKING_URI=postgres)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "Traceback" not in found.stdout + found.stderr
    assert re.search(r"job 1 failed: .* try a smaller method.learning_rate", found.stdout)
    assert "sweep.resume=true" in found.stdout.splitlines()[-1]
    runs = all_runs(postgres)
    assert sorted(run.info.status for run in runs) == ["FAILED", "FAILED", "FINISHED"]
    (parent,) = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    assert [run.data.tags.get("mlflow.parentRunId") for run in runs].count(parent.info.run_id) == 2
    (done,) = (run for run in runs if run.info.status == "FINISHED")
    assert done.data.metrics["u/id/rl2e"] > 0
    assert done.info.artifact_uri.startswith((tmp_path / "mlartifacts").as_uri())
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.cli
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-m", "seed=0,1", "sweep=lokal"], "sweep=lokal does not exist: did you mean 'local'?"),
        (["-m", "seed=0,1", "sweep=local", "sweep.jobs=0"], "sweep.jobs=0 is not valid"),
        (["-m", "seed=0,1", "sweep=local,basic"], "sweep=local,basic names several values: a sweep runs in one way."),
        (["sweep.resume=true"], "sweep.resume=true is for sweeps: add -m."),
        (["search=optuna", "seed=1"], "search=optuna is for sweeps: add -m."),
        (["-m", "search=optuna"], "search=optuna has nothing to search"),
        (["-m", "search=optuna", "search.trials=0", "seed=0,1"], "search.trials=0 is not valid"),
        (["-m", "search=optuna", "problem.n_validation=0", "method=hmc,ld"], "needs validation readings"),
        (["-m", "method.n_burn=interval(1,5)"], "add search=optuna"),
        (["-m", "search=optuna", "method.n_brun=interval(1,5)"], "method.n_brun is not a setting"),
        (["-m", "seed=0,1", "hydra/sweeper=nope"], "hydra/sweeper=nope does not exist"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_in_a_sweep_end_in_one_sentence(arguments, sentence, tmp_path, monkeypatch, capsys):
    """In this process, where importing is paid once."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "fidelity=smoke"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("sciuq-run: ")
    assert said.count("\n") == 1
    assert sentence in said
    assert not list(tmp_path.iterdir())


def test_the_hash_of_a_configuration_knows_what_matters():
    config = {"seed": 0, "method": {"n": 5}, "threads": 1, "tracking": {"uri": "a"}, "trust": []}
    same = {"method": {"n": 5}, "trust": ["mine"], "seed": 0, "threads": 8, "tracking": {"uri": "b"}}
    assert digest(config, {"a.csv": "1"}) == digest(same, {"elsewhere/a.csv": "1"})
    assert digest(config, {}) != digest({**config, "seed": 1}, {})
    assert digest(config, {"a.csv": "1"}) != digest(config, {"a.csv": "2"})


def test_finished_runs_are_told_from_others(tmp_path):
    """By hash, below all sweeps; of those that did not finish, the one with a checkpoint is the best to go on with."""
    for name, status in {"s1/0": "FINISHED", "s1/1": "RUNNING", "s2/0": "KILLED", "single": "FINISHED"}.items():
        Origin([], digest="b" if name == "single" else "a", status=status).write(tmp_path / name)
    (tmp_path / "s1/1/checkpoint.safetensors").touch()
    (tmp_path / "s1/0/metrics.json").touch()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/resume.json").write_text("{")
    found = index(tmp_path)
    assert {folder.relative_to(tmp_path).as_posix() for folder, _ in found["a"]} == {"s1/0", "s1/1", "s2/0"}
    assert found["a"][-1][0] == tmp_path / "s1/1"
    assert [origin.finished(folder) for folder, origin in found["b"]] == [False]  # its results are gone
    assert [folder for folder, origin in found["a"] if origin.finished(folder)] == [tmp_path / "s1/0"]


def test_a_sweep_is_found_by_its_settings(tmp_path):
    for name, settings in {"old": ["seed=0,1"], "other": ["seed=0,1,2"], "new": ["seed=0,1"]}.items():
        write_json(tmp_path / name / "sweep.json", {"settings": settings})
    os.utime(tmp_path / "old", (0, 0))
    register_resolvers()
    request = read_sweep(["sweep=local", "seed=0,1", "threads=4", "sweep.resume=true"], None)
    assert find_sweep(tmp_path, request.identity) == tmp_path / "new"
    assert find_sweep(tmp_path, ["seed=5"]) is None


def test_a_sweep_that_is_at_work_is_left_alone(tmp_path):
    with locked(tmp_path), pytest.raises(ConfigError, match="still at work"), locked(tmp_path):
        pass
    with locked(tmp_path):  # of a process that has ended
        pass


# Jobs whose processes die


class Pool:
    """A launcher with ``size`` processes that, as joblib does, ends them all when one of them dies."""

    def __init__(self, size: int, deadly: set[int]) -> None:
        self.size, self.deadly = size, deadly
        self.rounds: list[list[int]] = []

    def launch(self, jobs: list[list[str]], initial_job_idx: int) -> None:
        seeds = [int(job[0].removeprefix("seed=")) for job in jobs]
        folders = [
            next(text.partition("=")[2] for text in job if text.startswith("hydra.sweep.subdir")) for job in jobs
        ]
        self.rounds.append(seeds)
        for start in range(0, len(jobs), self.size):
            together = range(start, min(start + self.size, len(jobs)))
            for number in together:
                leave({"folder": folders[number].strip("'")}, BEGINNING)
            if self.deadly & {seeds[number] for number in together}:
                raise RuntimeError("A worker process was unexpectedly terminated.\nIt may have been killed.")
            for number in together:
                Note(folders[number].strip("'"), 0, score=float(seeds[number])).leave()


@pytest.fixture
def sweep(tmp_path, monkeypatch) -> Iterator[Sweep]:
    """A sweep without a launcher."""
    register_resolvers()
    with notes_in(tmp_path) as notes:
        yield Sweep(read_sweep([], None), tmp_path, notes, None)
    monkeypatch.delenv(NOTES_VARIABLE)


def launcher(plugin: Any) -> Launcher:
    """The launcher of ``sweep=local`` with another plugin than that of Hydra."""
    return Launcher(OmegaConf.create({"hydra": {"runtime": {"choices": {"sweep": "local"}}}}), None, plugin)


@pytest.mark.parametrize("deadly", [{0}, {0, 5}, {0, 1, 2, 3}, {7}], ids=str)
def test_a_job_that_always_dies_costs_the_others_nothing(sweep, deadly):
    pool = Pool(3, deadly)
    sweep.launcher = launcher(pool)
    notes = sweep.launch([[f"seed={seed}"] for seed in range(8)])
    assert {seed for seed, note in enumerate(notes) if note.status} == deadly
    assert [note.score for seed, note in enumerate(notes) if seed not in deadly] == [
        float(seed) for seed in range(8) if seed not in deadly
    ]
    for seed in deadly:
        assert notes[seed].sentence == "its process died at each of 3 starts."
        assert [seeds for seeds in pool.rounds if seed in seeds][-1] == [seed]  # the last time alone
    assert sweep.exit_status() == 1
    table = sweep.rows(None)
    assert [row.status for row in table] == ["failed" if seed in deadly else "finished" for seed in range(8)]


def test_a_launcher_that_starts_nothing_is_asked_once(sweep):
    class Nowhere:
        asked = 0

        def launch(self, *_: object, **__: object) -> None:
            self.asked += 1
            raise RuntimeError('Could not detect "srun"\nand more')

    sweep.launcher = launcher(Nowhere())
    with pytest.raises(ConfigError, match=r'^sweep=local could not start a job \(Could not detect "srun"\): choose'):
        sweep.launch([["seed=0"], ["seed=1"]])
    assert sweep.launcher.plugin.asked == 1
    assert not sweep.has_begun()


def test_a_folder_that_cannot_be_made_is_named_and_not_the_launcher(sweep):
    class Full:
        def launch(self, *_: object, **__: object) -> None:
            raise OSError(28, "No space left on device", "runs/0")

    sweep.launcher = launcher(Full())
    with pytest.raises(OSError, match="No space left on device: 'runs/0'"):
        sweep.launch([["seed=0"]])


def test_a_job_without_a_note_is_judged_by_its_folder(sweep):
    """On a full disk there may be room for the last words in the run folder, and none for the note."""

    class Silent:
        def launch(self, jobs: list[list[str]], initial_job_idx: int) -> None:
            for item in sweep.plan.jobs[:1]:
                Origin([], status="FINISHED", score=2.5).write(item.folder)
                (item.folder / "metrics.json").write_text("{}")

    sweep.launcher = launcher(Silent())
    notes = sweep.launch([["seed=0"], ["seed=1"]])
    assert [(note.status, note.score) for note in notes] == [(0, 2.5), (1, None)]
    assert notes[1].sentence == "it did not start."


def test_notes_are_read_once_however_many_jobs_there_are(sweep, monkeypatch):
    read: list[Path] = []
    real = Path.read_text

    def counting(self: Path, *args: Any, **kwargs: Any) -> str:
        if self.parent == sweep.notes:
            read.append(self)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", counting)
    sweep.launcher = launcher(Pool(4, set()))
    sweep.launch([[f"seed={seed}"] for seed in range(40)])
    sweep.rows(None)
    sweep.exit_status()
    assert len(read) == 2 * 40  # how it began, how it ended
    assert len(set(read)) == len(read)


def test_children_beyond_the_first_page_are_closed_too(tmp_path, monkeypatch):
    monkeypatch.setattr("sciuq_runner.tracking.tracker.RUNS_PER_QUERY", 2)
    tracker = Tracker(None, "sciuq", tmp_path)
    tracker.connect()
    tracker.start("sweep", {}, {})
    parent = str(tracker.run_id)
    for number in range(5):
        tracker.start(f"job {number}", {"mlflow.parentRunId": parent, "run_folder": str(number)}, {})
        if number == 1:
            tracker.end("FINISHED")
    tracker.close_children(lambda folder: folder == "3", parent)
    status = {run.data.tags["run_folder"]: run.info.status for run in tracker.tagged("mlflow.parentRunId", parent)}
    assert status == {"0": "KILLED", "1": "FINISHED", "2": "KILLED", "3": "RUNNING", "4": "KILLED"}


def test_a_full_disk_at_the_end_of_a_sweep_costs_its_record_alone(inside: Inside, tmp_path, monkeypatch):
    """Neither a note nor the record can be written: the table is shown, and says what is true."""
    write = Path.write_text

    def full(self: Path, *args: Any, **kwargs: Any) -> int:
        if self.parent.name.startswith(".notes_") or (self.name.startswith(".sweep.") and list(run_folders(tmp_path))):
            raise OSError(28, "No space left on device", str(self))
        return write(self, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", full)
    found = inside("-m", *SETTINGS, "method=dens", "tracking=none")
    assert found.status == 0, found.out + found.err
    assert "│ finished │" in found.out
    assert "Traceback" not in found.out + found.err


@pytest.mark.parametrize(("size", "torch_threads", "chains"), [(10, 1, 3), (10_000, 3, 1)], ids=["small", "large"])
def test_a_job_has_the_threads_that_it_is_given(size, torch_threads, chains):
    """Where the kernels are large they share them, else the chains do; those of numpy are never more."""
    before = torch.get_num_threads()
    try:
        with threadpool_limits(None):  # restores what is set within
            share_threads(SimpleNamespace(size=size, n_observations=1000), 3)  # type: ignore[arg-type]
            assert torch.get_num_threads() == torch_threads
            assert workers.count == chains
            assert max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas") <= 3
    finally:
        torch.set_num_threads(before)
        workers.set(1)
