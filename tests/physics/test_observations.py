"""Kinds of observations: how many they are, their residuals, and what is left of them in a file."""

import numpy as np
import pytest

from sciuq_runner.physics.observations import (
    OperatorPairs,
    PointObservations,
    Realisations,
    RepeatedObservations,
    no_observations,
    observations_at,
    read_stored,
)

RNG = np.random.default_rng(0)
X, Y = RNG.random((6, 2)), RNG.random((6, 4))
MEAN, STD = RNG.random((6, 4)), 1 + RNG.random((6, 4))
EVERY = {
    "points": PointObservations(X, Y),
    "repeated": RepeatedObservations(X, Y, copies=3),
    "realisations": Realisations(X, Y),
    "noisy realisations": Realisations(X, Y, noisy=True),
    "pairs": OperatorPairs(X, Y, RNG.random((4, 9)), positions=2),
    "noisy pairs": OperatorPairs(X, Y, RNG.random((4, 9)), noisy=True),
}


@pytest.mark.parametrize(
    ("name", "count", "n_residuals", "functions", "clean"),
    [
        ("points", 6, 6, False, False),
        ("repeated", 2, 2, False, False),
        ("realisations", 6, 4, True, True),
        ("noisy realisations", 6, 4, True, False),
        ("pairs", 6, 4, True, True),
        ("noisy pairs", 6, 4, True, False),
    ],
)
def test_what_each_kind_is(name, count, n_residuals, functions, clean):
    found = EVERY[name]
    assert (len(found), found.count, found.n_residuals) == (6, count, n_residuals)
    assert (found.columns_are_functions, found.is_clean) == (functions, clean)
    assert len(found.scaled_residuals(MEAN, STD)) == n_residuals


def test_residuals():
    expected = (Y - MEAN) / STD
    np.testing.assert_array_equal(EVERY["points"].scaled_residuals(MEAN, STD), expected)
    means = (expected[:2] + expected[2:4] + expected[4:]) / 3
    np.testing.assert_allclose(EVERY["repeated"].scaled_residuals(MEAN, STD), means)
    for name in ("realisations", "pairs"):
        np.testing.assert_array_equal(EVERY[name].scaled_residuals(MEAN, STD), expected.T)


def test_points_where_all_realisations_have_the_same_residual_are_left_out():
    y = Y.copy()
    y[2] = 0.3
    found = Realisations(X, y).scaled_residuals(np.zeros_like(y), np.ones_like(y))
    np.testing.assert_array_equal(found, np.delete(y, 2, axis=0).T)


@pytest.mark.parametrize("name", list(EVERY))
def test_what_is_stored_gives_the_same_residuals(name):
    stored = {f"u_{key}": part for key, part in EVERY[name].stored().items()}
    found = read_stored(stored, "u_")
    assert found.columns_are_functions == EVERY[name].columns_are_functions
    np.testing.assert_array_equal(found.scaled_residuals(MEAN, STD), EVERY[name].scaled_residuals(MEAN, STD))


def test_files_without_kinds_hold_points():
    assert read_stored({"x": X, "y": Y}) == PointObservations(X, Y)


def test_only_pairs_are_reduced():
    pairs = EVERY["pairs"].reduced(3)
    assert isinstance(pairs, OperatorPairs)
    assert (pairs.y.shape, pairs.inputs.shape, pairs.positions) == ((6, 3), (3, 9), 1)
    for name in ("points", "repeated", "realisations"):
        assert EVERY[name].reduced(3) is EVERY[name]


def test_one_copy_of_each_is_plain():
    assert isinstance(observations_at(X, Y, 1, 0.1), PointObservations)
    repeated = observations_at(X, Y, 2, 0.1)
    assert isinstance(repeated, RepeatedObservations)
    assert (repeated.count, repeated.drift) == (3, 0.1)


def test_none_at_all():
    assert (len(no_observations(2)), no_observations(2).n_residuals) == (0, 0)
    assert (len(OperatorPairs.none(2)), OperatorPairs.none(2).n_residuals) == (0, 0)
