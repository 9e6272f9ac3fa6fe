"""The command line of ``sciuq-reproduce``: what it plans, skips, goes on with and says."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from sciuq_runner import reproduction
from sciuq_runner.identity import TAG
from sciuq_runner.reproduction import group_of, main, plan, task_of
from sciuq_runner.reproduction.costs import START, expected, measured, spoken, steps
from sciuq_runner.reproduction.jobs import Job, jobs_of, presets
from sciuq_runner.tracking import Tracker
from tests.conftest import environment
from tests.reproduction.conftest import fake_run

FORWARD = ["forward_n15", "--fidelity", "smoke"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder without a tracking server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return int(end.value.code or 0)


def leave_run(folder: Path, job: Job, seed: int, status: str) -> None:
    """A run in MLflow, as sciuq-run would have recorded it."""
    tracker = Tracker(f"sqlite:///{folder / 'mlflow.db'}", "sciuq", folder)
    tracker.connect()
    tracker.start(job.name, {TAG: job.hash(seed), "run_folder": str(folder / "run")}, {})
    tracker.end(status)


def test_list_shows_every_name(here, capsys):
    assert call("--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 18
    assert lines[0].startswith("function_known ")
    assert not list(here.iterdir())


def test_a_dry_run_says_what_is_done_and_what_is_left_and_runs_nothing(here, capsys, monkeypatch):
    monkeypatch.setattr(reproduction, "perform", lambda *_: pytest.fail("nothing should run"))
    first, second = jobs_of("forward_n15", "smoke")
    leave_run(here, first, 0, "FINISHED")
    leave_run(here, first, 1, "FAILED")
    assert call(*FORWARD, "--seeds", "2", "--dry-run") == 0
    said = capsys.readouterr().out
    assert f"{first.name} seed=0: done" in said
    assert f"{first.name} seed=1: " in said
    assert f"{second.name} seed=0: " in said
    assert "4 runs at smoke fidelity, 1 done, 3 to do: about" in said


def test_what_was_run_is_not_run_again_and_failures_are_listed_at_the_end(here, capsys, monkeypatch):
    first, second = jobs_of("forward_n15", "smoke")
    leave_run(here, first, 0, "FINISHED")
    seen: list[list[str]] = []

    def work(tasks, n_jobs, report, logs, warm):
        for task in tasks:
            seen.append(task.arguments)
            task.status, task.message = 2, "the reason"
            report(task)
        return True

    monkeypatch.setattr("sciuq_runner.reproduction.work.work", work)
    assert call(*FORWARD, "--jobs", "2") == 1
    assert seen == [[*second.arguments(0), "threads=1"]]
    said = capsys.readouterr().out
    assert "[1/1] forward_n15 model=gp_pi_gan seed=0: FAILED: the reason" in said
    assert "1 of 1 runs failed:" in said
    leave_run(here, second, 0, "FINISHED")
    assert call(*FORWARD) == 0
    assert "2 runs at smoke fidelity, 2 done, 0 to do" in capsys.readouterr().out


def test_a_run_that_was_stopped_goes_on_but_one_that_is_alive_is_left_alone(tmp_path):
    job = jobs_of("forward_n15", "smoke")[0]
    (tmp_path / "resume.json").write_text("{}")
    (tmp_path / "run.log").write_text("")

    def folder(status: str) -> str:
        run = fake_run(job, 0, {}, status)
        object.__setattr__(run, "folder", str(tmp_path))
        return plan([job], 1, [run])[0].folder

    assert folder("KILLED") == str(tmp_path)
    assert folder("RUNNING") == ""
    assert folder("FAILED") == ""
    long_ago = time.time() - 3600
    os.utime(tmp_path / "run.log", (long_ago, long_ago))
    assert folder("RUNNING") == str(tmp_path)
    step = plan([job], 1, [])[0]
    assert task_of(step, 1).arguments == job.arguments(0)
    object.__setattr__(step, "folder", "x")
    assert task_of(step, 2).arguments == ["resume=x"]
    (tmp_path / "metrics.json").write_text("{}")  # stopped after its last step: nothing to go on from
    assert folder("KILLED") == ""


def test_jobs_without_their_device_are_left_out(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    steps = plan(jobs_of("cost_gpu", "smoke"), 1, [])
    assert {step.refusal for step in steps} == {"there is no cuda here"}


def test_runs_that_share_what_is_trained_before_are_one_group():
    noisy = {group_of(job) for job in jobs_of("darcy_noisy", "smoke")}
    assert len(noisy) == 1
    assert noisy != {""}
    assert {group_of(job) for job in jobs_of("darcy_ood", "smoke")} not in ({""}, noisy)
    assert {group_of(job) for job in jobs_of("forward_n15", "smoke")} == {""}
    assert [bool(group_of(job)) for job in jobs_of("mixed_pde_standard", "smoke")] == [False] * 4 + [True]


def test_expected_times_come_from_runs_else_from_measured_ones_else_by_the_number_of_steps(monkeypatch):
    job = jobs_of("forward_n15", "smoke")[0]
    monkeypatch.setattr("sciuq_runner.reproduction.costs.measured", lambda: {})
    assert expected(job, []) is None
    runs = [fake_run(job, seed, {"cost/total_s": seconds}) for seed, seconds in enumerate((1.0, 3.0))]
    assert expected(job, runs) == START + 2.0
    monkeypatch.setattr("sciuq_runner.reproduction.costs.measured", lambda: {"smoke": {job.name: 30.0}})
    assert expected(job, []) == 30.0
    quick = jobs_of("forward_n15", "quick")[0]
    ratio = steps(quick.config) / steps(job.config)
    assert ratio > 10
    assert expected(quick, []) == pytest.approx(START + (30.0 - START) * ratio)


def test_measured_times_are_of_jobs_that_there_are():
    names = {job.name for preset in presets() for job in jobs_of(preset, "smoke")}
    for times in measured().values():
        assert set(times) <= names


@pytest.mark.parametrize(("seconds", "text"), [(40, "40 s"), (600, "10 min"), (12_000, "3 h 20 min")])
def test_times_are_spoken(seconds, text):
    assert spoken(seconds) == text


MISTAKES = {
    "name": (["functoin_known"], "did you mean 'function_known'"),
    "seeds": (["--seeds", "0"], "--seeds 0 should be at least 1."),
    "jobs": (["--jobs", "-1"], "--jobs -1 should be at least 1."),
    "number": (["--seeds", "many"], "invalid int value: 'many'"),
    "fidelity": (["--fidelity", "high"], "invalid choice: 'high'"),
    "option": (["--sedes", "3"], "unrecognized arguments: --sedes"),
}


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_end_in_one_sentence_and_leave_nothing(here, capsys, arguments, sentence):
    assert call(*arguments) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not list(here.iterdir())


def test_two_at_once_in_a_folder_are_refused(here, capsys):
    from filelock import FileLock

    with FileLock(here / reproduction.LOCK):
        assert call(*FORWARD) == 2
    assert "another sciuq-reproduce is at work" in capsys.readouterr().err


def test_a_store_that_cannot_be_read_is_a_sentence(here, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert call(*FORWARD) == 2
    said = capsys.readouterr().err
    assert "the runs in MLflow cannot be read" in said
    assert "secret" not in said


def test_a_stop_is_said_and_has_its_status(here, capsys, monkeypatch):
    monkeypatch.setattr("sciuq_runner.reproduction.work.work", lambda *_: False)
    assert call(*FORWARD) == 130
    assert "The same command goes on from here." in capsys.readouterr().out


@pytest.mark.cli
def test_a_real_job_runs_once_and_is_known_the_next_time(here, capsys, monkeypatch):
    (cheapest,) = [job for job in jobs_of("function_unknown", "smoke") if job.choices == ("method=la",)]
    monkeypatch.setattr("sciuq_runner.reproduction.jobs.jobs", lambda names, fidelity: [cheapest])
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    assert call("function_unknown", "--fidelity", "smoke", "--jobs", "1") == 0
    assert "[1/1] function_unknown method=la seed=0: done in" in capsys.readouterr().out
    (metrics,) = here.glob("runs/*/metrics.json")
    assert json.loads(metrics.read_text())["config"]["choices"]["fidelity"] == "smoke"
    assert call("function_unknown", "--fidelity", "smoke", "--jobs", "1") == 0
    said = capsys.readouterr().out
    assert "function_unknown method=la seed=0: done\n" in said
    assert "1 runs at smoke fidelity, 1 done, 0 to do" in said
    assert len(list(here.glob("runs/*"))) == 1
