"""Polynomial chaos from data: encodings of realisations, and polynomials that are orthonormal on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from scipy.linalg import solve_triangular

from sciuq_runner.physics.problem import Array


@dataclass(frozen=True)
class PCA:
    r"""Principal components of realisations ``y[N, R]`` read at N sensors (Appendix B.5 of the paper).

    The encoding of a realisation is :math:`\xi = Q^{-1/2} \Phi^T (y - \bar y)`, with the leading eigenvectors
    :math:`\Phi` and eigenvalues Q of the covariance matrix: uncorrelated, of mean zero and variance one on the sample.

    Shapes:
        ``centre`` is ``[N]``, ``vectors`` ``[N, K]``, ``values`` ``[K]``.
    """

    centre: Array
    vectors: Array
    values: Array

    @classmethod
    def fit(cls, y: Array, share: float) -> PCA:
        """Keep as few components as hold this share of the variance."""
        centre = y.mean(1)
        values, vectors = np.linalg.eigh(np.cov(y, bias=True))
        values, vectors = values[::-1], vectors[:, ::-1]
        held = np.cumsum(values) / values.sum()
        count = min(int(np.searchsorted(held, share)) + 1, len(values))
        signs = np.sign(vectors.sum(0)) + (vectors.sum(0) == 0)  # so that the same data give the same signs
        return cls(centre, (vectors * signs)[:, :count].copy(), values[:count].copy())

    def encode(self, y: Array) -> Array:
        """The encodings ``[K, R]`` of realisations ``y[N, R]``."""
        found: Array = self.vectors.T @ (y - self.centre[:, None]) / np.sqrt(self.values)[:, None]
        return found


@dataclass(frozen=True)
class ChaosBasis:
    r"""Polynomials :math:`\rho_0 = 1, \rho_1, \dots, \rho_P` of total degree at most ``order`` in K variables with

    .. math:: \frac1R \sum_{r=1}^R \rho_p(\xi^{(r)})\, \rho_q(\xi^{(r)}) = \delta_{pq},

    whatever the distribution of the sample :math:`\xi^{(r)}` is: arbitrary polynomial chaos. Monomials in ascending
    degree are orthonormalised one after another. Their matrix of moments is :math:`V V^T / R = L L^T` with the values
    V ``[P + 1, R]``, and :math:`\rho = L^{-1} v`; L is found from V by a QR decomposition, which loses half as many
    digits as one of moments does.
    """

    order: int
    factor: Array  # L, lower triangular with a positive diagonal

    @classmethod
    def fit(cls, xi: Array, order: int) -> ChaosBasis:
        """The basis of a sample ``xi[K, R]``; raises ``ValueError`` if it has too few different realisations."""
        values = monomials(xi, order)
        if values.shape[0] <= values.shape[1]:
            upper = np.linalg.qr(values.T / np.sqrt(xi.shape[1]), mode="r")
            diagonal = np.abs(np.diag(upper))
            if diagonal.min() > 1e-10 * diagonal.max():
                return cls(order, (upper * np.sign(np.diag(upper))[:, None]).T)
        raise ValueError(
            f"{xi.shape[1]} realisations do not determine {values.shape[0]} polynomials of {len(xi)} variables"
        )

    def __call__(self, xi: Array) -> Array:
        """All polynomials at ``xi[K, R]``, ``[P + 1, R]``."""
        found: Array = solve_triangular(self.factor, monomials(xi, self.order), lower=True)
        return found


def monomials(xi: Array, order: int) -> Array:
    """All products of at most ``order`` of the variables ``xi[K, R]``, in ascending degree, the constant first."""
    rows = [
        np.prod(xi[list(chosen)], axis=0)
        for degree in range(order + 1)
        for chosen in combinations_with_replacement(range(len(xi)), degree)
    ]
    return np.stack(rows)


@dataclass(frozen=True)
class Encoding:
    """How realisations become random variables: principal components of every random input, a basis in all of them."""

    inputs: Mapping[str, PCA]
    basis: ChaosBasis

    @classmethod
    def fit(cls, observations: Mapping[str, Array], share: float, order: int) -> Encoding:
        """The encoding of realisations ``[N, R]`` of every input."""
        inputs = {name: PCA.fit(y, share) for name, y in observations.items()}
        return cls(
            inputs, ChaosBasis.fit(np.concatenate([inputs[name].encode(y) for name, y in observations.items()]), order)
        )

    def matrices(self, observations: Mapping[str, Array]) -> dict[str, Array]:
        r"""What multiplies the modes of an expansion, for every realisation: by input :math:`1, \sqrt{q_j} \xi_j`,
        ``[K + 1, R]`` (Karhunen-Loève), and under the empty name the whole basis, ``[P + 1, R]``."""
        encoded = {name: pca.encode(observations[name]) for name, pca in self.inputs.items()}
        found = {
            name: np.concatenate([np.ones((1, xi.shape[1])), np.sqrt(self.inputs[name].values)[:, None] * xi])
            for name, xi in encoded.items()
        }
        return {**found, "": self.basis(np.concatenate(list(encoded.values())))}
