"""The command line of ``sciuq-reproduce``: what it plans, skips, goes on with and says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sciuq_runner import layout
from sciuq_runner.cli.reproduce import main, parse
from sciuq_runner.config.configuration_hash import TAG
from sciuq_runner.locks import alone
from sciuq_runner.reproduction import job_processes
from sciuq_runner.reproduction.job_costs import START, expected, guess, measured, spoken, steps
from sciuq_runner.reproduction.job_plan import Step, group_of, plan, recorded, task_of
from sciuq_runner.reproduction.kept_runs import kept_runs
from sciuq_runner.reproduction.left_jobs import REPRODUCTION_LOCK
from sciuq_runner.reproduction.paper_jobs import Job, jobs, jobs_of, presets
from sciuq_runner.tracking.tracker import Tracker
from tests.conftest import environment
from tests.reproduction.conftest import FIDELITY, fake_run

FORWARD = ["forward_n15", "--fidelity", "smoke"]


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


def test_a_dry_run_says_what_is_done_and_what_is_left_and_runs_nothing(here_with_database, capsys, monkeypatch):
    monkeypatch.setattr(job_processes, "run_tasks", lambda *_: pytest.fail("nothing should run"))
    known = {FIDELITY: {"function_known method=hmc": 30.0}}
    monkeypatch.setattr("sciuq_runner.reproduction.job_costs.measured", lambda: known)
    first, second = jobs_of("forward_n15", FIDELITY)
    leave_run(here_with_database, first, 0, "FINISHED")
    leave_run(here_with_database, first, 1, "FAILED")
    assert call("forward_n15", "--fidelity", FIDELITY, "--seeds", "2", "--dry-run") == 0
    said = capsys.readouterr().out
    assert f"{first.name} seed=0: done" in said
    assert f"{first.name} seed=1: " in said
    assert f"{second.name} seed=0: " in said
    assert "4 runs at paper fidelity, 1 done, 3 to do: about " in said
    assert "in which the time of 3 is a guess from others like them." in said


def test_what_was_run_is_not_run_again_and_failures_are_listed_at_the_end(here_with_database, capsys, monkeypatch):
    first, second = jobs_of("forward_n15", "smoke")
    leave_run(here_with_database, first, 0, "FINISHED")
    seen: list[list[str]] = []

    def run_tasks(tasks, n_jobs, report, logs, warm):
        for task in tasks:
            seen.append(task.arguments)
            task.status, task.message = 2, "the reason"
            report(task)
        return True

    monkeypatch.setattr(job_processes, "run_tasks", run_tasks)
    assert call(*FORWARD, "--jobs", "2") == 1
    assert seen == [[*second.arguments(0), "threads=1"]]
    said = capsys.readouterr().out
    assert "[1/1] forward_n15 model=gp_pi_gan seed=0: FAILED: the reason" in said
    assert "1 of 1 runs failed:" in said
    leave_run(here_with_database, second, 0, "FINISHED")
    assert call(*FORWARD) == 0
    assert "2 runs at smoke fidelity, 2 done, 0 to do" in capsys.readouterr().out


def test_a_run_that_has_not_ended_goes_on_unless_a_process_is_at_work_on_it(tmp_path):
    job = jobs_of("forward_n15", "smoke")[0]
    checkpoint = tmp_path / "checkpoint.safetensors"
    for path in (tmp_path / "resume.json", checkpoint):
        path.write_text("{}")

    def step(status: str) -> Step:
        run = fake_run(job, 0, {}, status)
        object.__setattr__(run, "folder", str(tmp_path))
        return plan([job], 1, [run])[0]

    for status in ("KILLED", "FAILED", "RUNNING"):  # called running by MLflow, it may have died without a word
        assert (step(status).folder, step(status).refusal) == (str(tmp_path), "")
    with alone(tmp_path / layout.LOCK):
        assert (step("RUNNING").folder, step("RUNNING").refusal) == ("", "another process is at work on it")
    fresh = plan([job], 1, [])[0]
    assert task_of(fresh, 1).arguments == job.arguments(0)
    object.__setattr__(fresh, "folder", "x")
    assert task_of(fresh, 2).arguments == ["resume=x"]
    (tmp_path / "metrics.json").write_text('{"interrupted": true}')
    assert step("KILLED").folder == str(tmp_path)
    (tmp_path / "metrics.json").write_text("{}")  # stopped after its last step: nothing to go on from
    assert step("KILLED").folder == ""
    (tmp_path / "metrics.json").unlink()
    checkpoint.unlink()
    assert step("KILLED").folder == ""


def test_jobs_without_their_device_are_left_out(monkeypatch):
    monkeypatch.setattr("sciuq_runner.reproduction.job_costs.measured", lambda: {})
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("sciuq_runner.reproduction.job_costs.measured", lambda: {})
    steps = plan(jobs_of("cost_gpu", FIDELITY), 1, [])
    assert {step.refusal for step in steps} == {"there is no cuda here"}


def test_runs_that_share_what_is_trained_before_are_one_group():
    noisy = {group_of(job) for job in jobs_of("darcy_noisy", FIDELITY)}
    assert len(noisy) == 1
    assert noisy != {""}
    assert {group_of(job) for job in jobs_of("darcy_ood", FIDELITY)} not in ({""}, noisy)
    assert {group_of(job) for job in jobs_of("forward_n15", FIDELITY)} == {""}
    assert [bool(group_of(job)) for job in jobs_of("mixed_pde_standard", FIDELITY)] == [False] * 4 + [True]


def test_expected_times_come_from_runs_else_from_measured_ones_else_by_the_number_of_steps(monkeypatch):
    job = jobs_of("forward_n15", "smoke")[0]
    monkeypatch.setattr("sciuq_runner.reproduction.job_costs.measured", lambda: {})
    assert expected(job, []) is None
    runs = [fake_run(job, seed, {"cost/total_s": seconds}) for seed, seconds in enumerate((1.0, 3.0))]
    assert expected(job, runs) == START + 2.0
    monkeypatch.setattr("sciuq_runner.reproduction.job_costs.measured", lambda: {"smoke": {job.name: 30.0}})
    assert expected(job, []) == 30.0
    quick = jobs_of("forward_n15", "quick")[0]
    ratio = steps(quick.config) / steps(job.config)
    assert ratio > 10
    assert expected(quick, []) == pytest.approx(START + (30.0 - START) * ratio)


def test_a_guess_goes_by_steps_among_jobs_of_one_kind():
    job, other = jobs_of("function_unknown", "paper")[0], jobs_of("function_unknown", "smoke")[0]
    ratio = steps(job.config) / steps(other.config)
    assert ratio > 10
    assert guess(job, [(other, 30.0)]) == pytest.approx(START + (30.0 - START) * ratio)


@pytest.mark.full
def test_a_job_of_unknown_time_is_guessed_by_those_most_like_it_and_waits_its_turn(here, capsys, monkeypatch):
    known = {
        "epistemic_growth method=hmc problem.n_train=32 problem.noise_scale=0.1": 61.0,
        "function_known method=hmc": 61.0,
        "function_known method=gp": 21.0,
        "function_known method=mfvi": 41.0,
        "forward_n15 model=bnn": 30.0,
    }
    monkeypatch.setattr("sciuq_runner.reproduction.job_costs.measured", lambda: {"smoke": known})
    names = [
        "function_known",
        "epistemic_growth",
        "function_unknown",
        "forward_n15",
        "mixed_pde_additional",
        "spde_clean",
    ]
    others = ["forward_n6", "spde_noisy"]
    monkeypatch.setattr("sciuq_runner.reproduction.job_costs.presets", lambda: [*names, *others])
    steps = plan(jobs(names, "smoke"), 1, [])
    times = {step.job.name: (step.seconds, step.guessed) for step in steps}
    assert times["function_known method=hmc"] == (61.0, False)
    assert times["epistemic_growth method=hmc problem.n_train=16 problem.noise_scale=0.5"] == (61.0, True)
    assert times["function_unknown method=mfvi"] == (41.0, True)  # the same method elsewhere
    assert times["function_known method=ld"] == (41.0, True)  # another method of its preset
    assert times["function_unknown method=la"] == (51.0, True)  # of its problem
    assert times["mixed_pde_additional problem.case=steep"] == (61.0, True)  # its method and model
    assert times["spde_clean model=nnpc"] == (41.0, True)  # any
    assert [step.seconds for step in steps] == sorted(step.seconds for step in steps)
    assert steps[0].job.name == "function_known method=gp"
    one = ("--seeds", "1", "--dry-run")
    assert call("forward_n15", "forward_n6", "--fidelity", "smoke", *one, "--jobs", "1") == 0
    said = capsys.readouterr().out
    assert "forward_n15 model=bnn seed=0: about 30 s\n" in said
    assert "forward_n6 model=bnn seed=0: about 30 s, a guess\n" in said
    assert "4 to do: about 2 min with 1 at a time, in which the time of 3 is a guess from others like them." in said
    (alone,) = [step for step in plan(jobs(["spde_noisy"], "smoke"), 1, []) if step.job.name.endswith("nnpc")]
    assert (alone.seconds, alone.guessed) == (41.0, True)  # where its own preset has none, of any other
    known.clear()
    assert call("forward_n15", "--fidelity", "smoke", *one) == 0
    assert "2 runs at smoke fidelity, 0 done, 2 to do: time unknown." in capsys.readouterr().out


def test_at_paper_fidelity_every_preset_has_its_own_seeds():
    found = [jobs_of(name, "paper")[0] for name in ("forward_n15", "darcy_noisy")]
    assert {job.preset: sum(step.job is job for step in plan(found, None, [])) for job in found} == {
        "forward_n15": 5,
        "darcy_noisy": 10,
    }
    options = [parse([*arguments, "--fidelity", "paper"]).seeds for arguments in ([], ["--seeds", "3"])]
    assert [*options, parse([]).seeds] == [None, 3, 1]


@pytest.mark.full
def test_measured_times_are_of_jobs_that_there_are():
    names = {job.name for preset in presets() for job in jobs_of(preset, FIDELITY)}
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
    "keep": (["--keep", f"{__file__}/kept"], "cannot be written (Not a directory): name a folder"),
}


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_end_in_one_sentence_and_leave_nothing(here, capsys, arguments, sentence):
    assert call(*arguments) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not list(here.iterdir())


def test_two_at_once_in_a_folder_are_refused(here_with_database, capsys):
    from filelock import FileLock

    with FileLock(here_with_database / REPRODUCTION_LOCK):
        assert call(*FORWARD) == 2
    assert "another sciuq-reproduce is at work" in capsys.readouterr().err


def test_a_store_that_cannot_be_read_is_a_sentence(here, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert call(*FORWARD) == 2
    said = capsys.readouterr().err
    assert "the runs in MLflow cannot be read" in said
    assert "secret" not in said


def test_a_stop_is_said_and_has_its_status(here_with_database, capsys, monkeypatch):
    monkeypatch.setattr(job_processes, "run_tasks", lambda *_: False)
    assert call(*FORWARD) == 130
    assert "The same command goes on from here." in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.cli
def test_a_real_job_runs_once_is_known_the_next_time_and_stays_in_a_folder_of_its_own(here, capsys, monkeypatch):
    (cheapest,) = [job for job in jobs_of("function_unknown", "smoke") if job.choices == ("method=la",)]
    monkeypatch.setattr("sciuq_runner.reproduction.paper_jobs.jobs", lambda names, fidelity: [cheapest])
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    command = ("function_unknown", "--fidelity", "smoke", "--jobs", "1", "--keep", "kept")
    assert call(*command) == 0
    assert "[1/1] function_unknown method=la seed=0: done in" in capsys.readouterr().out
    (metrics,) = here.glob("runs/*/metrics.json")
    assert json.loads(metrics.read_text())["config"]["choices"]["fidelity"] == "smoke"
    assert call(*command[:-2]) == 0
    said = capsys.readouterr().out
    assert "function_unknown method=la seed=0: done\n" in said
    assert "1 runs at smoke fidelity, 1 done, 0 to do" in said
    assert len(list(here.glob("runs/*"))) == 1

    (kept,) = kept_runs(here / "kept")
    assert Path(kept.folder) == here / "kept" / "smoke" / "function_unknown_la" / "0"
    (original,) = recorded()
    assert kept.metrics == original.metrics
    assert kept.tags["git_commit"] == original.tags["git_commit"]
    assert kept.started == pytest.approx(original.started, abs=1e-3)
    assert cheapest.made(kept.params)
    shutil.rmtree(here / "runs")
    (here / "mlflow.db").unlink()
    assert call(*command) == 0
    assert "1 runs at smoke fidelity, 1 done, 0 to do" in capsys.readouterr().out
    assert not (here / "mlflow.db").exists()
