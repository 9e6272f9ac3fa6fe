"""Convergence is judged as it should be on chains whose quality is known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sciuq_runner.evaluation.diagnostics import convergence, convergence_warnings, judge
from sciuq_runner.methods.hmc import HMC
from sciuq_runner.physics.problem import InverseGamma, Noise
from sciuq_runner.training.loop import Loop
from tests.exact import linear_regression

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


def test_a_scale_that_still_moves_in_all_chains_is_seen_and_said():
    """Chains that rise together agree with each other; their halves do not."""
    rising = 0.01 * RNG.standard_normal((4, 250)) + np.linspace(0, 0.15, 250)
    found = convergence(rising.reshape(-1, 1, 1), n_chains=4)
    assert found["rhat_max"] > 1.5
    texts = convergence_warnings({"rhat_max": 1.0, "rhat_numbers": found["rhat_max"]})
    assert any("have not settled" in text for text in texts)
    assert convergence_warnings({"rhat_max": 1.0, "rhat_numbers": 1.01}) == []


def test_numbers_without_any_have_no_convergence():
    assert convergence(RNG.standard_normal((400, 0, 1)), n_chains=4) == {}


@pytest.mark.parametrize("learned", [False, True])
def test_learned_scales_are_judged_by_themselves(learned):
    """A scale that is moved apart in one chain is seen, although no prediction knows of it."""
    noise = Noise("learned", 0.3, hyperprior=InverseGamma(2.0, 1.0)) if learned else None
    target = linear_regression(noise=noise).target
    posterior = HMC(n_chains=2, n_burn=100, n_samples=400, thin=1, n_leapfrog=10).run(
        target, torch.Generator().manual_seed(0), Loop()
    )
    predictives = {"u": SimpleNamespace(members=posterior.theta[:, :1, None].numpy())}
    found, _ = judge(target, posterior, predictives)
    assert ("rhat_numbers" in found) is learned
    if learned:
        assert found["rhat_numbers"] < 1.1
        posterior.theta[:200, -1] += 3
        worse, warnings = judge(target, posterior, predictives)
        assert worse["rhat_numbers"] > 1.5
        assert worse["rhat_max"] == found["rhat_max"]
        assert any("have not settled" in text for text in warnings)


def test_too_short_chains_have_no_diagnostics():
    assert convergence(RNG.standard_normal((8, 3, 1)), n_chains=4) == {}
    (sentence,) = convergence_warnings({})
    assert "too short to tell" in sentence
