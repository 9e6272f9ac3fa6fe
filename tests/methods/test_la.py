"""Kronecker factors and the last layer, where the whole matrix can be computed beside them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciuq_runner.methods.la import LA, Stacked, draw_by_rows
from sciuq_runner.models.base import Prior
from sciuq_runner.models.bnn import BoundBNN
from sciuq_runner.networks import MLP
from sciuq_runner.physics.problem import Noise, PointObservations
from sciuq_runner.target.density import Target
from tests.devices import elsewhere
from tests.exact import Plane, linear_regression, warped_regression
from tests.montecarlo import SIGMAS


def make_target(n_outputs: int, hidden: tuple[int, ...]) -> Target:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 2))
    y = x @ rng.standard_normal((2, n_outputs)) + 0.3 * rng.standard_normal((20, n_outputs))
    model = BoundBNN(Plane(), {"u": MLP(2, n_outputs, hidden)}, Prior(1.0))
    return Target(model, {"u": Noise("known", 0.3)}, {"u": PointObservations(x, y)}, dtype=torch.float64)


def draw(target: Target, n_samples: int = 20_000, **settings: str) -> torch.Tensor:
    theta = target.init(1, torch.Generator().manual_seed(0))[0]
    return LA(n_samples=n_samples, **settings).draw(target, theta, torch.Generator().manual_seed(1)) - theta


def precision(target: Target) -> torch.Tensor:
    """The whole Gauss-Newton matrix with the prior, by the definition."""
    theta = target.init(1, torch.Generator().manual_seed(0))[0]
    jacobian = Stacked(target, theta, torch.ones(target.n_weights, dtype=torch.bool)).jacobian()
    return jacobian.T @ jacobian + torch.eye(target.n_weights, dtype=torch.float64)


def assert_covariance(samples: torch.Tensor, expected: torch.Tensor) -> None:
    variances = expected.diag()
    error = ((variances[:, None] * variances + expected**2) / len(samples)).sqrt()
    assert (torch.cov(samples.T) - expected).abs().lt(SIGMAS * error).all()


@pytest.mark.parametrize("hessian", ["full", "kron"])
def test_exact_where_the_curvature_is_a_kronecker_product(hessian):
    """Several outputs of a linear model: inputs times identity."""
    target = make_target(n_outputs=3, hidden=())
    assert_covariance(draw(target, hessian=hessian), precision(target).inverse())


def test_kronecker_factors_are_the_partial_traces_of_every_layer():
    target = make_target(n_outputs=2, hidden=(3,))
    whole = precision(target) - torch.eye(target.n_weights, dtype=torch.float64)
    expected = torch.zeros_like(whole)
    for (rows, columns), start in zip([(3, 3), (4, 2)], [0, 9], strict=True):
        span = slice(start, start + rows * columns)
        block = whole[span, span].view(rows, columns, rows, columns)
        left, right = torch.einsum("ijkj->ik", block), torch.einsum("ijik->jk", block)
        expected[span, span] = torch.kron(left, right) / left.trace()
    torch.testing.assert_close(expected.trace(), whole.trace())
    covariance = (expected + torch.eye(len(whole), dtype=torch.float64)).inverse()
    assert_covariance(draw(target, hessian="kron"), covariance)


@pytest.mark.parametrize("hessian", ["full", "kron", "diag"])
def test_of_the_last_layer_alone(hessian):
    target = make_target(n_outputs=1, hidden=(3,))
    samples = draw(target, hessian=hessian, weights="last_layer")
    assert (samples[:, :9] == 0).all()
    whole = precision(target)[9:, 9:]
    assert_covariance(samples[:, 9:], (whole.diag().diag() if hessian == "diag" else whole).inverse())


def test_fewer_rows_than_weights_give_the_covariance_of_the_whole_matrix():
    """Sampled through the rows, with prior deviations of two kinds, against the inverse of the whole matrix."""
    target = make_target(n_outputs=1, hidden=(8,))
    theta = target.init(1, torch.Generator().manual_seed(0))[0]
    jacobian = Stacked(target, theta, torch.ones(target.n_weights, dtype=torch.bool)).jacobian()
    assert len(jacobian) < target.n_weights
    scales = torch.linspace(0.5, 2.0, target.n_weights, dtype=torch.float64)
    samples = draw_by_rows(jacobian, scales, 20_000, torch.Generator().manual_seed(1))
    assert_covariance(samples, (jacobian.T @ jacobian + torch.diag(scales**-2)).inverse())
    assert_covariance(draw(target), precision(target).inverse())


def test_kronecker_factors_know_an_unknown_number_with_a_prior_of_its_own():
    """Its block is exact, and so is that of the weights; what couples them is left out."""
    target = warped_regression().target
    theta = target.init(1, torch.Generator().manual_seed(0))[0]
    jacobian = Stacked(target, theta, torch.ones(4, dtype=torch.bool)).jacobian()
    expected = jacobian.T @ jacobian + torch.diag(target.prior_scales(theta[None])[0] ** -2)
    expected[3, :3] = expected[:3, 3] = 0
    assert_covariance(draw(target, hessian="kron"), expected.inverse())


@pytest.mark.parametrize("n_readings", [2, 40])
def test_rows_are_scaled_each_by_its_own_noise_and_derived_either_way(n_readings):
    """Fewer rows than weights, and more: the derivative of a linear model is its features over the noise."""
    rng = np.random.default_rng(1)
    x, scale = rng.standard_normal((n_readings, 2)), rng.uniform(0.1, 1.0, (n_readings, 1))
    y = x @ np.ones((2, 1))
    model = BoundBNN(Plane(), {"u": MLP(2, 1, ())}, Prior(1.0))
    target = Target(model, {"u": Noise("known", scale)}, {"u": PointObservations(x, y)}, dtype=torch.float64)
    stacked = Stacked(target, target.init(1, torch.Generator().manual_seed(0))[0], torch.ones(3, dtype=torch.bool))
    np.testing.assert_allclose(stacked.observations(), (y / scale)[:, 0])
    features = np.concatenate([x, np.ones((n_readings, 1))], axis=1) / scale
    np.testing.assert_allclose(stacked.jacobian(), features, atol=1e-12)


def test_what_is_fitted_leaves_its_device_before_it_becomes_double():
    target, method = linear_regression(noise=Noise("learned", 0.5)).target, LA(n_samples=3, n_scale_steps=20)
    theta = target.init(1, torch.Generator().manual_seed(0))[0]
    results = []
    for item in (theta, elsewhere(theta)):
        drawn = method.draw(target, item, torch.Generator().manual_seed(1))
        results.append(torch.cat([method.fit_scales(target, item), drawn.flatten()]))
    torch.testing.assert_close(results[1].cpu(), results[0])
