"""What comes from elsewhere (a problem, data, a run folder, an artifact) runs no code and writes nowhere."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

CALL = "{_target_: os.mkdir, path: ATTACKED}"


class Attack:
    """Unpickling it leaves a mark in the working folder."""

    def __reduce__(self):
        return os.mkdir, ("ATTACKED",)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """All happens in a folder of its own, in which no attack may leave its mark."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "ATTACKED").exists()


@pytest.fixture
def folder(finished, tmp_path) -> Path:
    """A copy of a finished run, beside a folder that does not belong to it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "points.csv").write_text("x\n0.5\n")
    return Path(shutil.copytree(finished, tmp_path / "run"))


def everywhere(text: str) -> str:
    """A configuration that may set anything."""
    return f"# @package _global_\n{text}\n"
