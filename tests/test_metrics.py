"""Metrics agree with independent formulas and with uncertainty-toolbox where that is the same definition."""

from __future__ import annotations

import numpy as np
import pytest
import uncertainty_toolbox as toolbox
from scipy import stats

from sciuq_runner import metrics

RNG = np.random.default_rng(0)
N = 400
MEAN = RNG.standard_normal((N, 1))
STD = RNG.uniform(0.2, 1.5, (N, 1))
Y = MEAN + 1.3 * STD * RNG.standard_normal((N, 1)) + 0.1


def test_rl2e_of_a_known_error():
    y = np.array([[3.0], [4.0]])
    assert metrics.rl2e(y + 1, y) == pytest.approx(np.sqrt(2) / 5)


def test_mpl_is_the_mean_density():
    assert metrics.mpl(MEAN, STD, Y) == pytest.approx(stats.norm(MEAN, STD).pdf(Y).mean(), rel=1e-12)


def test_rmsce_is_the_literal_sum_of_the_paper():
    levels = np.linspace(0, 1, metrics.N_LEVELS)
    inside = [(stats.norm(MEAN, STD).ppf(p) >= Y).mean() for p in levels]
    expected = np.sqrt(np.mean((levels - np.array(inside)) ** 2))
    assert metrics.rmsce(MEAN, STD, Y) == pytest.approx(expected, rel=1e-12)


def test_rmsce_agrees_with_the_toolbox_in_its_quantile_form():
    theirs = toolbox.root_mean_squared_calibration_error(
        MEAN[:, 0], STD[:, 0], Y[:, 0], num_bins=100, vectorized=True, prop_type="quantile"
    )
    assert metrics.rmsce(MEAN, STD, Y) == pytest.approx(theirs, rel=1e-9)


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


def test_sdcv_is_the_coefficient_of_variation():
    assert metrics.sdcv(STD) == pytest.approx(stats.variation(STD[:, 0]), rel=1e-12)
    assert metrics.sdcv(np.ones(5)) == 0


def test_rl2e_may_be_taken_against_the_clean_reference():
    noisy = metrics.evaluate(MEAN, STD, Y)
    clean = metrics.evaluate(MEAN, STD, Y, reference=MEAN)
    assert clean["rl2e"] == 0
    assert {**noisy, "rl2e": 0.0} == clean


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
