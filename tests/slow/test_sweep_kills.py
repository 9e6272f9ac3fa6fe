"""A sweep that is killed at random moments, again and again, ends like one that was left alone."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.sweeps.test_sweeps import SETTINGS, by_seed, call, check_family, database, kill_when

pytestmark = [pytest.mark.slow, pytest.mark.cli]

KILLS = 20


def test_twenty_kills_change_nothing(tmp_path):
    """SIGKILL of the process that started the sweep; its workers are to end by themselves."""
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    alone.mkdir()
    killed.mkdir()
    sweep = ["-m", *SETTINGS, "method.n_samples=3000", "seed=range(0,6)", "sweep=local", "sweep.jobs=2"]
    undisturbed = call(alone, *sweep)
    assert undisturbed.returncode == 0, undisturbed.stdout + undisturbed.stderr
    dice, kills = random.Random(0), 0
    while kills < KILLS:
        delay, began = dice.uniform(0.0, 15.0), []

        def ready(delay: float = delay, began: list[float] = began) -> bool:
            """Some time after the sweep has begun; importing is not worth being killed twenty times."""
            if not began and list(killed.glob("runs/*/.notes_*")):
                began.append(time.monotonic())
            return bool(began) and time.monotonic() - began[0] > delay

        if kill_when(killed, ready, *sweep, "sweep.resume=true") == -signal.SIGKILL:
            kills += 1
            continue
        check_end(killed, alone)  # it came to its end before: the next one starts from nothing
        shutil.rmtree(killed)
        killed.mkdir()
    resumed = call(killed, *sweep, "sweep.resume=true")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    check_end(killed, alone)


def check_end(killed: Path, alone: Path) -> None:
    check_family(database(killed), 6)
    assert by_seed(killed) == by_seed(alone)
