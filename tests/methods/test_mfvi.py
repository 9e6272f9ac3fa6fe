"""Variational inference with fixed standard deviations."""

from __future__ import annotations

import numpy as np
import torch

from sciuq_runner.methods.mfvi import MFVI
from sciuq_runner.training.loop import Loop
from tests.exact import linear_regression


def test_standard_deviations_can_stay_where_they_start():
    """In a linear model the best mean does not depend on them."""
    exact = linear_regression()
    method = MFVI(n_samples=4000, n_steps=4000, learning_rate=0.01, n_draws=32, initial_rho=-4.0, learn_std=False)
    samples = method.run(exact.target, torch.Generator().manual_seed(0), Loop()).theta.numpy()
    spread = float(torch.nn.functional.softplus(torch.tensor(-4.0)))
    np.testing.assert_allclose(samples.std(0), spread, rtol=5 / np.sqrt(2 * len(samples)))
    deviation = np.sqrt(np.diag(exact.covariance))
    assert (np.abs(samples.mean(0) - exact.mean) < 0.1 * deviation).all()
