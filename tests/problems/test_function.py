"""The data of the function problem."""

from __future__ import annotations

import numpy as np
import pytest
from sciuq_runner.problems.function import Function, exact

from sciuq_runner.seeds import stream


def test_the_function_at_points_known_by_hand():
    np.testing.assert_allclose(exact(np.array([-1.0, -0.75, -0.25])), [-0.5, 0.0, -1.0], atol=1e-12)
    np.testing.assert_allclose(exact(np.array([0.0, 1 / 6, 0.5, 1.0])), [0.5, 1.0, 0.0, 0.5], atol=1e-12)


def test_training_points_are_sixteen_and_sixteen_equidistant():
    x = Function().dataset(stream(0, "data"))["u"].train.x[:, 0]
    assert len(x) == 32
    np.testing.assert_allclose(x[:16], np.linspace(-0.8, -0.2, 16))
    np.testing.assert_allclose(x[16:], np.linspace(0.2, 0.8, 16))


def test_splits_cover_the_grid_without_overlap():
    data = Function().dataset(stream(0, "data"))["u"]
    x = np.round(data.test.x[:, 0], 12)
    inside, outside = data.splits["id"], data.splits["ood"]
    assert (inside ^ outside).all()
    assert (((np.abs(x) >= 0.2) & (np.abs(x) <= 0.8)) == inside).all()


def test_noise_has_the_scale_that_is_set_in_every_split():
    data = Function(n_train=4000, n_calibration=4000, n_test=4001, noise_scale=0.3).dataset(stream(0, "data"))["u"]
    for readings in (data.train, data.calibration, data.test):
        noise = readings.y[:, 0] - exact(readings.x[:, 0])
        n = len(noise)
        assert noise.std() == pytest.approx(0.3, rel=5 / np.sqrt(2 * n))
        assert noise.mean() == pytest.approx(0, abs=5 * 0.3 / np.sqrt(n))
    np.testing.assert_allclose(data.reference[:, 0], exact(data.test.x[:, 0]))


def test_calibration_points_are_in_distribution_and_are_not_training_points():
    data = Function().dataset(stream(0, "data"))["u"]
    x = np.abs(data.calibration.x[:, 0])
    assert ((x >= 0.2) & (x <= 0.8)).all()
    assert (data.calibration.x > 0).any()
    assert (data.calibration.x < 0).any()
    assert not set(data.calibration.x[:, 0]) & set(data.train.x[:, 0])


def test_a_seed_is_a_noise_draw():
    first, again, other = (Function().dataset(stream(seed, "data"))["u"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.train.y, again.train.y)
    assert not np.allclose(first.train.y, other.train.y)


@pytest.mark.parametrize("case", ["heteroscedastic", "student_t"])
def test_noise_grows_with_the_distance_from_zero(case):
    data = Function(case=case, n_test=40_001).dataset(stream(0, "data"))["u"]
    x, noise = data.test.x[:, 0], data.test.y[:, 0] - exact(data.test.x[:, 0])
    standard = noise[np.abs(x) > 0.1] / (0.5 * np.abs(x[np.abs(x) > 0.1]))
    variance, kurtosis = (1.0, 3.0) if case == "heteroscedastic" else (5 / 3, 9.0)
    n = len(standard)
    error = 5 * np.sqrt((kurtosis - 1) / n) if case == "heteroscedastic" else 0.1  # t(5) has a fourth moment, no eighth
    assert standard.var() == pytest.approx(variance, rel=error)
    np.testing.assert_allclose(data.noise_reference[:, 0], 0.5 * np.abs(x) * np.sqrt(variance))


def test_cases_tell_the_model_what_they_should():
    kinds = {case: Function(case=case).noise["u"].kind for case in ("known", "unknown", "heteroscedastic", "student_t")}
    assert kinds == {
        "known": "known",
        "unknown": "learned",
        "heteroscedastic": "heteroscedastic",
        "student_t": "heteroscedastic",
    }
    assert Function(case="student_t").noise["u"].family == "gaussian"
    assert Function(case="student_t", likelihood="student_t").noise["u"].family == "student_t"
