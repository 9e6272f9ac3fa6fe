"""Reference solution of the time-dependent diffusion-reaction equation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import solve_banded

from sciuq_runner.physics.problem import Array

Profile = Callable[[Array], Array]
"""A function of ``x[N]``."""

GAMMA = 1 - 1 / np.sqrt(2)
"""The coefficient with which the time integrator is L-stable; of the two, the one with the smaller error."""


def solve(
    x: Array,
    t: Array,
    *,
    diffusion: float,
    reaction: Profile,
    source: Profile,
    initial: Profile,
    boundary: tuple[float, float],
    horizon: float = 1.0,
    n_cells: int = 1600,
    n_steps: int = 400,
) -> Array:
    r"""The solution ``u[M, N]`` at the times ``t[M]`` and the places ``x[N]``, in any order, of

    .. math::
        u_t = D u_{xx} - \lambda(x) u^3 + f(x), \quad 0 \le t \le T, \; -1 \le x \le 1, \qquad
        u(0, x) = u_0(x), \quad u(t, \pm 1) = b_\pm

    with ``diffusion`` D, ``reaction`` lambda, ``source`` f, ``initial`` u_0, ``boundary`` (b_-, b_+) and
    ``horizon`` T; initial and boundary values must agree. The error is of second order in 1/``n_cells`` and in
    1/``n_steps``: see :func:`march` for the scheme. Between its nodes the solution is a cubic spline, of fourth
    order, in the coordinates in which they are equidistant. With the default grid the error is below 1e-5 for
    the equations of the paper.
    """
    x, t = np.asarray(x, dtype=float), np.asarray(t, dtype=float)
    if not (np.all(np.abs(x) <= 1) and np.all((t >= 0) & (t <= horizon))):
        raise ValueError(f"the solution is known for -1 <= x <= 1 and 0 <= t <= {horizon} only")
    times, nodes, u = march(diffusion, reaction, source, initial, boundary, horizon, n_cells, n_steps)
    at_x = CubicSpline(np.arcsin(nodes), u, axis=1)(np.arcsin(x))
    found: Array = CubicSpline(np.sqrt(times), at_x, axis=0)(np.sqrt(t))
    return found


def march(
    diffusion: float,
    reaction: Profile,
    source: Profile,
    initial: Profile,
    boundary: tuple[float, float],
    horizon: float,
    n_cells: int,
    n_steps: int,
) -> tuple[Array, Array, Array]:
    r"""Times ``t[n_steps + 1]``, nodes ``x[n_cells + 1]`` and the solution ``u[n_steps + 1, n_cells + 1]`` there.

    Space: three-point differences at :math:`x_i = \sin(\pi \sigma_i / 2)`, equidistant in sigma. Time: the
    Rosenbrock method ROS2 for u' = F(u) with the tridiagonal Jacobian J,

    .. math::
        (1 - \gamma \tau J) k_1 = F(u), \quad (1 - \gamma \tau J) k_2 = F(u + \tau k_1) - 2 k_1, \quad
        u \leftarrow u + \tfrac{\tau}{2} (3 k_1 + k_2), \qquad \gamma = 1 - 1 / \sqrt 2,

    which is L-stable, with :math:`t_k = T s_k^2`, equidistant in s. Both are of second order.

    Nodes and times are dense where the solution is rough: initial and boundary values agree, but as a rule
    :math:`D u_0'' - \lambda u_0^3 + f` is not 0 at the ends of the interval, so that u_t and u_xx jump in the
    corners t = 0, x = -1 and 1. With equal steps the error there would be of the order of one step times the
    jump, first order only; with equal cells it would be of second order, but many times larger.
    """
    x = np.sin(np.linspace(-np.pi / 2, np.pi / 2, n_cells + 1))
    t = horizon * np.linspace(0.0, 1.0, n_steps + 1) ** 2
    u = np.empty((n_steps + 1, n_cells + 1))
    u[0] = initial(x)
    if not np.allclose(u[0, [0, -1]], boundary):
        raise ValueError(f"the initial values {u[0, 0]} and {u[0, -1]} at x = -1 and 1 are not those of the boundary")
    u[:, 0], u[:, -1] = boundary

    h = np.diff(x)
    width = (h[:-1] + h[1:]) / 2
    left, right = diffusion / (width * h[:-1]), diffusion / (width * h[1:])
    inside = x[1:-1]
    strength, supply = reaction(inside), source(inside)

    def rate(v: Array) -> Array:
        rate: Array = diffusion * np.diff(np.diff(v) / h) / width - strength * v[1:-1] ** 3 + supply
        return rate

    for k, tau in enumerate(np.diff(t)):
        v = u[k].copy()
        matrix = np.zeros((3, n_cells - 1))  # 1 - gamma tau J, by diagonals
        matrix[0, 1:] = -GAMMA * tau * right[:-1]
        matrix[1] = 1 + GAMMA * tau * (left + right + 3 * strength * v[1:-1] ** 2)
        matrix[2, :-1] = -GAMMA * tau * left[1:]
        first = solve_banded((1, 1), matrix, rate(v))
        v[1:-1] += tau * first
        second = solve_banded((1, 1), matrix, rate(v) - 2 * first)
        u[k + 1, 1:-1] = u[k, 1:-1] + tau / 2 * (3 * first + second)
    return t, x, u
