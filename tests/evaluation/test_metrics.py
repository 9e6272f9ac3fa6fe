"""Metrics agree with independent formulas and with uncertainty-toolbox where that is the same definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import uncertainty_toolbox as toolbox
from scipy import stats

from sciuq_runner.calibration.cdf import CDF
from sciuq_runner.calibration.conformal import Conformal
from sciuq_runner.calibration.crude import Crude
from sciuq_runner.evaluation import metrics
from sciuq_runner.predict.scaled_residual import N_LEVELS, Normal

RNG = np.random.default_rng(0)
N = 400
MEAN = RNG.standard_normal((N, 1))
STD = RNG.uniform(0.2, 1.5, (N, 1))
Y = MEAN + 1.3 * STD * RNG.standard_normal((N, 1)) + 0.1
FLAT = MEAN[:, 0], STD[:, 0], Y[:, 0]


def evaluate(mean: np.ndarray, std: np.ndarray, y: np.ndarray, **others: Any) -> dict[str, float]:
    return metrics.evaluate(metrics.SplitArrays(mean, std, y, **others))


def test_rl2e_of_a_known_error():
    y = np.array([[3.0], [4.0]])
    assert metrics.rl2e(y + 1, y) == pytest.approx(np.sqrt(2) / 5)


def test_mpl_is_the_mean_density():
    assert metrics.mpl(MEAN, STD, Y) == pytest.approx(stats.norm(MEAN, STD).pdf(Y).mean(), rel=1e-12)


def test_rmsce_is_the_literal_sum_of_the_paper():
    levels = np.linspace(0, 1, N_LEVELS)
    inside = [(stats.norm(MEAN, STD).ppf(p) >= Y).mean() for p in levels]
    expected = np.sqrt(np.mean((levels - np.array(inside)) ** 2))
    assert metrics.rmsce(MEAN, STD, Y) == pytest.approx(expected, rel=1e-12)


def test_rmsce_agrees_with_the_toolbox_in_its_quantile_form():
    theirs = toolbox.root_mean_squared_calibration_error(
        MEAN[:, 0], STD[:, 0], Y[:, 0], num_bins=100, vectorized=True, prop_type="quantile"
    )
    assert metrics.rmsce(MEAN, STD, Y) == pytest.approx(theirs, rel=1e-9)


def test_the_calibration_curve_of_the_toolbox_is_mirrored():
    # it subtracts the reading from the prediction, and so counts readings above 1 - p for those below p; its RMSCE,
    # over symmetric levels, is the same, but a recalibration that is fitted to its curve shifts to the wrong side
    levels, theirs = toolbox.get_proportion_lists_vectorized(*FLAT, num_bins=100, prop_type="quantile")
    ours = metrics.observed_proportions(MEAN, STD, Y, levels)
    np.testing.assert_allclose(ours, 1 - theirs[::-1], atol=1e-12)
    assert np.abs(ours - theirs).max() > 0.05


def test_rmsce_of_central_intervals_is_another_number():
    # the default of the toolbox takes central intervals, in which a bias and a skew cancel; the paper takes quantiles
    shifted = FLAT[0] + 0.5 * FLAT[1], *FLAT[1:]
    theirs = toolbox.root_mean_squared_calibration_error(*shifted, vectorized=True)
    assert metrics.rmsce(*shifted) > 1.2 * theirs


def test_a_reading_at_a_quantile_counts_as_below():
    assert metrics.observed_proportions(np.zeros(1), np.ones(1), np.zeros(1), np.array([0.5])) == 1


def test_rmsce_does_not_count_a_reading_far_below_as_below_everything():
    # its level underflows to zero, but no reading is below the quantile of level zero
    levels = np.array([0.0, 0.5, 1.0])
    observed = metrics.observed_proportions(np.zeros(2), np.ones(2), np.array([-50.0, 50.0]), levels)
    np.testing.assert_array_equal(observed, [0, 0.5, 1])


def test_rmsce_vanishes_for_a_calibrated_prediction_and_not_for_others():
    n = 20_000
    y = RNG.standard_normal((n, 1))
    zero, one = np.zeros((n, 1)), np.ones((n, 1))
    # the empirical distribution function is within 1.95 / sqrt(n) of the truth with probability 0.999
    assert metrics.rmsce(zero, one, y) < 1.95 / np.sqrt(n)
    assert metrics.rmsce(zero, 3 * one, y) > 0.1
    assert metrics.rmsce(zero + 1, one, y) > 0.2


def test_piw_is_the_mean_width_between_quantiles():
    expected = (stats.norm(0, STD).ppf(0.975) - stats.norm(0, STD).ppf(0.025)).mean()
    assert metrics.piw(STD) == pytest.approx(expected, rel=1e-12)
    assert metrics.piw(STD, 0.5) < metrics.piw(STD)


def test_piw_agrees_with_the_toolbox():
    bounds = toolbox.metrics_calibration.get_prediction_interval(MEAN[:, 0], STD[:, 0], 0.95)
    assert metrics.piw(STD) == pytest.approx(np.mean(bounds.upper - bounds.lower), rel=1e-12)


def test_scores_agree_with_the_toolbox():
    assert metrics.nll(MEAN, STD, Y) == pytest.approx(toolbox.nll_gaussian(*FLAT), rel=1e-12)
    assert metrics.crps(MEAN, STD, Y) == pytest.approx(toolbox.crps_gaussian(*FLAT), rel=1e-12)
    assert metrics.sharpness(STD) == pytest.approx(toolbox.sharpness(STD[:, 0]), rel=1e-12)
    for level in (0.5, 0.95):  # by default it averages over levels from 1 to 99 %
        theirs = toolbox.interval_score(*FLAT, start_p=level, end_p=level, resolution=1)
        assert metrics.interval_score(MEAN, STD, Y, level) == pytest.approx(theirs, rel=1e-12)


def test_nll_is_finite_where_the_likelihood_underflows():
    assert metrics.mpl(np.zeros(1), np.ones(1), np.full(1, 60.0)) == 0
    assert metrics.nll(np.zeros(1), np.ones(1), np.full(1, 60.0)) == pytest.approx(1800 + np.log(2 * np.pi) / 2)


def test_sdcv_is_the_coefficient_of_variation():
    assert metrics.sdcv(STD) == pytest.approx(stats.variation(STD[:, 0]), rel=1e-12)
    assert metrics.sdcv(np.ones(5)) == 0


def test_rl2e_may_be_taken_against_the_clean_reference():
    noisy = evaluate(MEAN, STD, Y)
    clean = evaluate(MEAN, STD, Y, reference=MEAN)
    assert clean["rl2e"] == 0
    assert {**noisy, "rl2e": 0.0, "coverage": 1.0} == clean


def test_coverage_counts_the_truth_inside_the_interval():
    truth = MEAN + STD * np.where(np.arange(len(STD)) % 4 == 0, 2.0, 1.9)[:, None]
    assert metrics.coverage(MEAN, STD, truth) == pytest.approx(np.mean(np.arange(len(STD)) % 4 != 0))
    assert metrics.coverage(MEAN, STD, truth, standard=Normal(1.1)) == 1


def test_nothing_is_relative_to_zero():
    assert "rl2e" not in evaluate(MEAN, STD, Y, reference=0 * MEAN)


def test_a_calibrated_scale_is_a_scaled_prediction():
    assert evaluate(MEAN, STD, Y, standard=Normal(1.7)) == pytest.approx(evaluate(MEAN, 1.7 * STD, Y), rel=1e-12)


@pytest.mark.parametrize("calibrator", [CDF(), Crude(), Conformal()], ids=str)
def test_metrics_of_a_calibrated_distribution_by_drawing_from_it(calibrator):
    mean, std, y = MEAN[:20], STD[:20], Y[:20]
    standard = calibrator.fit((Y[20:] - MEAN[20:]) / STD[20:])
    found = evaluate(mean, std, y, standard=standard)
    n = 20_000
    draws = mean + std * standard.quantile((np.arange(n) + 0.5) / n)  # [20, n], every row equally spaced in level
    # a midpoint sum of n terms errs by about the largest of them over n; squares are the largest here
    rounding = {"rel": 2 / n * np.square(standard.quantile(np.array([0.5 / n, 1 - 0.5 / n]))).max()}

    assert list(found) == ["rl2e", "mpl", "rmsce", "piw", "sdcv", "nll", "crps", "interval_score", "sharpness"]
    centre = draws.mean(1, keepdims=True)
    assert found["rl2e"] == pytest.approx(metrics.rl2e(centre, y), **rounding)
    deviation = draws.std(1, keepdims=True)
    assert found["sdcv"] == pytest.approx(metrics.sdcv(deviation), **rounding)
    assert found["sharpness"] == pytest.approx(np.sqrt(np.mean(deviation**2)), **rounding)
    difference = np.mean(draws * (2 * np.arange(n) + 1 - n) / n, axis=1, keepdims=True)
    absolute = np.abs(draws - y).mean(1, keepdims=True)
    assert found["crps"] == pytest.approx(np.mean(absolute - difference), **rounding)

    levels = np.linspace(0, 1, N_LEVELS)
    observed = (standard.cdf((y - mean) / std) <= levels).mean(0)
    assert found["rmsce"] == pytest.approx(np.sqrt(np.mean((observed - levels) ** 2)), rel=1e-12)
    step = 1e-6 * std
    level = [standard.cdf((y + shift * step - mean) / std) for shift in (-1, 1)]
    density = (level[1] - level[0]) / (2 * step)
    assert found["mpl"] == pytest.approx(density.mean(), rel=1e-4)
    assert found["nll"] == pytest.approx(-np.log(density).mean(), rel=1e-4)

    lower, upper = (mean + std * end for end in standard.interval(0.95))
    assert found["piw"] == pytest.approx((upper - lower).mean(), rel=1e-12)
    penalty = np.where(y < lower, lower - y, 0) + np.where(y > upper, y - upper, 0)
    assert found["interval_score"] == pytest.approx(np.mean(upper - lower + 40 * penalty), rel=1e-12)


def test_gold_standard_metrics():
    gold = STD * 2
    assert metrics.nip_g(gold, STD) == pytest.approx(1.0)
    cosine = np.sum(STD**2) / np.sqrt(np.sum(STD**4) * N)
    assert metrics.nip_g(np.ones_like(STD), STD) == pytest.approx(cosine)
    assert metrics.kl_g(MEAN, STD, MEAN, STD) == pytest.approx(0, abs=1e-12)
    import torch

    normals = (torch.distributions.Normal(torch.as_tensor(m), torch.as_tensor(s)) for m, s in ((Y, gold), (MEAN, STD)))
    expected = torch.distributions.kl_divergence(*normals).mean().item()
    assert metrics.kl_g(Y, gold, MEAN, STD) == pytest.approx(expected, rel=1e-12)
