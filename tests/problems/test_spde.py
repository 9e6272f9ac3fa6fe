"""The stochastic elliptic equation and its finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sciuq_runner.problems.elliptic import solve
from sciuq_runner.problems.spde import DIFFUSION, SPDE, GaussianProcess

from sciuq_runner.seeds import stream


def manufactured(n: int) -> float:
    """Error of the solution sin(pi x) (1 + x/2) with a = exp(sin x), whose source is taken by automatic derivatives."""

    def u(x):
        return torch.sin(torch.pi * x) * (1 + x / 2)

    def flux(x):
        return torch.exp(torch.sin(x)) * torch.func.jvp(u, (x,), (torch.ones_like(x),))[1]

    nodes = torch.linspace(-1, 1, n + 1, dtype=torch.float64)
    source = -torch.func.jvp(flux, (nodes,), (torch.ones_like(nodes),))[1]
    middles = (nodes[1:] + nodes[:-1]) / 2
    columns = np.array([1.0, 2.0])  # twice the source and the solution
    conductivity = np.exp(np.sin(middles.numpy()))[:, None] * np.ones(2)
    found = solve(conductivity, source.numpy()[:, None] * columns, width=2.0)
    return float(np.abs(found - u(nodes).numpy()[:, None] * columns).max())


def test_finite_differences_are_of_second_order():
    errors = [manufactured(n) for n in (50, 100, 200, 400)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(orders, 2.0, atol=0.05)


def test_columns_are_solved_each_with_its_own_conductivity():
    """With a constant conductivity a and source the solution is f (1 - x^2) / (2 a), exact for the scheme."""
    x = np.linspace(-1, 1, 21)
    conductivity = np.array([0.5, 2.0]) * np.ones((20, 1))
    found = solve(conductivity, np.array([1.0, 3.0]) * np.ones((21, 1)), width=2.0)
    np.testing.assert_allclose(found, (1 - x[:, None] ** 2) / 2 * np.array([2.0, 1.5]), atol=1e-13)


def test_draws_have_the_covariance_of_the_process():
    """Entries of a sample covariance of n Gaussian draws err by sqrt((1 + c^2) / n)."""
    x, n = np.linspace(-1, 1, 7), 20_000
    draws = GaussianProcess(x)(n, stream(0, "test"))
    exact = np.exp(-((x[:, None] - x) ** 2))
    assert (np.abs(draws @ draws.T / n - exact) < 5 * np.sqrt((1 + exact**2) / n)).all()


@pytest.fixture(scope="module")
def clean():
    return SPDE().dataset(stream(0, "data"))


def test_readings_are_those_of_the_paper(clean):
    shapes = {name: (data.train.y.shape, data.test.y.shape) for name, data in clean.items()}
    assert shapes == {name: ((n, 1000), (201, 500)) for name, n in (("u", 9), ("f", 13), ("lambda", 5))}
    for data in clean.values():
        assert data.train.x[[0, -1], 0].tolist() == [-1, 1]
        assert data.calibration.y.shape == (len(data.train.x), 50)
        assert data.calibration.n_residuals == 50
    assert clean["u"].sensed is None
    assert clean["f"].sensed.y.shape == (13, 500)


def test_training_calibration_and_test_are_different_realisations(clean):
    data = clean["f"]
    seen, held_out, unseen = data.train.y, data.calibration.y, data.sensed.y
    assert not np.isclose(seen[:, :50], held_out).all(0).any()
    assert not np.isclose(seen[:, :500], unseen).all(0).any()


def test_moments_are_those_of_the_processes(clean):
    """f is Gaussian with mean 1/2 and deviation 0.15; the logarithm of lambda with deviation 0.1."""
    f, n = clean["f"].train.y, 1000
    assert np.abs(f.mean(1) - 0.5).max() < 5 * 0.15 / np.sqrt(n)
    assert np.abs(f.std(1) / 0.15 - 1).max() < 5 / np.sqrt(2 * n)
    log = np.log(clean["lambda"].train.y)
    assert np.abs(log.mean(1) - np.sin(1.5 * np.pi * (clean["lambda"].train.x[:, 0] + 1)) / 5).max() < 0.5 / np.sqrt(n)
    assert np.abs(log.std(1) / 0.1 - 1).max() < 5 / np.sqrt(2 * n)


def test_reference_satisfies_the_equation(clean):
    """The flux at x less that at the left end is the integral of the source: Simpson's rule on the even grid."""
    x = clean["u"].test.x[:, 0]
    h = x[1] - x[0]
    u, f, conductivity = (clean[name].reference for name in ("u", "f", "lambda"))
    assert np.abs(u[[0, -1]]).max() < 1e-14
    slope = (u[:-4] - 8 * u[1:-3] + 8 * u[3:-1] - u[4:]) / (12 * h)
    flux = DIFFUSION * conductivity[2:-2] * slope
    inside = f[2:-2]
    integral = h / 3 * (inside[:-2:2] + 4 * inside[1:-1:2] + inside[2::2])
    np.testing.assert_allclose(flux[:-2:2] - flux[2::2], integral, rtol=0, atol=1e-4 * np.abs(integral).max())


def test_noise_has_the_scale_of_the_setting(clean):
    noisy = SPDE(case="noisy").dataset(stream(0, "data"))
    for name, data in noisy.items():
        noise = data.train.y - clean[name].train.y
        assert noise.std() == pytest.approx(0.01, rel=5 / np.sqrt(2 * noise.size))
        np.testing.assert_array_equal(data.reference, clean[name].reference)
    assert SPDE(case="noisy").noise["u"].kind == "known"
    assert SPDE().noise["u"].kind == "exact"
