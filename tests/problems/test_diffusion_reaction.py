"""The reference solver of the time-dependent diffusion-reaction equation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import BarycentricInterpolator
from scipy.special import erfc
from sciuq_runner.problems.diffusion_reaction import march, solve


def source(x):
    return np.exp(-((x - 0.25) ** 2) / (2 * 0.4**2)) * np.sin(3 * x) ** 2


PAPER = {
    "standard": {
        "diffusion": 0.01,
        "reaction": lambda x: 0.2 + np.exp(x) * np.cos(2 * x) ** 2,
        "source": source,
        "initial": lambda x: 0.5 * np.cos(np.pi * x) ** 2,
        "boundary": (0.5, 0.5),
    },
    "steep": {
        "diffusion": 0.01,
        "reaction": lambda x: 0.2 + np.exp(x**2) * np.cos(3 * x) ** 2,
        "source": source,
        "initial": lambda x: np.cos(np.pi * x) ** 2,
        "boundary": (1.0, 1.0),
    },
}

X = np.unique(
    np.concatenate([np.linspace(-1, 1, 201), -1 + np.geomspace(1e-5, 0.1, 99), 1 - np.geomspace(1e-5, 0.1, 99)])
)
T = np.concatenate([[0.0], np.geomspace(1e-6, 0.02, 50), np.linspace(0.04, 1.0, 49)])
"""Points of evaluation, dense in the corners, where the solution is rough. They are not those of the grids."""


def orders(errors):
    """Observed orders of convergence: errors belong to grids that get twice as fine each time."""
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


def collocation_in_space(equation, x, t, degree):
    """The solution by a polynomial through Chebyshev points and by Radau in time."""
    j = np.arange(degree + 1)
    nodes = -np.cos(np.pi * j / degree)
    weights = np.where((j == 0) | (j == degree), 2.0, 1.0) * (-1.0) ** j
    slope = np.outer(weights, 1 / weights) / (nodes[:, None] - nodes + np.eye(degree + 1))
    slope -= np.diag(slope.sum(axis=1))
    second = equation["diffusion"] * slope @ slope
    strength, supply = equation["reaction"](nodes), equation["source"](nodes)
    inside = (nodes > nodes[0]) & (nodes < nodes[-1])

    def rate(_, u):
        return inside * (second @ u - strength * u**3 + supply)

    def jacobian(_, u):
        return inside[:, None] * (second - np.diag(3 * strength * u**2))

    start = equation["initial"](nodes)
    path = solve_ivp(rate, (0, 1), start, "Radau", t_eval=t, jac=jacobian, rtol=1e-9, atol=1e-11)
    return BarycentricInterpolator(nodes, path.y)(x).T


def differences_in_space(equation, nodes, t):
    """The solution with the second derivative of the parabola through each three nodes, and by Radau in time."""
    matrix = np.zeros((len(nodes), len(nodes)))
    for i in range(1, len(nodes) - 1):
        three = slice(i - 1, i + 2)
        powers = np.vander(nodes[three] - nodes[i], increasing=True).T
        matrix[i, three] = np.linalg.solve(powers, [0.0, 0.0, 2.0])
    inside = np.abs(nodes) < 1
    strength, supply = inside * equation["reaction"](nodes), inside * equation["source"](nodes)
    matrix *= equation["diffusion"]

    def rate(_, u):
        return matrix @ u - strength * u**3 + supply

    def jacobian(_, u):
        return matrix - np.diag(3 * strength * u**2)

    start = equation["initial"](nodes)
    return solve_ivp(rate, (0, 1), start, "Radau", t_eval=t, jac=jacobian, rtol=1e-11, atol=1e-12).y.T


def test_second_order_in_space():
    """Stationary, so that the only error is that of the cells; all terms, and unequal ends."""

    def exact(x):
        return 1 + 0.3 * x + 0.5 * np.sin(3 * x)

    def reaction(x):
        return 0.2 + np.exp(x) * np.cos(2 * x) ** 2

    equation = {
        "diffusion": 0.1,
        "reaction": reaction,
        "source": lambda x: reaction(x) * exact(x) ** 3 + 0.1 * 4.5 * np.sin(3 * x),
        "initial": exact,
        "boundary": (exact(-1), exact(1)),
    }
    errors = [np.abs(solve(X, T, **equation, n_cells=n, n_steps=200) - exact(X)).max() for n in (40, 80, 160, 320)]
    np.testing.assert_allclose(orders(errors), 2, atol=0.1)


def test_second_order_in_time():
    r"""With :math:`\lambda = \kappa / \phi^2`, :math:`\phi = \cos(\pi x / 2)` and f = 0 the solution is a(t) phi(x),
    where :math:`a' = -\mu a - \kappa a^3` and :math:`\mu = D \pi^2 / 4`: an equation of Bernoulli."""
    diffusion, kappa = 0.1, 1.0
    mu = diffusion * np.pi**2 / 4
    amplitude = np.exp(-mu * T) / np.sqrt(1 + kappa * (1 - np.exp(-2 * mu * T)) / mu)
    exact = amplitude[:, None] * np.cos(np.pi * X / 2)
    equation = {
        "diffusion": diffusion,
        "reaction": lambda x: kappa / np.cos(np.pi * x / 2) ** 2,
        "source": np.zeros_like,
        "initial": lambda x: np.cos(np.pi * x / 2),
        "boundary": (0.0, 0.0),
    }

    def error(n_cells, n_steps):
        return np.abs(solve(X, T, **equation, n_cells=n_cells, n_steps=n_steps) - exact).max()

    errors = [error(4000, n) for n in (20, 40, 80, 160)]
    of_the_cells = error(400, 2000) / 100  # that of 4000 cells, since it is of second order
    assert of_the_cells < 0.01 * errors[-1]
    np.testing.assert_allclose(orders(errors), 2, atol=0.1)


def heated(x, t, diffusion, rate, start):
    """The exact solution for constant initial values, a constant source and no reaction, as long as the ends do
    not feel each other (4 D t much less than 4): an integral of erfc of second order at each end."""

    def deficit(distance):
        z = distance / np.sqrt(4 * diffusion * np.maximum(t, 1e-12)[:, None])
        return (1 + 2 * z**2) * erfc(z) - 2 * z * np.exp(-(z**2)) / np.sqrt(np.pi)

    return start + rate * t[:, None] * (1 - deficit(1 + x) - deficit(1 - x))


HEATED = {
    "diffusion": 0.01,
    "reaction": np.zeros_like,
    "source": lambda x: np.full_like(x, -3.0),  # the jump of u_t in the corners of the steep equation
    "initial": lambda x: np.full_like(x, 0.5),
    "boundary": (0.5, 0.5),
}


def test_second_order_even_in_the_corners_where_the_rate_jumps():
    exact = heated(X, T, 0.01, -3.0, 0.5)
    errors = [np.abs(solve(X, T, **HEATED, n_cells=n, n_steps=n) - exact) for n in (50, 100, 200, 400)]
    np.testing.assert_allclose(orders([error.max() for error in errors]), 2, atol=0.1)
    early = np.abs(solve(X, T, **HEATED) - exact)[T <= 0.01]
    assert early.max() < 1e-5


@pytest.mark.parametrize("equation", PAPER.values(), ids=PAPER)
def test_agrees_with_another_integrator_on_the_same_grid(equation):
    """The error of a method of second order is a third of the difference to the solution with half the steps, up
    to terms that are smaller by a factor of the order of 1 / steps. The default of 400 steps may be wrong by 1e-5,
    ten times as many thus by 1e-7."""
    coarse, fine = (march(**equation, horizon=1.0, n_cells=100, n_steps=n) for n in (2000, 4000))
    some = slice(None, None, 50)
    t = coarse[0][some]
    reference = differences_in_space(equation, coarse[1], t)
    twice_as_fine = fine[2][::2][some]
    predicted = (twice_as_fine - coarse[2][some]) / 3
    error = reference - twice_as_fine
    assert np.abs(error - predicted).max() < 0.01 * np.abs(predicted).max()
    assert np.abs(error).max() < 1e-7


@pytest.mark.parametrize("equation", PAPER.values(), ids=PAPER)
def test_the_default_grid_is_exact_to_five_digits(equation):
    """Neither the cells nor the steps of the reference are those of the solver. Its own error is at most what it
    gains from 128 to 192 points; it must be several times smaller than 1e-5, and both together not larger."""
    reference, coarser = (collocation_in_space(equation, X, T, degree) for degree in (192, 128))
    assert np.abs(reference - coarser).max() < 0.2e-5
    assert np.abs(solve(X, T, **equation) - reference).max() < 0.8e-5


def test_initial_and_boundary_values_are_met():
    equation = PAPER["standard"]
    x, t = np.linspace(-1, 1, 77), np.linspace(0, 1, 33)
    u = solve(x, t, **equation)
    np.testing.assert_allclose(u[0], equation["initial"](x), atol=1e-9)
    np.testing.assert_allclose(u[:, [0, -1]], 0.5, atol=1e-12)


def test_interpolation_is_cubic_in_space_and_time():
    """What the scheme has exactly shows the interpolation alone: the initial values in space, many points to each
    cell, and in time a rate that is constant where nothing diffuses. There u = 0.5 - 3 t is a parabola in the
    coordinate of the spline."""
    start = {**HEATED, "initial": lambda x: np.exp(x) * np.sin(5 * x), "boundary": np.exp([-1, 1]) * np.sin([-5, 5])}
    x = np.sin(np.linspace(-np.pi / 2, np.pi / 2, 8001))
    exact = start["initial"](x)
    errors = [np.abs(solve(x, np.zeros(1), **start, n_cells=n, n_steps=10) - exact).max() for n in (100, 200, 400, 800)]
    np.testing.assert_allclose(orders(errors), 4, atol=0.1)
    still = solve(np.zeros(1), T, **HEATED | {"diffusion": 1e-9}, n_cells=100, n_steps=10)
    np.testing.assert_allclose(still[:, 0], 0.5 - 3 * T, rtol=0, atol=1e-12)


def test_points_may_come_in_any_order():
    rng = np.random.default_rng(0)
    x, t = rng.permutation(X), rng.permutation(T)
    u = solve(x, t, **PAPER["steep"], n_cells=50, n_steps=20)
    ordered = solve(X, T, **PAPER["steep"], n_cells=50, n_steps=20)
    np.testing.assert_allclose(u[np.argsort(t)][:, np.argsort(x)], ordered, rtol=0, atol=1e-14)


def test_a_longer_horizon_continues_the_solution():
    """Steps at equal times are no longer than with 800 for a horizon of 1, a quarter of the 1e-5 of 400 each."""
    t = np.linspace(0, 1, 11)
    short = solve(X, t, **PAPER["steep"], n_cells=50, n_steps=800)
    long = solve(X, t, **PAPER["steep"], n_cells=50, n_steps=1600, horizon=2.0)
    np.testing.assert_allclose(short, long, rtol=0, atol=0.5e-5)


@pytest.mark.parametrize(
    ("x", "t"), [(1.01, 0.5), (-1.01, 0.5), (0.0, 1.01), (0.0, -0.01), (np.nan, 0.5), (0.0, np.nan)]
)
def test_points_outside_the_domain_are_rejected(x, t):
    with pytest.raises(ValueError, match="-1 <= x <= 1 and 0 <= t <= 1"):
        solve(np.array([x]), np.array([t]), **PAPER["standard"])


def test_initial_values_that_contradict_the_boundary_are_rejected():
    with pytest.raises(ValueError, match="not those of the boundary"):
        solve(X, T, **PAPER["standard"] | {"boundary": (0.5, 0.6)})
