"""Where computed data are kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sciuq_runner.physics.data_cache import CACHE_VARIABLE, cache_folder


def test_the_variable_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"


@pytest.mark.skipif(sys.platform != "linux", reason="other platforms have cache folders of their own")
def test_on_linux_it_is_in_the_cache_folder_of_the_person(tmp_path, monkeypatch):
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "sciuq_runner"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "sciuq_runner"


def test_a_person_without_a_home_has_none(monkeypatch):
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(RuntimeError, match="home"):
        cache_folder()
