"""Processes that run jobs: none takes another with it, and all end when asked to."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from sciuq_runner.reproduction import job_processes
from sciuq_runner.reproduction.job_processes import Task


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    """Tasks are lines of Python instead of runs."""
    monkeypatch.setattr(job_processes, "command", lambda arguments: [sys.executable, "-c", *arguments])
    monkeypatch.setattr(job_processes, "POLL", 0.02)


def test_a_task_that_fails_or_dies_does_not_stop_the_others(tmp_path):
    tasks = [
        Task("wrong", ["print('first\\nthe reason\\n'); raise SystemExit(2)"]),
        Task("dead", ["import os; os.kill(os.getpid(), 9)"]),
        Task("fine", ["pass"]),
    ]
    ended: list[str] = []
    assert job_processes.run_tasks(tasks, 1, lambda task: ended.append(task.name), tmp_path / "logs")
    assert ended == ["wrong", "dead", "fine"]
    assert [task.status for task in tasks] == [2, -9, 0]
    assert tasks[0].message == f"the reason ({tmp_path}/logs/wrong.log)"
    assert tasks[1].message.startswith("exit status -9")
    assert (tmp_path / "logs/wrong.log").read_text() == "first\nthe reason\n\n"
    assert not (tmp_path / "logs/fine.log").exists()


def spans(folder: Path) -> dict[str, tuple[float, float]]:
    return {path.name: tuple(map(float, path.read_text().split())) for path in folder.glob("span*")}


def timed(folder: Path, name: str) -> list[str]:
    """A task that leaves when it started and ended."""
    path = folder / f"span_{name}"
    return [f"import time; a = time.time(); time.sleep(0.3); open({str(path)!r}, 'w').write(f'{{a}} {{time.time()}}')"]


def overlap(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def test_the_first_of_a_group_goes_ahead_and_the_others_follow_together(tmp_path):
    tasks = [Task(name, timed(tmp_path, name), "prior") for name in ("first", "second", "third")]
    tasks.append(Task("alone", timed(tmp_path, "alone")))
    assert job_processes.run_tasks(tasks, 2, lambda task: None, tmp_path)
    found = spans(tmp_path)
    assert not overlap(found["span_first"], found["span_second"])
    assert not overlap(found["span_first"], found["span_third"])
    assert overlap(found["span_first"], found["span_alone"])
    assert overlap(found["span_second"], found["span_third"])


def test_a_group_whose_common_part_is_there_need_not_wait(tmp_path):
    tasks = [Task(name, timed(tmp_path, name), "prior") for name in ("first", "second")]
    assert job_processes.run_tasks(tasks, 2, lambda task: None, tmp_path, {"prior"})
    assert overlap(*spans(tmp_path).values())


def test_ctrl_c_ends_all_processes_by_two_signals_and_starts_no_more(tmp_path):
    listen = (
        "import os, signal, sys, time\n"
        f"folder = {str(tmp_path)!r}\n"
        "count = 0\n"
        "def handle(*_):\n"
        "    global count\n"
        "    count += 1\n"
        "    if count == 2:\n"
        "        open(f'{folder}/twice_{os.getpid()}', 'w').close()\n"
        "        sys.exit(130)\n"
        "signal.signal(signal.SIGINT, handle)\n"
        "open(f'{folder}/ready_{os.getpid()}', 'w').close()\n"
        "while True: time.sleep(0.01)\n"
    )
    tasks = [Task(str(index), [listen]) for index in range(3)]

    def interrupt() -> None:
        deadline = time.monotonic() + 30
        while len(list(tmp_path.glob("ready_*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert not job_processes.run_tasks(tasks, 2, lambda task: None, tmp_path)
    thread.join()
    assert len(list(tmp_path.glob("ready_*"))) == len(list(tmp_path.glob("twice_*"))) == 2
    for path in tmp_path.glob("ready_*"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name.partition("_")[2]), 0)
