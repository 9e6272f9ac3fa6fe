"""Step sizes of Langevin dynamics that the target decides."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciuq_runner.methods.hmc import HMC
from sciuq_runner.methods.ld import LD, cautious_step, largest_curvature
from sciuq_runner.methods.sgld import SGLD
from sciuq_runner.physics.problem import InverseGamma, Noise
from sciuq_runner.training.loop import Loop
from tests.exact import linear_regression


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_the_largest_curvature_of_a_gaussian_is_its_largest_precision():
    """Wherever the chains are; thirty iterations leave (second / first eigenvalue)^60 of a difference."""
    exact = linear_regression()
    theta = exact.target.init(3, generator())
    values = np.linalg.eigvalsh(np.linalg.inv(exact.covariance))
    expected, error = values[-1], (values[-2] / values[-1]) ** 60
    assert error < 1e-6
    assert largest_curvature(exact.target.log_density, theta) == pytest.approx(expected, rel=1e-6)
    assert cautious_step(exact.target.log_density, theta) == pytest.approx(0.4 / expected, rel=1e-6)


def test_of_several_chains_the_most_curved_counts():
    def quartic(theta: torch.Tensor) -> torch.Tensor:
        return -theta.pow(4).sum(1)

    theta = torch.tensor([[1.0, 0.5], [2.0, 0.1]], dtype=torch.float64)
    assert largest_curvature(quartic, theta) == pytest.approx(12 * 2.0**2)


def test_a_step_that_the_target_decides_samples_it_with_the_bias_that_it_says():
    """Of variances along eigenvectors of the precision L: 1 / (L (1 - step L / 4)), a ninth more in the narrowest."""
    exact = linear_regression()
    method = LD(n_chains=128, n_burn=500, n_samples=32_000, thin=20, step_size=None, compile="never")
    theta = method.run(exact.target, generator(), Loop()).theta.numpy()
    values, vectors = np.linalg.eigh(np.linalg.inv(exact.covariance))
    step = 0.4 / values[-1]
    expected = 1 / (values * (1 - step * values / 4))
    found = ((theta - exact.mean) @ vectors).var(0)
    # neighbours of a chain keep (1 - step L / 2)^20 of a difference: so many independent draws are among 32 000
    kept = (1 - step * values / 2) ** 20
    independent = 32_000 * (1 - kept) / (1 + kept)
    assert (np.abs(found / expected - 1) < 5 * np.sqrt(2 / independent)).all()
    assert expected[-1] * values[-1] == pytest.approx(10 / 9)


@pytest.mark.parametrize("noise", [Noise("known", 0.3), Noise("learned", 0.3, hyperprior=InverseGamma(2.0, 10.0))])
def test_adjusted_it_is_hmc_with_one_leapfrog_step(noise):
    """Bit for bit: what the table says of HMC holds for it, too."""
    target = linear_regression(noise=noise).target
    chains = {"n_chains": 4, "n_burn": 30, "n_samples": 80, "thin": 2, "target_accept": 0.57}
    step = {"n_leapfrog": 1, "step_size": 0.1, "jitter": 0.0}
    adjusted, hmc = (
        method.run(target, generator(), Loop())
        for method in (LD(**chains, step_size=0.01, adjusted=True), HMC(**chains, **step))
    )
    assert torch.equal(adjusted.theta, hmc.theta)
    assert 0.2 < adjusted.diagnostics["accept_rate"] < 1


@pytest.mark.parametrize("batch_size", [None, 4])
def test_cycles_begin_at_the_step_that_the_target_decides(batch_size):
    """Where a tenfold step runs away at once."""
    target = linear_regression(n=200).target
    settings = {"n_chains": 4, "n_burn": 50, "n_steps": 200, "n_samples": 40, "n_cycles": 2, "batch_size": batch_size}
    found = SGLD(**settings, step_size=None, final_step_size=None).run(target, generator(), Loop())
    assert torch.isfinite(found.theta).all()
    assert found.theta.abs().max() < 10
