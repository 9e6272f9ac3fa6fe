"""Total variance: the split into aleatoric and epistemic parts is exact for the mixture it stands for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciuq_runner.methods.dens import DEns
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.physics.problem import Noise
from sciuq_runner.predict.predictive import Predictive, moments, predict, statistics
from sciuq_runner.training.loop import Loop
from tests.devices import elsewhere
from tests.exact import linear_regression

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("heteroscedastic", [False, True])
def test_total_variance_is_that_of_the_mixture(heteroscedastic):
    """Draws from the mixture of members have the mean and variance that the equations give."""
    members = RNG.standard_normal((5, 3, 1))
    variance = RNG.uniform(0.1, 2.0, (5, 3, 1)) if heteroscedastic else np.array(0.3)
    found = Predictive.of_members(members, variance)
    n = 200_000
    pick = RNG.integers(5, size=n)
    spread = np.sqrt(np.broadcast_to(variance, members.shape))[pick]
    draws = members[pick] + spread * RNG.standard_normal((n, 3, 1))
    error = 5 * np.sqrt(draws.var(0) / n)
    assert (np.abs(draws.mean(0) - found.mean) < error).all()
    fourth = ((draws - draws.mean(0)) ** 4).mean(0)
    error = 5 * np.sqrt((fourth - draws.var(0) ** 2) / n)
    assert (np.abs(draws.var(0) - found.std**2) < error).all()
    np.testing.assert_allclose(found.std**2, found.aleatoric_std**2 + found.epistemic_std**2)


def test_epistemic_variance_divides_by_the_number_of_members():
    members = np.array([0.0, 2.0])[:, None, None]
    assert Predictive.of_members(members, np.array(0.0)).epistemic_var == 1.0


def test_predictions_of_exact_samples_have_the_exact_moments():
    """Samples drawn from the exact posterior, pushed through the model, against the closed form."""
    exact = linear_regression()
    n = 20_000
    theta = RNG.multivariate_normal(exact.mean, exact.covariance, n)
    x = RNG.standard_normal((7, 2))
    found = predict(exact.target, Posterior(exact.target.tensor(theta)), "u", x)
    features = np.concatenate([x, np.ones((7, 1))], axis=1)
    variance = np.einsum("ij,jk,ik->i", features, exact.covariance, features)
    assert (np.abs(found.mean[:, 0] - features @ exact.mean) < 5 * np.sqrt(variance / n)).all()
    np.testing.assert_allclose(found.epistemic_var[:, 0], variance, rtol=5 * np.sqrt(2 / n))
    np.testing.assert_allclose(found.aleatoric_var, 0.09)


def test_learned_noise_enters_the_aleatoric_part():
    exact = linear_regression(noise=Noise("learned", 0.5))
    posterior = DEns(n_members=2, n_steps=10).run(exact.target, np_generator(), Loop())
    posterior.theta[:, -1] = exact.target.tensor(np.log([1.0, 3.0]))
    found = predict(exact.target, posterior, "u", np.zeros((4, 2)))
    np.testing.assert_allclose(found.aleatoric_var, 5.0)


def test_heavy_tails_have_more_variance_than_their_scale():
    assert Noise(family="student_t", degrees_of_freedom=5.0).variance_factor == pytest.approx(5 / 3)
    assert Noise().variance_factor == 1


def np_generator():
    import torch

    return torch.Generator().manual_seed(0)


def test_realisations_leave_their_device_before_they_become_double():
    values = torch.tensor(RNG.standard_normal((2, 12, 5)))
    found, exact = statistics(elsewhere(values)), statistics(values)
    for name, item in exact.items():
        torch.testing.assert_close(found[name], item)
    torch.testing.assert_close(moments(elsewhere(values)), moments(values))
