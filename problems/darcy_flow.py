"""Random conductivities and a finite-volume solver of steady flow through them, many fields at once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpbsv

from sciuq_runner.physics.problem import Array

SOLVED_AT_ONCE = 128
"""Fields whose matrices are held at once: 70 MB on a grid of 40 by 40."""


@dataclass(frozen=True)
class Grid:
    """The middles of ``n`` by ``n`` equal cells of the unit square; points are listed with y running fastest."""

    n: int = 40

    @property
    def axis(self) -> Array:
        return (np.arange(self.n) + 0.5) / self.n

    @property
    def points(self) -> Array:
        """``[n * n, 2]``."""
        return np.stack([part.ravel() for part in np.meshgrid(self.axis, self.axis, indexing="ij")], axis=1)

    def square(self, values: Array) -> Array:
        """Columns of values at the points, ``[n * n, R]``, as fields ``[R, n, n]``."""
        return values.T.reshape(-1, self.n, self.n)


@dataclass(frozen=True)
class KarhunenLoeve:
    r"""The leading ``n_terms`` of a Gaussian process with mean zero and covariance
    :math:`\exp(-|p_1 - p_2|^2 / (2 l^2))` on the unit square,

    .. math:: \tilde\lambda(x, y) = \sum_k \sqrt{\mu_k}\, \phi_k(x, y)\, \xi_k, \qquad \xi_k \sim \mathcal N(0, 1).

    The covariance is a product over both coordinates, and so are its eigenfunctions: pairs of those along one line,
    where the eigenproblem of the integral operator is solved by the midpoint rule on the cells of the grid.
    """

    grid: Grid
    length: float
    n_terms: int = 100

    @cached_property
    def modes(self) -> tuple[Array, Array]:
        r"""Eigenvalues :math:`\mu_k` in descending order and eigenfunctions at the points, ``[n * n, n_terms]``."""
        axis, n = self.grid.axis, self.grid.n
        values, vectors = eigh(np.exp(-((axis[:, None] - axis) ** 2) / (2 * self.length**2)) / n)
        values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1] * np.sqrt(n)
        products = np.outer(values, values).ravel()
        order = np.argsort(-products, kind="stable")[: self.n_terms]
        first, second = np.unravel_index(order, (n, n))
        return products[order], (vectors[:, None, first] * vectors[None, :, second]).reshape(n * n, -1)

    def draw(self, n_fields: int, rng: np.random.Generator) -> Array:
        """Realisations at the points of the grid, ``[n * n, n_fields]``."""
        values, functions = self.modes
        found: Array = (functions * np.sqrt(values)) @ rng.standard_normal((len(values), n_fields))
        return found


@dataclass(frozen=True)
class Flow:
    r"""Finite volumes for :math:`-\nabla \cdot (\lambda \nabla u) = f` on the unit square, u given at x = 0 and x = 1,
    no flux through y = 0 and y = 1; of second order.

    Fluxes between cells have the harmonic mean of both conductivities, those through the ends half a cell's distance.
    The matrix is symmetric with a band of n below its diagonal, assembled for all fields at once and solved by banded
    Cholesky factorisation, fields shared out over threads.
    """

    grid: Grid
    left: float = 1.0
    right: float = 0.0

    def conductances(self, conductivity: Array) -> tuple[Array, Array, Array, Array]:
        """Between neighbours along x, along y, and through both ends, for fields ``[R, n, n]``."""
        a, b = conductivity[:, :-1], conductivity[:, 1:]
        c, d = conductivity[:, :, :-1], conductivity[:, :, 1:]
        return 2 * a * b / (a + b), 2 * c * d / (c + d), 2 * conductivity[:, 0], 2 * conductivity[:, -1]

    def solve(self, conductivity: Array, source: Array | float) -> Array:
        """u in all cells, ``[n * n, R]``, for conductivities ``[n * n, R]`` and a source ``[n * n, 1]`` or a number."""
        if not (conductivity > 0).all():
            raise ValueError("the conductivity should be positive everywhere")
        parts = [conductivity[:, i : i + SOLVED_AT_ONCE] for i in range(0, conductivity.shape[1], SOLVED_AT_ONCE)]
        return np.concatenate([self.solve_part(part, source) for part in parts], axis=1)

    def solve_part(self, conductivity: Array, source: Array | float) -> Array:
        """As many fields as their matrices have room for in memory."""
        n, fields = self.grid.n, self.grid.square(conductivity)
        along_x, along_y, left, right = self.conductances(fields)
        diagonal = np.zeros_like(fields)
        diagonal[:, :-1] += along_x
        diagonal[:, 1:] += along_x
        diagonal[:, :, :-1] += along_y
        diagonal[:, :, 1:] += along_y
        diagonal[:, 0] += left
        diagonal[:, -1] += right
        bands = np.zeros((len(fields), n + 1, n * n))
        bands[:, 0] = diagonal.reshape(-1, n * n)
        inner = np.zeros_like(fields)
        inner[:, :, :-1] = -along_y
        bands[:, 1] += inner.reshape(-1, n * n)
        bands[:, n, : n * (n - 1)] -= along_x.reshape(len(fields), -1)
        load = np.broadcast_to(np.asarray(source, dtype=float).T, (len(fields), n * n)) / n**2
        load = load.reshape(fields.shape).copy()
        load[:, 0] += left * self.left
        load[:, -1] += right * self.right

        def one(field: int) -> Array:
            _, found, info = dpbsv(bands[field], load[field].reshape(-1, 1), lower=1)
            assert not info, "the matrix is positive definite"
            column: Array = found[:, 0]
            return column

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return np.stack(list(pool.map(one, range(len(fields)))), axis=1)

    def residual(self, conductivity: Array, u: Array, source: Array | float) -> Array:
        """What is missing in the balance of every cell per area, ``[n * n, R]``: zero for a solution."""
        fields, heads = self.grid.square(conductivity), self.grid.square(u)
        along_x, along_y, left, right = self.conductances(fields)
        out = np.zeros_like(fields)
        step_x, step_y = along_x * np.diff(heads, axis=1), along_y * np.diff(heads, axis=2)
        out[:, :-1] -= step_x
        out[:, 1:] += step_x
        out[:, :, :-1] -= step_y
        out[:, :, 1:] += step_y
        out[:, 0] += left * (heads[:, 0] - self.left)
        out[:, -1] += right * (heads[:, -1] - self.right)
        found: Array = out.reshape(len(fields), -1).T * self.grid.n**2 - np.broadcast_to(source, conductivity.shape)
        return found
