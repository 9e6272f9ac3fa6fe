"""Standardised values, and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciuq_runner.physics.standardisation import Standardisation, Units, axes_of, axes_of_plane, pack, unpack


def rectangle(*sizes: int) -> np.ndarray:
    """The points of a grid whose axes are not equidistant."""
    axes = [np.linspace(0, 1, n) ** 1.5 for n in sizes]
    return np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)


def realisations(x: np.ndarray, n: int = 40, seed: int = 0) -> np.ndarray:
    """Positive, with a mean and a spread that depend on the place."""
    noise = np.random.default_rng(seed).standard_normal((len(x), n))
    return np.exp(0.3 + x.sum(1, keepdims=True) + (0.2 + 0.1 * x[:, :1]) * noise)


def test_the_axes_of_a_grid_are_found_whatever_they_are():
    x = rectangle(3, 5)
    first, second = axes_of(x)
    np.testing.assert_array_equal(first, np.unique(x[:, 0]))
    np.testing.assert_array_equal(second, np.unique(x[:, 1]))
    (line,) = axes_of(x[:5, 1:])
    np.testing.assert_array_equal(line, second)
    assert axes_of(x[:-1]) is None
    assert axes_of(x[::-1]) is None  # the order counts
    assert axes_of(np.random.default_rng(0).random((15, 2))) is None


def test_a_grid_in_another_order_is_told_from_none():
    x = rectangle(3, 5)
    for found, expected in zip(axes_of_plane(x), axes_of(x), strict=True):
        np.testing.assert_array_equal(found, expected)
    for other in (x[::-1], x.reshape(3, 5, 2).swapaxes(0, 1).reshape(15, 2)):
        with pytest.raises(ValueError, match="last coordinate running fastest: sort the sensors"):
            axes_of_plane(other)
    for none in (x[:-1], x[:5, 1:], rectangle(2, 3, 4)):
        with pytest.raises(ValueError, match="rectangular grid in two dimensions"):
            axes_of_plane(none)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("log", [False, True])
def test_values_are_standard_where_they_were_fitted(log, shared):
    x = rectangle(4, 5)
    y = realisations(x)
    z = Standardisation.fit(x, y, log, shared).apply(y, x)
    axis = None if shared else 1
    np.testing.assert_allclose(z.mean(axis), 0, atol=1e-12)
    np.testing.assert_allclose(z.std(axis), 1, atol=1e-12)


def test_one_mean_and_one_deviation_are_those_of_all_values():
    x = rectangle(4, 5)
    y = realisations(x)
    transform = Standardisation.fit(x, y, shared=True)
    np.testing.assert_allclose(transform.centre, y.mean())
    np.testing.assert_allclose(transform.scale, y.std())
    anywhere = np.random.default_rng(0).uniform(-1, 2, (7, 2))
    for part, value in zip(transform.at(anywhere), (y.mean(), y.std()), strict=True):
        np.testing.assert_allclose(part, np.full((7, 1), value))


@pytest.mark.parametrize("places", ["grid", "some of the grid", "between", "outside", "scattered"])
@pytest.mark.parametrize("log", [False, True])
def test_back_and_forth(log, places):
    """Values without variance come back as they were, wherever they are."""
    rng = np.random.default_rng(1)
    x = rng.random((20, 2)) if places == "scattered" else rectangle(4, 5)
    transform = Standardisation.fit(x, realisations(x), log)
    at = {"grid": x, "some of the grid": x[[3, 17, 8]], "between": rng.random((6, 2)), "scattered": rng.random((6, 2))}
    chosen = at.get(places, rng.uniform(1, 2, (6, 2)))
    y = realisations(chosen, 3, seed=2)
    back, variance = transform.undo(torch.tensor(transform.apply(y, chosen)), chosen)
    np.testing.assert_allclose(back.numpy(), y, rtol=1e-12)
    assert variance.shape == back.shape
    assert not variance.any()


def test_units_between_the_places_are_those_of_linear_interpolation():
    """Exact for functions that are linear in each coordinate; beyond the outermost places as there."""
    x = rectangle(4, 5)

    def level(p):
        return 1 + 2 * p[:, 0] - p[:, 1] + 3 * p[:, 0] * p[:, 1]

    transform = Standardisation(x, level(x), 10 + level(x))
    inside = np.random.default_rng(0).random((50, 2))
    for part, expected in zip(transform.at(inside), (level(inside), 10 + level(inside)), strict=True):
        np.testing.assert_allclose(part[:, 0], expected, rtol=1e-12)
    outside = np.array([[-1.0, 0.5], [2.0, 3.0]])
    np.testing.assert_allclose(transform.at(outside)[0][:, 0], level(np.clip(outside, 0, 1)), rtol=1e-12)
    np.testing.assert_array_equal(transform.at(x[::-1])[0][:, 0], level(x[::-1]))  # the same places in another order


def test_units_of_scattered_places_are_those_of_the_nearest():
    x = np.random.default_rng(0).random((20, 2))
    transform = Standardisation.fit(x, realisations(x))
    at = np.random.default_rng(1).random((9, 2))
    nearest = np.square(at[:, None] - x).sum(-1).argmin(1)
    np.testing.assert_array_equal(transform.at(at)[0][:, 0], transform.centre[nearest])
    np.testing.assert_array_equal(transform.at(at)[1][:, 0], transform.scale[nearest])


@pytest.mark.parametrize("log", [False, True])
def test_moments_in_original_units_are_those_of_draws(log):
    """Gaussian values of known mean and variance, drawn and taken back one by one, within Monte Carlo error."""
    x, n = rectangle(2, 3), 200_000
    transform = Standardisation.fit(x, realisations(x), log)
    mean = torch.linspace(-1.5, 1.5, 12, dtype=torch.float64).reshape(6, 2)
    variance = torch.linspace(0.2, 1.0, 12, dtype=torch.float64).reshape(6, 2)
    found = transform.undo(mean, x, variance)
    unit = torch.randn(n, 6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    draws = transform.undo(mean + variance.sqrt() * unit, x)[0]
    error = 5 * draws.std(0) / n**0.5
    assert ((draws.mean(0) - found[0]).abs() < error).all()
    squares = (draws - found[0]).square()
    assert ((squares.mean(0) - found[1]).abs() < 5 * squares.std(0) / n**0.5).all()


def test_shapes_and_precision_of_what_comes_back():
    x = rectangle(2, 3)
    transform = Standardisation.fit(x, realisations(x))
    z = torch.randn(5, 6, 2)
    mean, variance = transform.undo(z, x, torch.full((5, 1, 1), 0.25))
    assert mean.shape == variance.shape == (5, 6, 2)
    assert mean.dtype == variance.dtype == torch.float32
    np.testing.assert_allclose(variance[0, :, 0], 0.25 * transform.scale**2, rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -7.3])
@pytest.mark.parametrize("n", [2, 7, 1000])
def test_places_where_all_values_are_the_same_keep_their_unit(value, n):
    """Such as at a boundary where the value is given: a unit of rounding errors would magnify the next ones."""
    x = rectangle(2, 3)
    y = realisations(x, n)
    y[2] = value
    transform = Standardisation.fit(x, y)
    assert transform.scale[2] == 1
    np.testing.assert_allclose(transform.apply(y, x)[2], 0, atol=1e-12)
    np.testing.assert_allclose(transform.scale[[0, 1, 3, 4, 5]], y.std(1)[[0, 1, 3, 4, 5]])
    assert (Standardisation.fit(x, np.full((6, n), value), shared=True).scale == 1).all()


def test_transformations_are_found_again_among_other_tensors():
    x = rectangle(2, 3)
    kept = {
        "log_lambda": Standardisation.fit(x, realisations(x)),
        "u.of.dots": Standardisation.fit(x[:4], realisations(x[:4]), log=True),
    }
    others = {"beta": torch.ones(3), "transform": torch.zeros(2)}
    found, left = unpack({**others, **pack(kept)})
    assert left == others
    assert set(found) == set(kept)
    for name, item in kept.items():
        assert found[name].log is item.log
        for part in ("x", "centre", "scale"):
            np.testing.assert_array_equal(getattr(found[name], part), getattr(item, part))
    assert unpack(others) == ({}, others)


@pytest.mark.parametrize("places", ["line", "plane", "space", "scattered", "row"])
def test_units_of_tensors_are_those_of_arrays(places):
    """Within the places, at them, and beyond; in compiled code as well."""
    rng = np.random.default_rng(1)
    x = {
        "line": rectangle(7),
        "plane": rectangle(4, 5),
        "space": rectangle(3, 4, 2),
        "scattered": rng.random((9, 2)),
        "row": rectangle(1, 5),
    }[places]
    known = Standardisation.fit(x, realisations(x))
    asked = np.concatenate([rng.uniform(-0.3, 1.3, (20, x.shape[1])), x])
    for call in (Units(known), torch.compile(Units(known), backend="eager", fullgraph=True)):
        for found, expected in zip(call(torch.tensor(asked)), known.at(asked), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_units_of_scattered_places_are_found_far_from_the_origin_too():
    x = 100 + np.random.default_rng(2).random((300, 2))
    known = Standardisation.fit(x, realisations(x - 100))
    for found, expected in zip(Units(known)(torch.tensor(x).float()), known.at(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
