"""Servers that we start listen to this machine alone, and take nothing away."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from sciuq_runner.tracking.tracker import Tracker

ROOT = Path(__file__).parents[2]


def refused_database(tmp_path: Path, folder: Path) -> str:
    """What scripts/postgres says of a folder; programs that do nothing stand for PostgreSQL, which may not be here."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    for name in ("initdb", "postgres"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\nexit 3\n")
        (tmp_path / "bin" / name).chmod(0o755)
    found = subprocess.run(
        [str(ROOT / "scripts" / "postgres"), str(folder)],
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2, found
    assert found.stderr.count("\n") == 1, found.stderr
    return found.stderr


def test_a_database_takes_nothing_away(tmp_path):
    """A folder of the person's own, with data of theirs: neither these nor who may read them changes."""
    folder = tmp_path / "mine"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "results.csv").write_text("x\n1\n")
    folder.chmod(0o755)
    before = folder.stat()
    said = refused_database(tmp_path, folder)
    assert "holds no database of PostgreSQL" in said or "not to postgres" in said or "does not run as root" in said
    assert (folder / "data" / "results.csv").read_text() == "x\n1\n"
    assert (folder.stat().st_uid, folder.stat().st_mode) == (before.st_uid, before.st_mode)
    if os.getuid() == 0 and "not to postgres" in said:  # as root, a folder of the server's own user
        shutil.chown(folder, "postgres")
        assert "holds no database of PostgreSQL" in refused_database(tmp_path, folder)
        assert (folder / "data" / "results.csv").read_text() == "x\n1\n"


def test_servers_listen_to_this_machine_alone(tmp_path):
    lines = (ROOT / "scripts" / "ui").read_text().splitlines()
    (command,) = [line for line in lines if line.startswith("exec ")]
    assert " --host 127.0.0.1 " in command
    assert Tracker(None, "sciuq", tmp_path).ui_command.endswith("--host 127.0.0.1")
    shown = [line for line in (ROOT / "README.md").read_text().splitlines() if "mlflow models serve -m" in line]
    assert shown
    assert all("--host 127.0.0.1" in line for line in shown)
