"""Results come back from files as they were, those of earlier versions too, and damage is named."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from sciuq_runner import files, layout
from sciuq_runner.calibration.cdf import CDF
from sciuq_runner.calibration.var import Var
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.metrics_file import title_of
from sciuq_runner.evaluation.result_files import (
    prediction_arrays,
    read_results,
    recalibrating,
    refuse_half_calibrated,
    write_results,
)
from sciuq_runner.evaluation.results import PredictedObservations, Result
from sciuq_runner.physics.observations import Observations
from tests.evaluation.samples import line, observed, operator


def assert_same(one: object, other: object) -> None:
    """Dataclasses of arrays that are equal."""
    assert type(one) is type(other)
    if isinstance(one, Result | PredictedObservations | Observations):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, dict):
        assert list(one) == list(other)  # type: ignore[call-overload]
        for key, value in one.items():
            assert_same(value, other[key])  # type: ignore[index]
    elif hasattr(one, "to_dict"):
        assert one.to_dict() == other.to_dict()  # type: ignore[attr-defined]
    else:
        np.testing.assert_array_equal(one, other)  # type: ignore[arg-type]


def test_results_come_back_as_they_were(tmp_path):
    several = observed(line().x[::2], 4, copies=2)
    found = {
        "u": line(noise_reference=np.ones((60, 1)), train=several).calibrate({"var": Var(), "cdf": CDF()}, np.ones(3)),
        "v": operator(line(units=np.ones((60, 2)))),
        "v_mean": line(statistic_of="v"),
    }
    write_results(tmp_path, found)
    assert_same(read_results(tmp_path), found)


def test_a_file_of_an_earlier_version_has_single_observations(tmp_path):
    found = {"u": line()}
    arrays = prediction_arrays(found)
    later = ("copies", "random", "statistic_of")
    files.write_npz(tmp_path / layout.PREDICTIONS, {k: v for k, v in arrays.items() if not k.endswith(later)})
    assert_same(read_results(tmp_path), found)  # nor does it need calibration.json


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"u_mean": None}, "lacks the array u_mean"),
        ({"quantities": None}, "lacks the array quantities"),
        ({"u_clean_rl2e": np.ones(3)}, "holds no predictions"),
        ({"split_of": np.ones(1), "u_split_../away": np.ones(60)}, "which is no name"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, changes, said):
    arrays = {**prediction_arrays({"u": line()}), **changes}
    files.write_npz(tmp_path / layout.PREDICTIONS, {k: v for k, v in arrays.items() if v is not None})
    with pytest.raises(ConfigError, match=said):
        read_results(tmp_path)


def test_a_folder_without_predictions_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"has no predictions\.npz: name the folder of a finished run"):
        read_results(tmp_path)


@pytest.mark.parametrize("content", ['{"u": {"var": {"kind": "norml"}}}', '{"u": ["var"]}'])
def test_calibrations_that_are_none_are_named(tmp_path, content):
    files.write_npz(tmp_path / layout.PREDICTIONS, prediction_arrays({"u": line()}))
    (tmp_path / layout.CALIBRATION).write_text(content)
    with pytest.raises(ConfigError, match="holds no calibrated distributions"):
        read_results(tmp_path)


def test_a_new_calibration_that_does_not_end_leaves_its_mark(tmp_path: Path):
    with recalibrating(tmp_path):
        pass
    refuse_half_calibrated(tmp_path)
    with pytest.raises(KeyboardInterrupt), recalibrating(tmp_path):
        raise KeyboardInterrupt
    with pytest.raises(ConfigError, match="in the middle of a new calibration"):
        refuse_half_calibrated(tmp_path)


@pytest.mark.parametrize(
    ("choices", "case", "title"),
    [
        ({"problem": "function", "method": "hmc", "model": "bnn"}, "known", "function (known), hmc"),
        ({"problem": "rod", "method": "dens"}, None, "rod, dens"),
        ({"problem": "function", "method": "hmc", "model": "gan_fp"}, None, "function, gan_fp, hmc"),
    ],
)
def test_titles_leave_out_what_goes_without_saying(choices, case, title):
    assert title_of({"config": {"choices": choices, "problem": {"case": case}}}) == title


def test_single_precision_keeps_the_quantities(tmp_path):
    """As in the repository, where runs are kept small."""
    arrays = prediction_arrays({"u": replace(line(), standards={})})
    small = {key: part.astype(np.float32) if part.dtype == np.float64 else part for key, part in arrays.items()}
    files.write_npz(tmp_path / layout.PREDICTIONS, small)
    np.testing.assert_allclose(read_results(tmp_path)["u"].mean, line().mean, rtol=1e-6)
