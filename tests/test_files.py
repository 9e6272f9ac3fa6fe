"""Files that are complete or not there, and second names for them."""

from __future__ import annotations

import errno
import os

import pytest

from sciuq_runner.files import link_or_copy


def test_a_second_name_takes_no_space_and_replaces_what_was_there(tmp_path):
    source, second = tmp_path / "samples", tmp_path / "model" / "samples"
    source.write_text("new")
    second.parent.mkdir()
    second.write_text("old")
    for _ in range(2):  # of the same file too
        link_or_copy(source, second)
        assert second.samefile(source)
    assert [path.name for path in second.parent.iterdir()] == ["samples"]


def test_where_the_file_system_has_no_links_it_is_a_copy(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "samples").write_text("new")
    link_or_copy(tmp_path / "samples", tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "new"
    assert not (tmp_path / "copy").samefile(tmp_path / "samples")


def test_a_missing_file_has_no_second_name(tmp_path):
    with pytest.raises(FileNotFoundError):
        link_or_copy(tmp_path / "samples", tmp_path / "copy")
    assert not list(tmp_path.iterdir())
