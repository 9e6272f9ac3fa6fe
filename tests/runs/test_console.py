"""What the terminal shows of a finished run."""

from __future__ import annotations

import numpy as np

from sciuq_runner import files, layout
from sciuq_runner.runs.console import print_summary

METRICS = {"u": {"id": {"rl2e": 0.1}, "ood": {"rl2e": 0.4}}, "diagnostics": {}, "noise": {}, "parameters": {}}


def test_splits_are_told_apart_once_by_their_numbers(tmp_path, capsys):
    values = {"value_id": np.array(0.25), "value_ood": np.array(0.15)}
    files.write_npz(
        tmp_path / layout.DETECTION, {**values, "score_std": np.ones(3), "label": np.array("correlation length")}
    )
    print_summary(METRICS, tmp_path, None)
    assert capsys.readouterr().out.count("splits by correlation length: id 0.25, ood 0.15\n") == 1


def test_splits_without_numbers_have_their_names_alone(tmp_path, capsys):
    print_summary(METRICS, tmp_path, None)
    files.write_npz(tmp_path / layout.DETECTION, {"score_std": np.ones(3), "label": np.array("")})
    print_summary(METRICS, tmp_path, None)
    assert "splits by" not in capsys.readouterr().out
