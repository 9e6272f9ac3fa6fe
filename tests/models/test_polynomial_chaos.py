"""Encodings and polynomials from data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sciuq_runner.models.polynomial_chaos import PCA, ChaosBasis, Encoding, monomials

RNG = np.random.default_rng(0)


def skewed(n_variables: int, n: int) -> np.ndarray:
    """Dependent variables of no family that has a name."""
    draws = RNG.gamma(2.0, size=(n_variables, n))
    draws[1:] += 0.5 * draws[:-1] ** 1.5
    return (draws - draws.mean(1, keepdims=True)) / draws.std(1, keepdims=True)


@pytest.mark.parametrize(("n_variables", "order"), [(1, 6), (3, 3), (8, 2)])
def test_the_basis_is_orthonormal_on_any_sample(n_variables, order):
    xi = skewed(n_variables, 500)
    values = ChaosBasis.fit(xi, order)(xi)
    assert len(values) == math.comb(n_variables + order, order)
    np.testing.assert_allclose(values @ values.T / 500, np.eye(len(values)), atol=1e-10)
    np.testing.assert_allclose(values[0], 1.0, atol=1e-12)


def test_monomials_are_all_of_the_degree():
    x, y = RNG.standard_normal((2, 5))
    np.testing.assert_allclose(monomials(np.stack([x, y]), 2), [np.ones(5), x, y, x * x, x * y, y * y])


@pytest.mark.parametrize(
    ("draws", "family"),
    [
        (RNG.standard_normal, lambda x: [x, (x**2 - 1) / math.sqrt(2), (x**3 - 3 * x) / math.sqrt(6)]),
        (
            lambda n: RNG.uniform(-1, 1, n),
            lambda x: [math.sqrt(3) * x, math.sqrt(5) * (3 * x**2 - 1) / 2, math.sqrt(7) * (5 * x**3 - 3 * x) / 2],
        ),
    ],
    ids=["Hermite", "Legendre"],
)
def test_large_samples_give_the_classical_families(draws, family):
    """The Gram matrix G of the classical polynomials on the sample is the identity up to Monte Carlo errors, and the
    two bases differ by its Cholesky factor, whose entries err as those of G do."""
    n = 100_000
    sample = draws(n)
    exact = np.stack([np.ones(n), *family(sample)])
    found = ChaosBasis.fit(sample[None], 3)(sample[None])
    overlap = found @ exact.T / n
    products = exact[:, None] * exact
    error = products.std(-1) / math.sqrt(n)
    assert (np.abs(overlap - np.eye(4)) <= 5 * error + 5 * error.max() ** 2).all()


def test_the_basis_goes_on_beyond_its_sample():
    """The same polynomials at new points: a product of them at one point, from values at many."""
    xi, new = skewed(2, 300), RNG.standard_normal((2, 4))
    basis = ChaosBasis.fit(xi, 2)
    coefficients = np.linalg.lstsq(monomials(xi, 2).T, basis(xi).T, rcond=None)[0].T
    np.testing.assert_allclose(basis(new), coefficients @ monomials(new, 2), rtol=1e-8, atol=1e-8)


def test_too_few_realisations_are_refused():
    with pytest.raises(ValueError, match="5 realisations do not determine 6 polynomials of 2 variables"):
        ChaosBasis.fit(RNG.standard_normal((2, 5)), 2)
    with pytest.raises(ValueError, match="do not determine"):
        ChaosBasis.fit(np.ones((1, 50)), 1)


def test_principal_components_are_standardised_and_decode():
    truth = RNG.standard_normal((6, 2)) @ RNG.standard_normal((2, 400)) + np.arange(6.0)[:, None]
    pca = PCA.fit(truth, 0.9999)
    xi = pca.encode(truth)
    assert len(xi) == 2
    np.testing.assert_allclose(xi.mean(1), 0, atol=1e-12)
    np.testing.assert_allclose(xi @ xi.T / 400, np.eye(2), atol=1e-10)
    back = pca.centre[:, None] + pca.vectors @ (np.sqrt(pca.values)[:, None] * xi)
    np.testing.assert_allclose(back, truth, atol=1e-10)


def test_the_share_decides_how_many_components_are_kept():
    scales = np.sqrt([0.6, 0.3, 0.09, 0.01])
    white = RNG.standard_normal((4, 1000))
    white = np.linalg.solve(np.linalg.cholesky(np.cov(white, bias=True)), white - white.mean(1, keepdims=True))
    y = scales[:, None] * white
    kept = {share: len(PCA.fit(y, share).values) for share in (0.5, 0.7, 0.95, 0.995, 1.0)}
    assert kept == {0.5: 1, 0.7: 2, 0.95: 3, 0.995: 4, 1.0: 4}


def test_matrices_of_an_encoding_hold_both_expansions():
    readings = {"f": RNG.standard_normal((4, 200)), "k": RNG.standard_normal((3, 200))}
    encoding = Encoding.fit(readings, 0.8, 2)
    found = encoding.matrices(readings)
    assert set(found) == {"f", "k", ""}
    sizes = {name: len(pca.values) for name, pca in encoding.inputs.items()}
    assert len(found[""]) == math.comb(sum(sizes.values()) + 2, 2)
    expected = np.concatenate([[1.0], encoding.inputs["f"].values])
    np.testing.assert_allclose((found["f"] ** 2).mean(1), expected, rtol=1e-10)
