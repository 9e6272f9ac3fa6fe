"""A closed pipe ends a command quietly; a closed terminal ends a run quietly, and what was computed is kept."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from sciuq_runner.cli.common import CLOSED_PIPE, conclude
from sciuq_runner.errors import WRONG_INPUT
from sciuq_runner.runs import signals
from sciuq_runner.runs.signals import stop_on_signal
from tests.conftest import environment, program


def call_without_reader(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code whose standard output is a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env=environment(PYTHONUNBUFFERED=""),  # so that all is written at the end, as in a shell
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )
    finally:
        os.close(writer)


QUESTIONS = {
    "help of run": ("sciuq_runner.cli.run", "main(['--help'])"),
    "configuration": ("sciuq_runner.cli.run", "main(['--cfg', 'job'])"),
    "help of report": ("sciuq_runner.cli.report", "main(['--help'])"),
    "names of the paper": ("sciuq_runner.cli.reproduce", "main(['--list'])"),
    "help of sync": ("sciuq_runner.cli.sync", "main(['--help'])"),
    "help of predict": ("sciuq_runner.cli.predict", "main(['--help'])"),
}


@pytest.mark.cli
@pytest.mark.parametrize(("module", "call"), QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_whose_answer_nobody_reads_ends_quietly(tmp_path, module, call):
    found = call_without_reader(tmp_path, f"from {module} import *\n{call}")
    assert (found.returncode, found.stderr) == (CLOSED_PIPE, "")


@pytest.mark.cli
def test_predictions_and_a_report_that_nobody_reads_end_quietly(tmp_path, finished):
    (tmp_path / "points.csv").write_text("x\n" + "0.5\n" * 5000)
    arguments = [str(finished), "points.csv"]
    found = call_without_reader(tmp_path, f"from sciuq_runner.cli.predict import *\nmain({arguments!r})")
    assert (found.returncode, found.stderr) == (CLOSED_PIPE, "")
    found = call_without_reader(tmp_path, f"from sciuq_runner.cli.report import *\nmain(['--runs', {arguments[0]!r}])")
    assert (found.returncode in (1, CLOSED_PIPE), found.stderr) == (True, "")  # rich ends with 1
    assert (tmp_path / "report.html").is_file()


def fill_disk() -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(("action", "flush"), [(fill_disk, lambda: None), (lambda: None, fill_disk)])
def test_other_failures_of_the_output_are_said(monkeypatch, capsys, action, flush):
    monkeypatch.setattr("sciuq_runner.runs.closed_output.silence_output", lambda: None)
    monkeypatch.setattr(sys.stdout, "flush", flush, raising=False)
    with pytest.raises(SystemExit) as ended:
        conclude("sciuq-test", action)
    monkeypatch.undo()
    assert ended.value.code == WRONG_INPUT
    assert capsys.readouterr().err == "sciuq-test: No space left on device: a file.\n"


def start_in_terminal(folder: Path, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """The real program in a terminal of its own, and the end of it that a window would hold."""
    window, terminal = pty.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may have been started by nohup

    process = subprocess.Popen(
        program(*arguments),
        cwd=folder,
        env=environment(TERM="xterm"),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=take_terminal,
    )
    os.close(terminal)
    return process, window


def read_until(window: int, text: bytes) -> None:
    """Wait for a word on the terminal."""
    seen, deadline = b"", time.monotonic() + 120
    while text not in seen:
        assert time.monotonic() < deadline, seen
        seen += os.read(window, 4096)


@pytest.mark.cli
def test_a_closed_terminal_ends_a_run_and_what_was_computed_is_kept(tmp_path):
    process, window = start_in_terminal(
        tmp_path,
        *("fidelity=smoke", "method.n_samples=40000", "method.compile=never", "figures=false", "gold=null"),
        *("tracking=none", "hydra.run.dir=run"),
    )
    read_until(window, b"sampling")
    os.close(window)
    assert process.wait(120) == 130
    assert json.loads((tmp_path / "run/metrics.json").read_text())["interrupted"] is True
    assert json.loads((tmp_path / "run/tracking.json").read_text())["status"] == "KILLED"
    assert "Stopped early" in (tmp_path / "run/run.log").read_text()
    assert not (tmp_path / "run/traceback.txt").exists()


@pytest.fixture
def quiet(monkeypatch):
    """The output of the tests themselves stays open."""
    monkeypatch.setattr(signals, "silence_output", lambda: None)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("quiet")
def test_a_terminal_that_is_closed_twice_stops_once():
    asked: list[bool] = []
    with stop_on_signal(lambda: asked.append(True)):
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)  # while what was computed is written
    assert asked == [True]


@pytest.mark.usefixtures("quiet")
def test_a_run_that_should_outlive_its_terminal_goes_on():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    asked: list[bool] = []
    with stop_on_signal(lambda: asked.append(True)):
        os.kill(os.getpid(), signal.SIGHUP)
        assert asked == []
        os.kill(os.getpid(), signal.SIGTERM)
    assert asked == [True]
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


@pytest.mark.usefixtures("quiet")
def test_after_ctrl_c_a_closed_terminal_is_as_it_was():
    before = signal.getsignal(signal.SIGHUP)
    asked: list[bool] = []
    with stop_on_signal(lambda: asked.append(True)):
        os.kill(os.getpid(), signal.SIGINT)
    assert asked == [True]
    assert signal.getsignal(signal.SIGHUP) == before
