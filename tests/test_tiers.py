"""Which tests run: the tier that a command chooses, the file that is first, the time that is left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

RECORD = """#!/bin/sh
case "$*" in -c*) exec {python} "$@" ;; esac
echo "${{0##*/}} $*"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The scripts in a folder whose environment holds programs that say how they were called."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    with (tmp_path / "scripts" / "_setup.sh").open("a") as file:
        file.write("set_up() { :; }\n")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    for name in ("python", "ruff", "mypy", "lint-imports"):
        (programs / name).write_text(RECORD.format(python=sys.executable))
        (programs / name).chmod(0o755)
    return tmp_path


CHECKS = ["ruff check", "ruff format --check", "mypy ", "lint-imports "]
TIERS = {
    "": (CHECKS, ["not slow and not full"]),
    "--full": (CHECKS, ["not slow"]),
    "--all": (CHECKS, ["not slow", "slow"]),
    "--rest --budget 900 --rotate 3": ([], ["full and not slow"]),
    "--slow": ([], ["slow"]),
    "--update-sentences": ([], ["syrupy_snapshot --snapshot-update"]),
    "tests/test_target.py -k prior": ([], ["not slow"]),
}


@pytest.mark.parametrize("arguments", TIERS)
def test_a_command_chooses_its_tier(project, arguments):
    own = {key: value for key, value in os.environ.items() if key != "SCIUQ_VENV"}
    command = [project / "scripts" / "test", *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=own)
    checks, marks = TIERS[arguments]
    found = done.stdout.splitlines()
    assert found[: len(checks)] == checks
    for line, mark in zip(found[len(checks) :], marks, strict=True):
        assert f"{line} ".startswith(f"python -m pytest -n 2 --dist worksteal -m {mark} ")
        assert line.endswith(arguments.removeprefix("--rest ") if " " in arguments else "")


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Three files with two tests each."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = full\n")
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text(
            "import pytest\n\ndef test_1(): ...\n\n@pytest.mark.full\ndef test_2(): ...\n"
        )
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "tests.tiers", "-p", "no:hypothesispytest", *arguments]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env = {**outside, "PYTHONPATH": str(ROOT), "SCIUQ_TEST_SEED": "5"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_files_begin_at_another_one_and_times_are_kept(suite):
    found = run(suite, "-v", "-n", "0", "-m", "full", "--rotate", "4")
    assert found.returncode == 0, found.stdout
    ran = [line.split()[0] for line in found.stdout.splitlines() if "PASSED" in line]
    assert ran == ["test_b.py::test_2", "test_c.py::test_2", "test_a.py::test_2"]
    assert "SCIUQ_TEST_SEED=5" in found.stdout
    assert set(json.loads((suite / ".pytest_cache/v/sciuq/seconds").read_text())) == set(ran)


def test_what_a_budget_leaves_is_counted_and_no_failure(suite):
    found = run(suite, "-n", "2", "--budget", "0")
    assert found.returncode == 0, found.stdout
    assert "6 skipped" in found.stdout
    assert "6 tests were left for another commit." in found.stdout
    assert "0 tests were left" in run(suite, "-n", "0", "--budget", "100").stdout
