"""Convergence is judged as it should be on chains whose quality is known."""

from __future__ import annotations

import numpy as np

from sciuq_runner.diagnostics import convergence, convergence_warnings

RNG = np.random.default_rng(0)


def test_independent_samples_are_good():
    members = RNG.standard_normal((4 * 500, 3, 1))
    found = convergence(members, n_chains=4)
    assert found["rhat_max"] < 1.02
    assert found["ess_min"] > 1000
    assert convergence_warnings(found) == []


def test_chains_in_different_places_are_not():
    members = RNG.standard_normal((4, 500, 3, 1)) + np.arange(4)[:, None, None, None]
    found = convergence(members.reshape(-1, 3, 1), n_chains=4)
    assert found["rhat_max"] > 1.5
    assert any("do not agree" in warning for warning in convergence_warnings(found))


def test_effective_size_of_an_autoregressive_chain():
    """AR(1) with coefficient r has n (1 - r) / (1 + r) effective samples."""
    r, n, chains = 0.9, 20_000, 4
    noise = RNG.standard_normal((chains, n))
    series = np.zeros((chains, n))
    for t in range(1, n):
        series[:, t] = r * series[:, t - 1] + np.sqrt(1 - r**2) * noise[:, t]
    found = convergence(series.reshape(-1, 1, 1), chains)
    expected = chains * n * (1 - r) / (1 + r)
    assert 0.8 * expected < found["ess_min"] < 1.2 * expected


def test_a_fixed_value_hides_nothing_and_stuck_chains_are_seen():
    members = RNG.standard_normal((4, 100, 3, 1)) + 5 * np.arange(4)[:, None, None, None]
    members[:, :, 0] = 1.0
    assert convergence(members.reshape(-1, 3, 1), n_chains=4)["rhat_max"] > 1.5
    stuck = np.repeat(np.arange(4.0), 50)[:, None, None]
    assert convergence(stuck, n_chains=4)["rhat_max"] == np.inf


def test_few_effective_samples_are_said_in_words():
    assert any("only 12 effective" in text for text in convergence_warnings({"rhat_max": 1.0, "ess_min": 12.0}))


def test_too_short_chains_have_no_diagnostics():
    assert convergence(RNG.standard_normal((8, 3, 1)), n_chains=4) == {}
