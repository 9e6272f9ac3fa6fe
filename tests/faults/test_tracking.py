"""MLflow that is away, locked, or holds half of a run."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from mlflow import MlflowClient
from sqlalchemy import text

from sciuq_runner import files, layout
from sciuq_runner.cli.sync import main as sync
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.gold_standard import read_run
from sciuq_runner.models.pretraining import Store
from sciuq_runner.report.recorded_runs import read_folder
from sciuq_runner.tracking.experiment import DATABASE_PATIENCE
from sciuq_runner.tracking.flat_keys import flatten_metrics
from sciuq_runner.tracking.run_record import read_record
from sciuq_runner.tracking.tracker import Tracker
from sciuq_runner.training.loop import Loop
from tests.conftest import Inside, environment, read_metrics, start
from tests.faults.conftest import SMOKE

pytestmark = pytest.mark.cli


@pytest.fixture
def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def server(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A tracking server, up until the end or until it is killed."""
    store = ["--backend-store-uri", f"sqlite:///{folder / 'server.db'}", "--artifacts-destination", folder / "kept"]
    place = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # eight processes fewer
    process = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", *store, *place],
        cwd=folder,
        env=environment(**quiet, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a server with its workers, at once."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_jobs_that_find_the_store_gone_go_on(inside: Inside, tmp_path, monkeypatch, capsys):
    """It is there when the sweep is checked, and away from the first job on: sciuq-sync brings the results later."""
    reached: list[str] = []
    find = MlflowClient.get_experiment_by_name

    def once(self: MlflowClient, name: str) -> object:
        reached.append(name)
        if len(reached) > 1:
            raise ConnectionError("nobody answers")
        return find(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "get_experiment_by_name", once)
        found = inside("-m", *SMOKE, "gold=null", "seed=0,1")
    assert found.status == 0, found.out + found.err
    assert len(reached) == 3
    assert found.out.count("MLflow could not open the run (nobody answers); sciuq-sync") == 2
    runs = sorted(path.parent for path in tmp_path.glob("runs/*/*/metrics.json"))
    assert [read_metrics(run)["config"]["seed"] for run in runs] == [0, 1]
    assert len(re.findall("run [0-9a-f]{32} is new: ", synced(["runs"], capsys))) == 2
    store = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    found_runs = store.search_runs([find(store, "sciuq").experiment_id])
    (parent,) = (run for run in found_runs if "sweep" in run.data.tags)
    children = [run for run in found_runs if run is not parent]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert {run.info.status for run in children} == {"FINISHED"}
    assert sorted(run.data.metrics["u/id/rl2e"] for run in children) == sorted(
        read_metrics(run)["u"]["id"]["rl2e"] for run in runs
    )


def stop_early(patch: pytest.MonkeyPatch) -> None:
    """Let runs be stopped after some of their steps, as Ctrl-C does."""
    save = Loop.save

    def and_stop(self: Loop) -> None:
        save(self)
        self.request_stop()

    patch.setattr(Loop, "save", and_stop)


def test_a_run_that_was_stopped_goes_on_and_replaces_what_it_had_left(inside: Inside, tmp_path, monkeypatch, capsys):
    """Until then its results are partial for everybody who reads them: the report, sciuq-sync, gold and MLflow."""
    settings = ("fidelity=smoke", "method.compile=never", "gold=null", "method.n_burn=60", "method.n_samples=60")
    whole = inside(*settings, "tracking=none", "hydra.run.dir=whole")
    assert whole.status == 0, whole.out
    with monkeypatch.context() as patch:
        stop_early(patch)
        stopped = inside(*settings, "checkpoint_interval=0.001", "hydra.run.dir=run")
    folder = tmp_path / "run"
    assert stopped.status == 130, stopped.out
    assert read_metrics(folder)["interrupted"] is True
    store = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (run,) = store.search_runs([store.get_experiment_by_name("sciuq").experiment_id])
    assert run.info.status == "KILLED"
    (model,) = run.outputs.model_outputs

    assert read_folder(folder).status == "KILLED"
    with pytest.raises(ConfigError, match="was stopped early: go on with sciuq-run resume="):
        read_run(folder, {})
    record = json.loads((folder / "tracking.json").read_text())
    files.write_json(folder / "tracking.json", {**record, "status": "RUNNING"})  # as if killed before the log said so
    (folder / "run.log").unlink()
    assert read_record(folder).status == "KILLED"

    resumed = inside("resume=run")
    assert resumed.status == 0, resumed.out + resumed.err
    assert "Going on after" in resumed.out
    ours, theirs = read_metrics(folder), read_metrics(tmp_path / "whole")
    assert ours["interrupted"] is False
    assert ours["u"] == theirs["u"]
    assert read_folder(folder).status == "FINISHED"
    (run,) = store.search_runs([run.info.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.metrics["u/id/rl2e"] == ours["u"]["id"]["rl2e"]
    artifacts = Path(store.download_artifacts(run.info.run_id, ""))
    for name in ("metrics.json", "predictions.npz", "samples.safetensors"):
        assert (artifacts / name).read_bytes() == (folder / name).read_bytes()
    left = [item.model_id for item in run.outputs.model_outputs if item.model_id != model.model_id]
    assert [store.get_logged_model(name).status for name in left] == ["READY"]
    with pytest.raises(Exception, match="not found"):
        store.get_logged_model(model.model_id)
    assert "has everything already" in synced(["run"], capsys)
    assert "has already finished" in inside("resume=run").err


@pytest.mark.full
def test_a_server_that_goes_away_costs_nothing(tmp_path, port, capsys, monkeypatch):
    """It is killed in the middle of sampling: the run ends well, and is uploaded when the server is back."""
    monkeypatch.chdir(tmp_path)
    uri = f"http://127.0.0.1:{port}"
    with server(tmp_path, port) as process:
        settings = ("fidelity=smoke", "gold=null", "method.n_burn=400", f"tracking.uri={uri}")
        run = start(tmp_path, *settings, "checkpoint_interval=0.001", "hydra.run.dir=run")
        deadline = time.monotonic() + 200
        while not (tmp_path / "run" / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        run.send_signal(signal.SIGSTOP)
        end(process)
        run.send_signal(signal.SIGCONT)
        output, _ = run.communicate(timeout=300)
    assert run.returncode == 0, output
    assert "MLflow could not store the results" in output
    assert "sciuq-sync" in output
    assert "Traceback" not in output
    assert read_metrics(tmp_path / "run")["u"]["id"]["rl2e"] > 0
    assert f"add --uri {uri} if you want to send it there" in failed_sync(["run"], capsys)
    assert "cannot be used" in failed_sync(["run", "--uri", uri], capsys)
    with server(tmp_path, port):
        store = MlflowClient(uri)
        (before,) = store.search_runs([store.get_experiment_by_name("sciuq").experiment_id])
        assert before.info.status == "RUNNING"
        assert not before.data.metrics
        said = synced(["run", "--uri", uri], capsys)
        assert re.search(rf"run: run {before.info.run_id} was not complete: \d+ metrics, \d+ files and the model", said)
        after = store.get_run(before.info.run_id)
        assert after.info.status == "FINISHED"
        assert after.data.metrics["u/id/rl2e"] == read_metrics(tmp_path / "run")["u"]["id"]["rl2e"]
        assert {item.path for item in store.list_artifacts(before.info.run_id)} >= {
            "metrics.json",
            "figures",
            "run.log",
        }
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)  # which is as good as naming it
        assert synced(["run"], capsys) == f"run: run {before.info.run_id} has everything already.\n"
        assert len(store.search_runs([before.info.experiment_id])) == 1


def synced(arguments: list[str], capsys) -> str:
    with pytest.raises(SystemExit) as caught:
        sync(arguments)
    found = capsys.readouterr()
    assert caught.value.code == 0, found
    return found.out


def failed_sync(arguments: list[str], capsys) -> str:
    with pytest.raises(SystemExit) as caught:
        sync(arguments)
    assert caught.value.code == 2
    found = capsys.readouterr()
    assert "Traceback" not in found.out + found.err
    return found.out + found.err


def test_runs_are_uploaded_once_and_half_runs_never(finished, tmp_path, capsys, monkeypatch):
    """Of a folder of runs: one complete, one that died, one that is being calibrated."""
    monkeypatch.chdir(tmp_path)
    for name in ("complete", "died", "calibrating"):
        subprocess.run(["cp", "-r", finished, tmp_path / name], check=True)
    (tmp_path / "died" / "metrics.json").unlink()
    note = json.loads((tmp_path / "died" / "tracking.json").read_text())
    (tmp_path / "died" / "tracking.json").write_text(json.dumps({**note, "status": "RUNNING"}))
    (tmp_path / "calibrating" / layout.RECALIBRATING).touch()
    said = failed_sync(["."], capsys)
    count = len(flatten_metrics(json.loads((tmp_path / "complete" / "metrics.json").read_text())))
    assert count > 40
    assert re.search(rf"complete: run \w+ is new: {count} metrics, \d+ files and the model added\.", said), said
    assert "go on with sciuq-run resume=died" in said
    assert "run sciuq-calibrate on it again" in said
    assert "2 of the runs could not be uploaded" in said
    assert "has everything already" in synced(["complete"], capsys)
    store = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (run,) = store.search_runs([store.get_experiment_by_name("sciuq").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.info.start_time == note["started"]
    assert run.data.params["method.n_members"] == "10"
    assert run.data.tags["method"] == "dens"
    assert json.loads((tmp_path / "complete" / "resume.json").read_text())["mlflow_run"] == run.info.run_id
    (tmp_path / "complete" / "tracking.json").unlink()
    several = failed_sync(["complete/figures", "nowhere", "complete"], capsys)
    assert "complete/figures holds no run: name the folder of a run" in several
    assert "nowhere holds no run: name the folder of a run" in several
    assert re.search(r"^complete: run \w+ (is new|was not complete|has everything)", several, re.MULTILINE), several


def test_all_that_a_run_has_pretrained_is_found_again(tmp_path):
    """An operator and a generator of one run, from a folder that has neither; and what earlier versions kept."""
    tracker = Tracker(None, "sciuq", tmp_path)
    tracker.connect()
    tracker.start("a run", {}, {})
    keys = ["a" * 64, "b" * 64]  # as long as a hash
    here = Store(tmp_path / "here", tracker)
    for value, key in enumerate(keys):
        here.keep(key, {"x": torch.full((2,), float(value))})
    old = "c" * 64
    files.write_tensors(here.path(old), {"x": torch.full((2,), 2.0)})
    tracker.client.log_artifact(tracker.run_id, str(here.path(old)), "pretrained")
    tracker.client.set_tag(tracker.run_id, "pretrained", old)
    there = Store(tmp_path / "there", tracker)
    for value, key in enumerate([*keys, old]):
        product, where = there.find(key)
        assert product["x"].tolist() == [value, value]
        assert where == str(there.path(key))
    assert there.find("d" * 64) is None


def test_every_session_of_mlflow_is_patient(tmp_path):
    """MLflow sets a time of its own in each; what SQLite says afterwards counts."""
    tracker = Tracker(None, "sciuq", tmp_path)
    tracker.connect()
    with tracker.client._tracking_client.store.ManagedSessionMaker() as session:
        assert session.execute(text("PRAGMA busy_timeout")).scalar() == 1000 * DATABASE_PATIENCE


@pytest.mark.full
def test_a_locked_database_is_waited_for(tmp_path, monkeypatch):
    """Another writer holds the file for 30 seconds, which is longer than MLflow waits by itself."""
    monkeypatch.chdir(tmp_path)
    tracker = Tracker(None, "sciuq", tmp_path)
    tracker.connect()
    other = sqlite3.connect(tmp_path / "mlflow.db", check_same_thread=False, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(30, other.execute, ["COMMIT"])
    timer.start()
    began = time.monotonic()
    tracker.start("a run", {"problem": "none"}, {"seed": 0})
    assert time.monotonic() - began > 29
    tracker.end("FINISHED")
    timer.join()
    assert MlflowClient(tracker.uri).get_run(tracker.run_id).info.status == "FINISHED"
