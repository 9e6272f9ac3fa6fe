"""The gold standard: the analogous Gaussian process, or a finished run on the same test grid."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sciuq_runner import files, layout
from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.gold_standard import gold_standard, read_run
from sciuq_runner.evaluation.metrics_file import STOPPED_EARLY
from sciuq_runner.evaluation.result_files import prediction_arrays
from tests.evaluation.samples import line

DATASET: Any = {"u": SimpleNamespace(test=SimpleNamespace(x=line().x))}


def finished(folder: Path, **arrays: np.ndarray) -> Path:
    """The folder of a run that has predicted ``line()``, with other arrays in places."""
    files.write_npz(folder / layout.PREDICTIONS, {**prediction_arrays({"u": line()}), **arrays})
    files.write_json(folder / layout.METRICS, {STOPPED_EARLY: False})
    return folder


@pytest.mark.parametrize(("case", "there"), [("known", True), ("unknown", False)])
def test_the_gaussian_process_serves_where_the_noise_is_known(case, there):
    register_resolvers()
    made = assemble(plain(compose(["problem=function", f"problem.case={case}", "fidelity=smoke"], None)))
    dataset, target = prepare(made)
    found = gold_standard("auto", target, dataset, 0)
    assert (list(found) == ["u"]) is there
    if there:
        mean, std = found["u"]
        assert mean.shape == std.shape == dataset["u"].reference.shape
        assert (std >= 0.99 * 0.1).all()  # no less than the noise
        inside = dataset["u"].splits["id"]
        error = np.abs(mean - dataset["u"].reference)[inside]
        assert np.mean(error < 2 * std[inside]) > 0.9
    assert gold_standard(None, target, dataset, 0) == {}


def test_a_finished_run_is_the_gold_standard(tmp_path):
    mean, std = gold_standard(str(finished(tmp_path)), SimpleNamespace(), DATASET, 0)["u"]  # type: ignore[arg-type]
    np.testing.assert_array_equal(mean, line().mean)
    np.testing.assert_array_equal(std, line().std)


def test_a_run_that_was_stopped_early_is_none(tmp_path):
    files.write_json(finished(tmp_path) / layout.METRICS, {STOPPED_EARLY: True})
    with pytest.raises(ConfigError, match="was stopped early"):
        read_run(tmp_path, DATASET)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"u_x": line().x + 1}, "on the test grid of this problem"),
        ({"u_mean": line().mean[:7]}, "as runs do"),
        ({"u_epistemic_std": np.full((60, 1), "a")}, "as runs do"),
    ],
)
def test_a_run_of_something_else_is_named(tmp_path, arrays, said):
    with pytest.raises(ConfigError, match=said):
        read_run(finished(tmp_path, **arrays), DATASET)


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"has no predictions\.npz"):
        read_run(tmp_path, DATASET)
