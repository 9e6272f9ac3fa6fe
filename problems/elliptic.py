"""Finite differences for the steady diffusion equation in one dimension, many realisations at once."""

from __future__ import annotations

import numpy as np

from sciuq_runner.physics.problem import Array


def solve(conductivity: Array, source: Array, width: float) -> Array:
    r"""The solution ``u[n + 1, R]`` at the nodes of n equal cells of an interval of this ``width``, of

    .. math:: -\frac{d}{dx} \Big( a(x) \frac{du}{dx} \Big) = f(x), \qquad u = 0 \text{ at both ends}

    with ``conductivity[n, R]`` a in the middle of every cell and ``source[n + 1, R]`` f at the nodes, for every column.
    The conservative three-point scheme, of second order in 1/n,

    .. math:: -\big[ a_{i+1/2} (u_{i+1} - u_i) - a_{i-1/2} (u_i - u_{i-1}) \big] = h^2 f_i,

    is solved by elimination along x (Thomas), one step for all columns.
    """
    n = len(conductivity)
    diagonal = conductivity[:-1] + conductivity[1:]
    load = (width / n) ** 2 * source[1:-1]
    ratio, value = np.zeros_like(conductivity), np.zeros_like(source)  # of u_i = value_i + ratio_i u_{i+1}
    for i in range(1, n):
        left = conductivity[i - 1]
        pivot = diagonal[i - 1] - left * ratio[i - 1]
        ratio[i] = conductivity[i] / pivot
        value[i] = (load[i - 1] + left * value[i - 1]) / pivot
    for i in range(n - 2, 0, -1):
        value[i] += ratio[i] * value[i + 1]
    return value
