"""What can go wrong in a night, on the real program: each ends in a sentence, and nothing that was written is lost."""

from __future__ import annotations

import errno
import fcntl
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
from mlflow import MlflowClient
from sqlalchemy import text

from sciuq_runner import files, lock
from sciuq_runner.errors import ConfigError
from sciuq_runner.gold import read_run
from sciuq_runner.lock import held
from sciuq_runner.loop import Loop
from sciuq_runner.models.gan_fp import PriorTraining
from sciuq_runner.record import read_record
from sciuq_runner.report.runs import read_folder
from sciuq_runner.results import RECALIBRATING
from sciuq_runner.sync import main as sync
from sciuq_runner.tools import calibrate, plot, predict
from sciuq_runner.tracking.experiment import PATIENCE
from sciuq_runner.tracking.tracker import Tracker
from tests.conftest import Inside, environment, read_metrics, start

pytestmark = pytest.mark.cli

SMOKE = ("fidelity=smoke", "method=dens")
ALONE = (*SMOKE, "tracking=none", "gold=null")


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system of its own in memory; skips the test where that is not allowed."""
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"mounting a tmpfs needs root and a system that allows it: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)  # even where a log is still open


# Files


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    files.write_json(path, {"a": 1})

    def fail(target: Path) -> None:
        target.write_text("half")
        raise OSError(28, "No space left on device", str(target))

    with pytest.raises(OSError, match="No space left") as caught:
        files.write_atomically(path, fail)
    assert caught.value.filename == str(path)
    assert files.read_json(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    """One begins before the other and ends after it; both succeed, and the last one counts."""
    path = tmp_path / "a.txt"

    def slow(target: Path) -> None:
        target.write_text("slow")
        files.write_atomically(path, lambda other: other.write_text("quick"))
        assert path.read_text() == "quick"

    files.write_atomically(path, slow)
    assert path.read_text() == "slow"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_is_taken_away(tmp_path):
    (tmp_path / "figures").mkdir()
    for name in (".a.0123.partial.npz", "figures/.b.0123.partial.png"):
        (tmp_path / name).touch()
    (tmp_path / "partial.npz").touch()
    files.remove_partial(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["partial.npz"]


def test_a_full_disk_ends_in_a_sentence_and_loses_nothing(inside: Inside, tmp_path):
    """The disk fills up after the first checkpoint; with room again, the run goes on from there."""
    settings = ("fidelity=smoke", "tracking=none", "gold=null", "checkpoint_interval=0.001", "hydra.run.dir=run")
    with mounted(tmp_path / "disk", "size=4m") as disk:
        kept = disk / "kept.txt"
        kept.write_text("here before")
        filler = disk / "filler"

        def fill() -> None:
            checkpoint, deadline = disk / "run" / "checkpoint.safetensors", time.monotonic() + 120
            while not checkpoint.exists() and time.monotonic() < deadline:
                time.sleep(0.001)
            with filler.open("wb", buffering=0) as file:
                for size in (65536, 1024, 1):
                    try:
                        while True:
                            file.write(bytes(size))
                    except OSError:
                        continue

        thread = threading.Thread(target=fill, daemon=True)
        thread.start()
        found = inside(*settings, "method.n_burn=300", folder=disk)
        thread.join()
        assert found.status == 1, found.out
        (sentence,) = [line for line in found.out.splitlines() if line.startswith("Error")]
        assert re.fullmatch(r"Error: No space left on device: .*: go on with sciuq-run resume=.*run\.", sentence)
        assert "Traceback" not in found.out + found.err
        assert kept.read_text() == "here before"
        assert not list((disk / "run").rglob(".*.partial*"))
        assert not (disk / "run" / "metrics.json").exists()
        files.read_tensors(disk / "run" / "checkpoint.safetensors")
        filler.unlink()
        again = inside("resume=run", folder=disk)
        assert again.status == 0, again.out
        assert "Going on after" in again.out


def test_a_folder_that_cannot_be_written_is_named(inside: Inside, tmp_path):
    with mounted(tmp_path / "disk", "size=1m,ro") as disk:
        for extra, reason in ((), "cannot be used"), (("tracking=none",), "Read-only file system: "):
            found = inside(*SMOKE, *extra, folder=disk)
            assert found.status == 2
            assert reason in found.err
            assert found.err.count("\n") == 1, found.err
            assert found.out == ""


# Half-written runs


def copy(finished: Path, folder: Path) -> Path:
    subprocess.run(["cp", "-r", finished, folder / "run"], check=True)
    return folder / "run"


def refused(command, arguments: list[str], capsys) -> str:
    """The sentence that a command refuses with."""
    with pytest.raises(SystemExit) as caught:
        command(arguments)
    assert caught.value.code == 2
    sentence = capsys.readouterr().err
    assert sentence.count("\n") == 1, sentence
    assert "Traceback" not in sentence
    return sentence


def test_a_run_without_its_last_file_is_no_result(finished, tmp_path, capsys):
    folder = copy(finished, tmp_path)
    (folder / "metrics.json").unlink()
    for command, more in ((calibrate, ["calibration=cdf"]), (plot, []), (predict, ["points.csv"])):
        assert "name the folder of a finished run" in refused(command, [str(folder), *more], capsys)
    assert read_folder(folder).status == "UNFINISHED"
    with pytest.raises(ConfigError, match=r"has no metrics\.json: name the folder of a finished run"):
        read_run(folder, {})


LATER = ("tracking.json", "resume.json", "run.log")


def test_the_metrics_are_the_last_file_of_a_run(finished):
    """What comes later, beside the log, are notes on how the run ended."""
    results = [path for path in finished.rglob("*") if path.is_file() and path.name not in LATER]
    assert max(results, key=lambda path: path.stat().st_mtime_ns).name == "metrics.json"
    assert len(results) > 10


def test_a_calibration_that_was_killed_is_no_result_until_it_is_done_again(finished, tmp_path, capsys, monkeypatch):
    folder = copy(finished, tmp_path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sciuq_runner.tools._redraw", killed)
        with pytest.raises(SystemExit):
            calibrate([str(folder), "calibration=cdf"])
    capsys.readouterr()
    again = "run sciuq-calibrate on it again"
    assert again in refused(plot, [str(folder)], capsys)
    assert again in refused(predict, [str(folder), "points.csv"], capsys)
    assert read_folder(folder).status == "HALF CALIBRATED"
    with pytest.raises(ConfigError, match=again):
        read_run(folder, {})
    with pytest.raises(SystemExit) as caught:
        calibrate([str(folder), "calibration=cdf"])
    assert caught.value.code == 0
    assert not (folder / RECALIBRATING).exists()
    assert read_folder(folder).status == "FINISHED"


@pytest.mark.parametrize("name", ["metrics.json", "predictions.npz", "samples.safetensors", "model/config.json"])
def test_a_damaged_file_is_named(finished, tmp_path, capsys, name):
    """Cut in the middle: by a copy that was interrupted, since we leave no such file."""
    folder = copy(finished, tmp_path)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    (folder / "model/samples.safetensors").write_bytes((folder / "samples.safetensors").read_bytes())
    (tmp_path / "points.csv").write_text("x\n0.5\n")
    if name.startswith(("model", "samples")):
        sentence = refused(predict, [str(folder), str(tmp_path / "points.csv")], capsys)
    else:
        sentence = refused(plot, [str(folder)], capsys)
    assert Path(name).name in sentence
    assert "is the file complete?" in sentence


# Two runs in one folder


def test_a_folder_is_for_one_process_at_a_time(inside: Inside, tmp_path):
    holder = "import sys; from pathlib import Path; from sciuq_runner.lock import held\n"
    holder += "with held(Path('run')): print('held', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", holder], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    found = inside(*ALONE, "hydra.run.dir=run")
    assert found.status == 2
    assert found.err == "sciuq-run: run is in use by another run: wait for its end, or choose another folder.\n"
    assert not (tmp_path / "run" / ".hydra").exists()
    other.send_signal(signal.SIGKILL)
    other.wait()
    with held(tmp_path / "run"):
        pass


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_a_file_system_without_locks_keeps_nobody_from_working(inside: Inside, tmp_path, monkeypatch):
    """Some network file systems have none (flock says ENOSYS): the file itself, with who made it, is the lock then."""

    def none(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", none)
    with held(tmp_path / "run"), pytest.raises(ConfigError, match="in use"), held(tmp_path / "run"):
        pass
    found = inside("-m", *ALONE, "sweep.resume=true")
    assert found.status == 0, found.err


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_that_refuses_locks_is_worked_on_without(tmp_path, monkeypatch, number):
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with held(tmp_path / "run"), held(tmp_path / "run"):
        pass
    number = errno.EIO  # that is another matter
    with pytest.raises(OSError, match="Input/output"), held(tmp_path / "run"):
        pass


def test_who_waits_for_long_is_told_for_what(tmp_path, monkeypatch, caplog):
    """A file that stands for a lock can be left by a machine that is gone."""
    monkeypatch.setattr(lock, "PATIENCE", 0.1)
    path = tmp_path / ".lock"

    def wait() -> None:
        with lock.alone(path):
            pass

    with lock.alone(path):
        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        deadline = time.monotonic() + 20
        while not caplog.records and time.monotonic() < deadline:
            time.sleep(0.02)
    thread.join(20)
    assert not thread.is_alive()
    (record,) = caplog.records
    assert record.getMessage() == f"Waiting for another process, which holds {path}: remove that file if there is none."


def test_a_folder_that_holds_a_run_stays_as_it_is(inside: Inside, finished, tmp_path):
    folder = copy(finished, tmp_path)

    def state() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    before = state()
    found = inside(*ALONE, "hydra.run.dir=run", "seed=1")
    assert found.status == 2
    assert found.err == "sciuq-run: run already holds a run: choose another folder, or resume=run.\n"
    assert state() == before


# MLflow that is away


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


@pytest.mark.slow
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
    (tmp_path / "calibrating" / RECALIBRATING).touch()
    said = failed_sync(["."], capsys)
    assert re.search(r"complete: run \w+ is new: 4\d metrics, \d+ files and the model added\.", said), said
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


def test_every_session_of_mlflow_is_patient(tmp_path):
    """MLflow sets a time of its own in each; what SQLite says afterwards counts."""
    tracker = Tracker(None, "sciuq", tmp_path)
    tracker.connect()
    with tracker.client._tracking_client.store.ManagedSessionMaker() as session:
        assert session.execute(text("PRAGMA busy_timeout")).scalar() == 1000 * PATIENCE


@pytest.mark.slow
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


# Numbers that go wrong


TOO_FAST = {
    "dens": ["method.learning_rate=1e30"],
    "sens": ["method.learning_rate=1e30"],
    "swag": ["method.learning_rate=1e30"],
    "mcd": ["method.learning_rate=1e30"],
    "mfvi": ["method.learning_rate=1e30"],
    "la": ["method.learning_rate=1e30"],
    "ld": ["method.step_size=1e30"],
    "sgld": ["method.step_size=1e30", "method.final_step_size=1e30"],
    "sghmc": ["method.step_size=1e30", "method.final_step_size=1e30"],
}


@pytest.mark.parametrize("method", TOO_FAST)
def test_nan_in_training_is_a_failure_with_advice(inside: Inside, method, tmp_path):
    found = inside("fidelity=smoke", "tracking=none", f"method={method}", *TOO_FAST[method], "hydra.run.dir=run")
    assert found.status == 1, found.out
    (sentence,) = [line for line in found.out.splitlines() if line.startswith("Error")]
    assert re.search(r"try a smaller method\.(learning_rate|step_size)", sentence)
    assert "Traceback" not in found.out + found.err
    assert not (tmp_path / "run" / "metrics.json").exists()
    assert json.loads((tmp_path / "run" / "tracking.json").read_text())["status"] == "FAILED"


@pytest.mark.parametrize(("factor", "said"), [(0.0, "has collapsed"), (1e3, "has run away")])
def test_a_generator_that_loses_the_game_is_a_failure_with_advice(inside: Inside, tmp_path, monkeypatch, factor, said):
    """All of its realisations become one, or far too different."""
    good = PriorTraining.simulate
    monkeypatch.setattr(PriorTraining, "simulate", lambda self, *inputs: factor * good(self, *inputs))
    found = inside("fidelity=smoke", "tracking=none", "model=gan_fp", "model.gan.compile=never", "hydra.run.dir=run")
    assert found.status == 1, found.out
    (sentence,) = [line for line in found.out.splitlines() if line.startswith("Error")]
    assert f"The generator {said}" in sentence
    assert "try a smaller model.gan.learning_rate" in sentence
    assert "The last good weights are in" in sentence
    assert (tmp_path / "run" / "last_good.safetensors").is_file()
    assert not (tmp_path / "run" / "metrics.json").exists()
    assert not list(tmp_path.glob("pretrained/*.safetensors"))
