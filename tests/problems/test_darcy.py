"""Random conductivities, the flow through them, and the data made of both."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from sciuq_runner.problems import darcy_flow
from sciuq_runner.problems.darcy import HEAD, LOG_CONDUCTIVITY, SOURCE, Darcy
from sciuq_runner.problems.darcy_flow import Flow, Grid, KarhunenLoeve

from sciuq_runner.physics.data_cache import CACHE_VARIABLE
from sciuq_runner.physics.observations import OperatorPairs
from sciuq_runner.seeds import stream
from tests.exact import along

EPS = np.finfo(float).eps


def conductivities(n: int, n_fields: int, seed: int = 0, length: float = 0.25) -> np.ndarray:
    grid = Grid(n)
    return np.exp(KarhunenLoeve(grid, length, min(100, n**2)).draw(n_fields, stream(seed, "test")))


# Finite volumes


def manufactured(n: int) -> float:
    """Root mean square error for u = 1 - x + sin(pi x) (1 + x / 2) cos(pi y), which has the boundary values of the
    problem, with conductivity exp(sin(2 x + 3 y)); the source is taken by automatic derivatives."""

    def u(p):
        x, y = p.T
        return 1 - x + torch.sin(torch.pi * x) * (1 + x / 2) * torch.cos(torch.pi * y)

    def conductivity(p):
        return torch.exp(torch.sin(2 * p[:, 0] + 3 * p[:, 1]))

    def gained(p):
        fluxes = [lambda q, i=i: conductivity(q) * along(u, i)(q) for i in range(2)]
        return -sum(along(flux, i)(p) for i, flux in enumerate(fluxes))

    grid = Grid(n)
    points = torch.tensor(grid.points)
    found = Flow(grid).solve(conductivity(points).numpy()[:, None], gained(points).numpy()[:, None])
    return float(np.sqrt(np.square(found[:, 0] - u(points).numpy()).mean()))


def test_finite_volumes_are_of_second_order():
    """The next term of the error is smaller by the width of a cell, and so is what the measured order is off by."""
    sizes = (10, 20, 40, 80)
    errors = np.array([manufactured(n) for n in sizes])
    orders = np.log2(errors[:-1] / errors[1:])
    assert (np.abs(orders - 2) < 1 / np.array(sizes[:-1])).all(), orders


@pytest.mark.parametrize("source", [0.0, SOURCE])
def test_a_layered_medium_is_solved_by_one_dimensional_quadrature(source):
    """With conductivities of x alone, constant in every cell, the flux q grows by the source, and u falls by the
    integral of q over the conductivity: from one middle to the next by its value between both."""
    n = 20
    layers = np.exp(stream(0, "layers").standard_normal(n))
    found = Flow(Grid(n)).solve(np.repeat(layers, n)[:, None], source).reshape(n, n)
    halves = 0.5 / n / layers
    resistances = np.concatenate([halves[:1], halves[:-1] + halves[1:], halves[-1:]])
    gained = source * np.arange(n + 1) / n
    flux = (1 - gained @ resistances) / resistances.sum() + gained  # such that u falls by one in all
    exact = 1 - np.cumsum(flux * resistances)[:-1]
    condition = n**2 * layers.max() / layers.min()
    np.testing.assert_allclose(found, np.tile(exact[:, None], n), rtol=0, atol=condition * EPS * np.abs(exact).max())


def test_without_a_source_a_layered_medium_is_solved_exactly():
    """u at the middles of layers: one less the share of the resistance before them."""
    n = 15
    layers = np.exp(stream(1, "layers").standard_normal(n))
    found = Flow(Grid(n)).solve(np.repeat(layers, n)[:, None], 0.0).reshape(n, n)[:, 3]
    before = np.cumsum(1 / layers) - 0.5 / layers
    np.testing.assert_allclose(found, 1 - before / np.sum(1 / layers), rtol=0, atol=1e-12)


def sparse_system(conductivity: np.ndarray, source: float) -> tuple[sparse.csr_matrix, np.ndarray]:
    """The same balance of cells per area put together from differences of neighbours: D' T D u = load."""
    n = int(np.sqrt(len(conductivity)))
    field = conductivity.reshape(n, n)
    step = sparse.diags([np.ones(n - 1), -np.ones(n - 1)], [1, 0], shape=(n - 1, n))
    matrix = sparse.csr_matrix((n * n, n * n))
    for difference, first, second in (
        (sparse.kron(step, sparse.eye(n)), field[:-1], field[1:]),
        (sparse.kron(sparse.eye(n), step), field[:, :-1], field[:, 1:]),
    ):
        resistance = 0.5 / first + 0.5 / second
        matrix = matrix + difference.T @ sparse.diags(1 / resistance.ravel()) @ difference
    ends = np.zeros((n, n))
    ends[0] += field[0] / 0.5
    left = ends.copy()
    ends[-1] += field[-1] / 0.5
    matrix = matrix + sparse.diags(ends.ravel())
    return (matrix * n**2).tocsr(), left.ravel() * n**2 + source


def test_a_random_field_agrees_with_a_sparse_solver():
    field = conductivities(24, 1)
    matrix, load = sparse_system(field[:, 0], SOURCE)
    expected = sparse.linalg.spsolve(matrix.tocsc(), load)
    np.testing.assert_allclose(Flow(Grid(24)).solve(field, SOURCE)[:, 0], expected, rtol=1e-10)


def test_the_residual_is_that_of_the_system_and_vanishes_for_its_solution():
    flow, fields = Flow(Grid(12)), conductivities(12, 3)
    u = stream(0, "heads").standard_normal(fields.shape)
    found = flow.residual(fields, u, SOURCE)
    for column in range(3):
        matrix, load = sparse_system(fields[:, column], SOURCE)
        np.testing.assert_allclose(found[:, column], matrix @ u[:, column] - load, rtol=1e-10, atol=1e-9)
    solved = flow.residual(fields, flow.solve(fields, SOURCE), SOURCE)
    assert np.abs(solved).max() < 1e-9 * np.abs(found).max()


def test_a_mirrored_field_has_a_mirrored_solution():
    grid, field = Grid(10), conductivities(10, 1)
    flipped = grid.square(field)[:, :, ::-1].reshape(-1, 1)
    solved, mirrored = (grid.square(Flow(grid).solve(part, SOURCE)) for part in (field, flipped))
    np.testing.assert_allclose(mirrored, solved[:, :, ::-1], rtol=1e-11)
    assert not np.allclose(mirrored, solved, rtol=1e-2)


def test_fields_are_solved_alone_or_together_also_across_chunks():
    flow, fields = Flow(Grid(5)), conductivities(5, darcy_flow.SOLVED_AT_ONCE + 3)
    together = flow.solve(fields, SOURCE)
    assert together.shape == fields.shape
    for column in (0, 1, darcy_flow.SOLVED_AT_ONCE - 1, darcy_flow.SOLVED_AT_ONCE, darcy_flow.SOLVED_AT_ONCE + 2):
        alone = flow.solve(fields[:, column : column + 1], SOURCE)
        np.testing.assert_array_equal(together[:, column], alone[:, 0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", [0.0, -0.5, -3.0, np.nan])
def test_a_conductivity_that_is_not_positive_is_refused(value):
    """In one cell among others of conductivity one, whatever the sign of the means with its neighbours is."""
    field = np.ones((25, 1))
    field[12] = value
    with pytest.raises(ValueError, match="positive"):
        Flow(Grid(5)).solve(field, SOURCE)


# Karhunen-Loeve expansion


def kernel(points: np.ndarray, length: float) -> np.ndarray:
    squares = np.square(points[:, None] - points).sum(-1)
    return np.exp(-squares / (2 * length**2))


@pytest.mark.parametrize("length", [0.15, 0.4])
def test_eigenvalues_are_those_of_the_whole_kernel(length):
    """The integral operator on the square by the midpoint rule, without use of its factors."""
    grid, n_terms = Grid(14), 60
    expected = np.linalg.eigvalsh(kernel(grid.points, length) / grid.n**2)[::-1][:n_terms]
    values, _ = KarhunenLoeve(grid, length, n_terms).modes
    np.testing.assert_allclose(values, expected, rtol=0, atol=100 * EPS)
    assert (np.diff(values) <= 0).all()


def test_modes_are_orthonormal_eigenfunctions():
    grid, length = Grid(14), 0.25
    values, functions = KarhunenLoeve(grid, length, 60).modes
    np.testing.assert_allclose(functions.T @ functions / grid.n**2, np.eye(60), atol=1e-12)
    np.testing.assert_allclose(kernel(grid.points, length) @ functions / grid.n**2, functions * values, atol=1e-12)


def test_a_hundred_terms_hold_nearly_all_of_the_process():
    """What they lack of the variance, on average over the square, is the sum of all other eigenvalues."""
    for length in (0.25, 0.15):
        values, functions = KarhunenLoeve(Grid(20), length, 100).modes
        lacking = 1 - np.square(functions * np.sqrt(values)).sum(1)
        assert lacking.min() > -1e-12
        assert lacking.mean() == pytest.approx(1 - values.sum(), abs=1e-12)
        assert lacking.mean() < 0.01


@pytest.mark.parametrize("n_terms", [7, 100])
def test_draws_have_the_covariance_of_the_truncated_kernel(n_terms):
    """Entries of a sample covariance of n Gaussian draws err by sqrt((c_ii c_jj + c_ij^2) / n); ten thousand entries,
    so that six standard errors are allowed. With all terms that matter this is the kernel itself."""
    grid, length, n = Grid(10), 0.25, 20_000
    expansion = KarhunenLoeve(grid, length, n_terms)
    values, functions = expansion.modes
    exact = (functions * values) @ functions.T
    draws = expansion.draw(n, stream(0, "test"))
    variances = np.diag(exact)
    assert (np.abs(draws @ draws.T / n - exact) < 6 * np.sqrt((np.outer(variances, variances) + exact**2) / n)).all()
    assert (np.abs(draws.mean(1)) < 5 * np.sqrt(variances / n)).all()
    if n_terms == len(grid.points):
        np.testing.assert_allclose(exact, kernel(grid.points, length), atol=1e-12)


# Data

SMALL = Darcy(n_grid=8, n_terms=30, n_pairs=30, mirror=False, n_test=4, n_calibration=3, n_validation=2)
NOISY = Darcy(case="noisy", n_grid=20, n_pairs=30, mirror=False, n_calibration=12, n_validation=7)


def test_clean_functions_of_every_kind():
    data = SMALL.dataset(stream(0, "data"))[HEAD]
    counts = {"train": 30, "test": 8, "calibration": 3, "validation": 2}
    parts = {name: getattr(data, name) for name in counts}
    for name, part in parts.items():
        assert part.y.shape == (64, counts[name]), name
        assert part.inputs.shape == (counts[name], 64), name
        assert isinstance(part, OperatorPairs)
        expected = Flow(Grid(8)).solve(np.exp(part.inputs.T), SOURCE)
        np.testing.assert_allclose(part.y, expected, rtol=1e-12)
        assert part.y.min() > 0
    np.testing.assert_array_equal(data.reference, data.test.y)
    assert SMALL.noise[HEAD].kind == "exact"
    every = np.concatenate([part.inputs for part in parts.values()])
    assert len(np.unique(every.round(9), axis=0)) == sum(counts.values())  # no function twice


def test_mirror_images_are_solutions():
    """They obey the equation by themselves, and come after all that was solved."""
    both, once = (replace(SMALL, mirror=mirror).pairs() for mirror in (True, False))
    assert both.y.shape == (64, 60)
    assert (both.positions, both.noisy) == (2, False)
    np.testing.assert_array_equal(both.inputs[:30], once.inputs)
    image = both.y.T.reshape(2, 30, 8, 8)
    np.testing.assert_array_equal(image[1], image[0][:, :, ::-1])
    np.testing.assert_array_equal(both.y[:, :30], once.y)
    np.testing.assert_allclose(both.y, Flow(Grid(8)).solve(np.exp(both.inputs.T), SOURCE), rtol=1e-12)
    centre, _ = replace(SMALL, mirror=True).transforms()[HEAD].at(Grid(8).points)
    np.testing.assert_allclose(centre.reshape(8, 8), centre.reshape(8, 8)[:, ::-1], rtol=1e-12)


def test_mirror_images_of_noisy_heads_are_no_new_readings():
    """With the same noise twice, a posterior would be as narrow as from twice as many readings."""
    found, once = (replace(SMALL, mirror=mirror, train_noise=0.2).pairs() for mirror in (True, False))
    assert (found.positions, found.noisy) == (1, True)
    np.testing.assert_array_equal(found.inputs, once.inputs)
    np.testing.assert_array_equal(found.y, once.y)


def test_mirror_images_are_no_history():
    """Which would put the image of a realisation that judges a generator among those that train it."""
    problem = replace(SMALL, mirror=True)
    for n, count in ((20, 20), (1000, 30)):
        found = problem.history(stream(0, "history"), n)[LOG_CONDUCTIVITY]
        np.testing.assert_array_equal(found.y, problem.solved[0][problem.cells(2), :count])


def test_as_many_functions_of_another_use_are_others():
    uses = ("pairs", "test", "calibration", "validation")
    every = np.concatenate([SMALL.fields_of(0.25, 5, use)[0].T for use in uses])
    assert len(np.unique(every.round(9), axis=0)) == len(every)


def test_the_same_seed_gives_the_same_data_and_pairs_are_those_of_all_seeds():
    first, again, other = (SMALL.dataset(stream(seed, "data"))[HEAD] for seed in (0, 0, 1))
    for name in ("train", "test", "calibration", "validation"):
        for part in (again, other):
            np.testing.assert_array_equal(getattr(first, name).y, getattr(part, name).y)
            np.testing.assert_array_equal(getattr(first, name).inputs, getattr(part, name).inputs)
    drawn_otherwise = replace(SMALL, data_seed=1).dataset(stream(0, "data"))[HEAD]
    assert not np.isclose(first.train.inputs, drawn_otherwise.train.inputs).any(1).all()


def test_the_new_field_is_that_of_the_seed_and_what_is_known_of_it_is_in_units_of_the_pairs():
    first, again, other = (NOISY.dataset(stream(seed, "data")) for seed in (0, 0, 1))
    for name in (LOG_CONDUCTIVITY, HEAD):
        np.testing.assert_array_equal(first[name].train.y, again[name].train.y)
        np.testing.assert_array_equal(first[name].test.y, again[name].test.y)
        assert not np.isclose(first[name].reference, other[name].reference, rtol=1e-3).all()
    np.testing.assert_array_equal(NOISY.pairs().y, replace(NOISY, case="clean").pairs().y)
    solved = Flow(NOISY.grid).solve(np.exp(first[LOG_CONDUCTIVITY].reference), SOURCE)
    np.testing.assert_allclose(first[HEAD].reference, solved, rtol=1e-12)


@pytest.mark.parametrize(
    ("lengths", "splits"),
    [
        ([0.25, 0.15], {"id": 0, "ood": 1}),
        ([0.15, 0.25], {"id": 1, "ood": 0}),
        ([0.15], {"ood": 0}),
        ([0.25], {"id": 0}),
        ([0.4, 0.25, 0.1], {"id": 1, "ood_0.4": 0, "ood_0.1": 2}),
    ],
)
def test_test_lengths_make_splits_of_which_the_known_one_is_first(lengths, splits):
    problem = replace(SMALL, test_lengths=lengths)
    data = problem.dataset(stream(0, "data"))[HEAD]
    assert list(data.splits) == list(splits)
    assert dict(problem.split_values) == {name: lengths[place] for name, place in splits.items()}
    for name, place in splits.items():
        columns = data.splits[name]
        assert columns.shape == data.test.y.shape
        np.testing.assert_array_equal(np.flatnonzero(columns.all(0)), 4 * place + np.arange(4))
        np.testing.assert_array_equal(columns.all(0), columns.any(0))
        expected = SMALL.fields_of(lengths[place], 4, "test")[0]
        np.testing.assert_array_equal(data.test.inputs[columns.all(0)].T, expected)


def test_shorter_lengths_are_rougher():
    """Neighbours at distance h differ by a variance of 2 (1 - exp(-h^2 / (2 l^2))), nearly (h / l)^2."""
    problem = replace(SMALL, n_terms=64, test_lengths=[0.25, 0.1], n_test=500)
    data = problem.dataset(stream(0, "data"))[HEAD]
    for name, length in problem.split_values.items():
        fields = Grid(8).square(data.test.inputs[data.splits[name].all(0)].T)
        found = np.square(np.diff(fields, axis=1)).mean((0, 1, 2))
        expected = 2 * (1 - np.exp(-((1 / 8) ** 2) / (2 * length**2)))
        # 500 independent fields, each at least one independent difference: a variance errs by sqrt(2 / 500) of itself
        assert found == pytest.approx(expected, rel=5 * np.sqrt(2 / 500)), name


def test_few_readings_of_a_conductivity_are_interpolated_exactly_where_they_are():
    known = SMALL.dataset(stream(0, "data"))[HEAD]
    few = replace(SMALL, n_lambda=20).dataset(stream(0, "data"))[HEAD]
    there = np.isclose(few.test.inputs, known.test.inputs, rtol=0, atol=1e-9).all(0)
    assert there.sum() == 20
    np.testing.assert_array_equal(few.test.y, known.test.y)
    np.testing.assert_array_equal(few.train.inputs, known.train.inputs)
    for name in ("calibration", "validation"):  # known as those of the test, from the same places
        mine, theirs = getattr(few, name), getattr(known, name)
        np.testing.assert_array_equal(np.isclose(mine.inputs, theirs.inputs, rtol=0, atol=1e-9).all(0), there)
        np.testing.assert_array_equal(mine.y, theirs.y)
    nothing = replace(SMALL, n_lambda=20, n_calibration=0, n_validation=0).dataset(stream(0, "data"))[HEAD]
    np.testing.assert_array_equal(nothing.test.inputs, few.test.inputs)
    other = replace(SMALL, n_lambda=20).dataset(stream(1, "data"))[HEAD]
    assert (np.isclose(other.test.inputs, known.test.inputs, rtol=0, atol=1e-9).all(0) != there).any()
    whole = replace(SMALL, n_lambda=64).dataset(stream(0, "data"))[HEAD]
    np.testing.assert_allclose(whole.test.inputs, known.test.inputs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("target", ["u", "log_u"])
@pytest.mark.parametrize(("new_length", "split"), [(0.25, "id"), (0.2, "ood")])
def test_noisy_readings_of_a_new_field(target, new_length, split):
    problem = replace(NOISY, target=target, new_length=new_length)
    data = problem.dataset(stream(0, "data"))
    units = problem.transforms()
    assert {name: noise.scale for name, noise in problem.noise.items()} == {LOG_CONDUCTIVITY: 0.1, HEAD: 0.1}
    for name, count in ((LOG_CONDUCTIVITY, 20), (HEAD, 10)):
        item, x = data[name], problem.grid.points
        parts = [item.train, item.calibration, item.validation]
        assert [len(part) for part in parts] == [count, 12, 7]
        places = np.concatenate([part.x for part in parts])
        assert len(np.unique(places, axis=0)) == len(places)
        assert {key: mask.sum() for key, mask in item.splits.items()} == {split: 400}
        assert item.reference.shape == item.test.y.shape == (400, 1)
        noise = units[name].apply(item.test.y, x) - units[name].apply(item.reference, x)
        assert noise.std() == pytest.approx(0.1, rel=5 / np.sqrt(2 * 400))
        assert abs(noise.mean()) < 5 * 0.1 / np.sqrt(400)
        read = np.concatenate([units[name].apply(part.y, part.x) for part in parts])
        index = [np.flatnonzero((x == place).all(1))[0] for place in places]
        apart = read - units[name].apply(item.reference, x)[index]
        assert np.sqrt(np.square(apart).mean()) == pytest.approx(0.1, rel=5 / np.sqrt(2 * len(apart)))
        assert not np.isclose(apart, noise[index]).any()  # test readings have noise of their own


def test_numbers_of_readings_are_settings():
    data = replace(NOISY, n_lambda=33, n_u=0).dataset(stream(0, "data"))
    assert {name: len(item.train) for name, item in data.items()} == {LOG_CONDUCTIVITY: 33, HEAD: 0}


@pytest.mark.parametrize("standardise", ["pointwise", "shared"])
@pytest.mark.parametrize("target", ["u", "log_u"])
def test_heads_of_pairs_can_have_noise_in_standardised_units(target, standardise):
    problem = replace(SMALL, target=target, standardise=standardise, train_noise=0.2)
    clean, noisy = replace(problem, train_noise=0.0).pairs(), problem.pairs()
    transform = problem.transforms()[HEAD]
    noise = transform.apply(noisy.y, noisy.x) - transform.apply(clean.y, clean.x)
    assert noise.std() == pytest.approx(0.2, rel=5 / np.sqrt(2 * noise.size))
    assert abs(noise.mean()) < 5 * 0.2 / np.sqrt(noise.size)
    np.testing.assert_array_equal(noisy.inputs, clean.inputs)
    assert (problem.noise[HEAD].kind, problem.noise[HEAD].scale) == ("known", 0.2)
    np.testing.assert_array_equal(problem.dataset(stream(0, "data"))[HEAD].train.y, noisy.y)
    np.testing.assert_array_equal(
        problem.dataset(stream(3, "data"))[HEAD].test.y, SMALL.dataset(stream(0, "data"))[HEAD].test.y
    )


def test_heads_of_pairs_can_be_read_at_some_cells_only():
    whole, some = SMALL.pairs(), replace(SMALL, stride=3).pairs()
    axis = Grid(8).axis[::3]
    np.testing.assert_array_equal(some.x, np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2))
    for place, values in zip(some.x, some.y, strict=True):
        np.testing.assert_array_equal(values, whole.y[np.flatnonzero((whole.x == place).all(1))[0]])
    np.testing.assert_array_equal(some.inputs, whole.inputs)
    data = replace(SMALL, stride=3).dataset(stream(0, "data"))[HEAD]
    assert data.test.y.shape == (64, 8)


def test_operators_of_one_field_can_see_it_in_some_cells_only():
    """Its readings may be in any cell, in the units of the cells around."""
    noisy = replace(SMALL, case="noisy", n_u=3, n_lambda=4)
    whole, some = noisy.pairs(), replace(noisy, input_stride=3).pairs()
    seen = np.arange(64).reshape(8, 8)[::3, ::3].ravel()
    np.testing.assert_array_equal(some.inputs, whole.inputs[:, seen])
    np.testing.assert_array_equal(some.y, whole.y)
    x, transform = Grid(8).points, replace(noisy, input_stride=3).transforms()[LOG_CONDUCTIVITY]
    np.testing.assert_array_equal(transform.x, x[seen])
    for mine, theirs in zip(transform.at(x), noisy.transforms()[LOG_CONDUCTIVITY].at(x), strict=True):
        np.testing.assert_allclose(mine[seen], theirs[seen])
    mine, theirs = (
        problem.dataset(stream(0, "data"))[LOG_CONDUCTIVITY] for problem in (replace(noisy, input_stride=3), noisy)
    )
    truth = theirs.reference
    ratio = transform.at(x)[1] / noisy.transforms()[LOG_CONDUCTIVITY].at(x)[1]
    np.testing.assert_allclose(mine.test.y - truth, ratio * (theirs.test.y - truth), rtol=1e-9, atol=1e-12)
    assert np.abs(ratio - 1).max() > 0.01
    with pytest.raises(ValueError, match="leaves one cell of 8"):
        replace(noisy, input_stride=8)
    with pytest.raises(ValueError, match="input_stride=3 is for noisy"):
        replace(SMALL, input_stride=3)


def test_pairs_are_standard_in_their_own_units():
    """At every place, or with one mean and deviation for all."""
    for problem in (SMALL, replace(SMALL, target="log_u"), replace(SMALL, standardise="shared")):
        pairs, transforms = problem.pairs(), problem.transforms()
        axis = None if problem.standardise == "shared" else 1
        for name, values in ((LOG_CONDUCTIVITY, pairs.inputs.T), (HEAD, pairs.y)):
            z = transforms[name].apply(values, pairs.x)
            np.testing.assert_allclose(z.mean(axis), 0, atol=1e-12)
            np.testing.assert_allclose(z.std(axis), 1, atol=1e-12)


def test_what_is_missing_in_the_balance_is_a_number_of_every_field():
    data = SMALL.dataset(stream(0, "data"))[HEAD]
    solved = SMALL.imbalance(data.test.inputs, data.test.x, data.test.y)
    assert solved.shape == (8,)
    assert solved.max() < 1e-10
    off = SMALL.imbalance(data.test.inputs, data.test.x, 1.1 * data.test.y)
    # a tenth too much of u is a tenth of the source too much in every cell, and at x = 0 more
    assert (off > 0.1 * (1 - 1e-9)).all()
    assert SMALL.imbalance(data.test.inputs, data.test.x[:5], data.test.y[:5]) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"n_terms": 65}, "n_terms=65 is more than the 64 values"), ({"test_lengths": []}, "at least one correlation")],
)
def test_settings_without_meaning_are_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        replace(SMALL, **changes)


# Kept on disk


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def refuse(*_):
    raise AssertionError("it was made before")


def same(first: tuple[np.ndarray, ...], second: tuple[np.ndarray, ...]) -> None:
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_fields_are_made_once(kept, monkeypatch):
    made = SMALL.fields_of(0.25, 5, "test")
    (path,) = kept.iterdir()
    monkeypatch.setattr(Darcy, "draw", refuse)
    same(SMALL.fields_of(0.25, 5, "test"), made)
    same(replace(SMALL, case="noisy", noise_scale=0.3, target="log_u").fields_of(0.25, 5, "test"), made)
    assert list(kept.iterdir()) == [path]
    others = [
        lambda: SMALL.fields_of(0.2, 5, "test"),
        lambda: SMALL.fields_of(0.25, 6, "test"),
        lambda: SMALL.fields_of(0.25, 5, "pairs"),
        lambda: replace(SMALL, n_grid=9).fields_of(0.25, 5, "test"),
        lambda: replace(SMALL, n_terms=29).fields_of(0.25, 5, "test"),
        lambda: replace(SMALL, data_seed=1).fields_of(0.25, 5, "test"),
    ]
    for other in others:
        with pytest.raises(AssertionError):
            other()


@pytest.mark.parametrize("damage", ["cut", "text", "empty"])
def test_a_damaged_file_is_made_anew(kept, caplog, damage):
    made = SMALL.fields_of(0.25, 5, "test")
    (path,) = kept.iterdir()
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[: len(whole) // 2], "text": b"no arrays", "empty": b""}[damage])
    with caplog.at_level(logging.WARNING):
        same(SMALL.fields_of(0.25, 5, "test"), made)
    assert "they are made anew" in caplog.text
    caplog.clear()
    same(SMALL.fields_of(0.25, 5, "test"), made)
    assert not caplog.records


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "below"))
    with caplog.at_level(logging.WARNING):
        same(SMALL.fields_of(0.25, 5, "test"), SMALL.fields_of(0.25, 5, "test"))
    assert not caplog.records
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_person_without_a_home_folder_waits_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as where there is no home
    same(SMALL.fields_of(0.25, 5, "test"), SMALL.fields_of(0.25, 5, "test"))
    assert not list(tmp_path.iterdir())
