"""The mixed PDE problem: its physics holds for the truth, its readings are what the paper describes."""

from __future__ import annotations

import math
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch
from sciuq_runner.problems.mixed_pde import AFTER_THE_START, DIFFUSION, MixedPDE
from torch.distributions import Normal

from sciuq_runner.methods.hmc import Chains
from sciuq_runner.models import BNN
from sciuq_runner.physics.fields import Jet, Unknowns
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import InPieces, value_and_grad
from tests.exact import along

CASES = get_args(get_type_hints(MixedPDE)["case"])


def dataset(seed: int = 0, **settings):
    return MixedPDE(**settings).dataset(stream(seed, "data"))


@pytest.mark.parametrize("case", CASES)
def test_the_reference_solution_satisfies_the_equation(case):
    """Derivatives of the reference by differences: what the physics gives for f is the source."""
    problem = MixedPDE(case=case)
    x, t = np.linspace(-0.9, 0.9, 181), np.linspace(0.4, 0.6, 41)
    u = problem.solution(x, t)
    u_t = np.gradient(u, t, axis=0, edge_order=2)
    u_xx = np.gradient(np.gradient(u, x, axis=1, edge_order=2), x, axis=1, edge_order=2)

    class Known:
        def __init__(self, value, **derivatives):
            self.jet = Jet(["value", *derivatives], [value, *derivatives.values()])

        def __call__(self, points):
            return self.jet.value

        def at(self, points):
            return self.jet

    unknowns = Unknowns({"u": Known(u, t=u_t, xx=u_xx), "lambda": Known(problem.reaction(x))})
    found = problem.observe("f", unknowns, None)
    inner = found[2:-2, 4:-4]  # differences of second order: h^2 / 12 times fourth derivatives of order 1e3
    assert np.abs(inner - problem.source(x)[4:-4]).max() < 5e-3


def test_readings_are_those_of_the_paper():
    found = dataset()
    u, f, rate = (found[name] for name in ("u", "f", "lambda"))
    assert len(u.train) == 66
    assert len(np.unique(u.train.x[:, 0])) == 6
    assert len(np.unique(u.train.x[:, 1])) == 11
    assert len(f.train) == 15 * 5
    assert f.train.count == 15
    assert len(rate.train) == 6
    assert {0.0, 1.0} <= set(u.train.x[:, 0])
    assert {-1.0, 1.0} <= set(u.train.x[:, 1])
    boundary = u.train.x[:, 1] == 1
    assert np.abs(u.train.y[boundary] - 0.5).max() < 5 * 0.05


def test_copies_of_a_reading_of_the_source_are_the_same_reading():
    train = dataset()["f"].train
    by_time = [train.y[train.x[:, 0] == t] for t in AFTER_THE_START]
    assert sum(map(len, by_time)) == len(train)
    assert all((part == by_time[0]).all() for part in by_time)
    assert np.ptp(by_time[0]) > 0.1


def test_at_the_start_the_equation_does_not_hold_at_both_ends():
    """What the docstring says of the corners: the initial values, u kept there, in place of the solution."""
    ends = np.array([-1.0, 1.0])
    for case, amplitude, expected in (("standard", 0.5, [0.13, 0.18]), ("steep", 1.0, [3.06, 3.06])):
        problem = MixedPDE(case=case)
        bend = -2 * amplitude * np.pi**2 * np.cos(2 * np.pi * ends)
        np.testing.assert_allclose(-DIFFUSION * bend + problem.reaction(ends) * amplitude**3, expected, atol=0.006)
        assert np.abs(problem.source(ends)).max() < 0.004


def test_histories_of_the_source_are_of_all_times_but_of_no_corner():
    f = MixedPDE().history(np.random.default_rng(0), 3)["f"]
    assert len(f.x) == 6 * 21
    assert (np.abs(f.x[f.x[:, 0] == 0][:, 1]) < 1).all()
    assert (f.x[:, 0] == 0).sum() == 19
    first = f.y.reshape(6, 21, 3)
    assert (first == first[0]).all()


def test_a_seed_draws_noise_and_no_places():
    one, two = dataset(0), dataset(1)
    for name in one:
        assert (one[name].train.x == two[name].train.x).all()
        assert (one[name].train.y != two[name].train.y).all()


@pytest.mark.parametrize(("case", "expected"), [("standard", 0.05), ("large_noise", 0.1)])
def test_noise_has_its_scale(case, expected):
    data = dataset(case=case, noise_scale=expected)["u"]
    residual = data.test.y - data.reference
    assert residual.std() == pytest.approx(expected, rel=5 / np.sqrt(2 * residual.size))


def test_heteroscedastic_noise_grows_towards_the_ends():
    data = dataset(case="heteroscedastic")["u"]
    standard = (data.test.y - data.reference) / np.maximum(0.1 * np.abs(data.test.x[:, 1:]), 1e-12)
    inner = np.abs(data.test.x[:, 1]) > 0.01
    assert standard[inner].std() == pytest.approx(1, rel=5 / np.sqrt(2 * inner.sum()))


def test_cases_differ_as_described():
    assert (dataset(case="extrapolation")["lambda"].train.x >= 0).all()
    assert (
        dataset(case="extrapolation")["lambda"].test.x[dataset(case="extrapolation")["lambda"].splits["ood"]] < 0
    ).all()
    steep = dataset(case="steep")
    assert len(steep["f"].train) == 13 * 5
    assert steep["u"].reference.max() == pytest.approx(1.0, abs=1e-3)


def test_splits_are_the_domain_and_its_end():
    data = dataset()["u"]
    assert data.splits["id"].all()
    assert (data.test.x[data.splits["t1"]][:, 0] == 1).all()
    assert data.splits["t1"].sum() == 101


def test_five_copies_are_one_reading_and_a_condition():
    """The likelihood of f: one Gaussian for the mean over time, and one for every independent difference from it."""
    problem = MixedPDE(learn_noise=False, drift=0.02)
    train = problem.dataset(stream(0, "data"))["f"].train
    target = Target(BNN().bind(problem, problem.noise), problem.noise, {"f": train}, dtype=torch.float64)
    theta = target.init(3, torch_stream(0, "test"))
    f = target.model.observe(theta, "f", target.tensor(train.x)).unflatten(1, (5, 15))
    mean = f.mean(1, keepdim=True)
    reading = Normal(mean[:, 0], 0.05).log_prob(target.tensor(train.y[:15])).sum((1, 2))
    spread = (-0.5 * ((f - mean) / 0.02) ** 2).sum((1, 2, 3)) - 4 * 15 * math.log(0.02 * math.sqrt(2 * math.pi))
    assert target.n_observations == 15
    torch.testing.assert_close(target.log_likelihood(theta), reading + spread)


def test_a_mini_batch_of_copied_readings_takes_all_copies_of_some():
    problem = MixedPDE(learn_noise=False)
    train = problem.dataset(stream(0, "data"))["f"].train
    target = Target(BNN().bind(problem, problem.noise), problem.noise, {"f": train}, dtype=torch.float64)
    theta = target.init(2, torch_stream(0, "test"))
    batches = [{"f": (torch.arange(start, start + 3),)} for start in range(0, 15, 3)]
    mean = torch.stack([target.log_likelihood(theta, batch) for batch in batches]).mean(0)
    torch.testing.assert_close(mean, target.log_likelihood(theta))
    (drawn,) = target.batches.draw(5, torch_stream(0, "test"))["f"]
    assert len(drawn) == 5


@pytest.mark.full
def test_compiled_in_pieces_the_density_is_that_of_all_readings(monkeypatch):
    """As samplers see it, with a noise function; readings that hold at several points are not torn apart."""
    problem = MixedPDE(case="heteroscedastic")
    readings = {name: data.train for name, data in problem.dataset(stream(0, "data")).items()}
    model = BNN(learn_prior=True).bind(problem, problem.noise)
    target = Target(model, problem.noise, readings, dtype=torch.float64)
    chains = Chains(target, 1, False, False)
    position = chains.position(target.init(2, torch_stream(0, "test")))
    monkeypatch.setattr("sciuq_runner.target.batches.PIECE_ROWS", 80)
    monkeypatch.setattr("sciuq_runner.target.batches.PIECE_POINTS", 40)
    assert [index.shape for index in target.batches.pieces(2)] == [(3, 22), (3, 5), (3, 2)]
    density = InPieces(chains.log_density, target.batches.pieces(2))
    compiled = torch.compile(lambda at: value_and_grad(density, at), fullgraph=True, backend="aot_eager")
    expected = value_and_grad(chains.log_density, position)
    torch.testing.assert_close(compiled(position), expected, rtol=1e-9, atol=1e-9)


def test_a_quantity_that_does_not_divide_is_whole_in_every_piece(monkeypatch):
    """If that adds little to the work."""
    problem = MixedPDE(learn_noise=False)
    data = problem.dataset(stream(0, "data"))
    readings = {"u": data["u"].calibration, "lambda": data["lambda"].train}  # 50 and 6
    target = Target(BNN().bind(problem, problem.noise), problem.noise, readings, dtype=torch.float64)
    theta = target.init(2, torch_stream(0, "test"))
    monkeypatch.setattr("sciuq_runner.target.batches.PIECE_ROWS", 20)
    monkeypatch.setattr("sciuq_runner.target.batches.PIECE_POINTS", 10)
    assert [index.shape for index in target.batches.pieces(2)] == [(2, 25), (2, 3)]  # five pieces would repeat 24 of 56
    monkeypatch.setattr("sciuq_runner.target.batches.REPEATED_SHARE", 0.5)
    pieces = target.batches.pieces(2)
    assert [index.shape for index in pieces] == [(5, 10), (5, 6)]
    batches = [target.batches.unpack(row) for row in zip(*pieces, strict=True)]
    mean = torch.stack([target.log_likelihood(theta, batch) for batch in batches]).mean(0)
    torch.testing.assert_close(mean, target.log_likelihood(theta))


def test_f_of_a_network_is_the_equation():
    """Against derivatives of the whole model by nested differentiation."""
    problem = MixedPDE()
    model = BNN(width=8).bind(problem, problem.noise)
    theta = model.init(2, torch_stream(0, "test"))
    x = torch.rand(7, 2, dtype=torch.float64)

    def u(points):
        return model.observe(theta, "u", points)

    rate = model.observe(theta, "lambda", x[:, 1:])
    expected = along(u, 0)(x) - DIFFUSION * along(along(u, 1), 1)(x) + rate * u(x) ** 3
    torch.testing.assert_close(model.observe(theta, "f", x), expected, rtol=1e-10, atol=1e-10)
