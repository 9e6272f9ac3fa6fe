"""Bayesian networks: the noise that they predict beside their field."""

from __future__ import annotations

import pytest
import torch

from sciuq_runner.models.base import Prior
from sciuq_runner.models.bnn import BoundBNN
from sciuq_runner.networks import MLP
from sciuq_runner.physics.problem import Noise
from tests.exact import Plane


@pytest.mark.parametrize("scale", [1e-12, 0.1, 5.0, 1000.0])
def test_predicted_noise_starts_at_its_scale_whatever_that_is(scale):
    model = BoundBNN(Plane(), {"u": MLP(2, 2, (3,))}, Prior(), {"u": Noise("heteroscedastic", scale)})
    theta = torch.zeros(1, model.n_params, dtype=torch.float64)
    found = model.noise_scale(theta, "u", torch.zeros(4, 2, dtype=torch.float64))
    torch.testing.assert_close(found, torch.full_like(found, scale), rtol=1e-3, atol=0)
