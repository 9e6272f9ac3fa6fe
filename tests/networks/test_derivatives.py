"""Derivatives of fields: Taylor mode agrees with nested differentiation, with other modules and with differences."""

from __future__ import annotations

import math
from itertools import product
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sciuq_runner.networks import MLP, ModuleNetwork, Network
from sciuq_runner.networks.activations import ACTIVATIONS, Activation
from sciuq_runner.physics.fields import Asked, order_of
from sciuq_runner.physics.taylor import closure, collapsed, compose, partitions

UP_TO_FOUR = [order for order in product(range(5), repeat=2) if sum(order) <= 4]


def draw(network: Network, members: int = 3, points: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(points, network.n_inputs, generator=generator, dtype=torch.float64) - 0.5
    return network.init(members, generator), x


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30))


@pytest.mark.parametrize("hidden", [(), (7,), (6, 5), (5, 6, 4, 3)])
@pytest.mark.parametrize("activation", get_args(Activation))
def test_taylor_mode_agrees_with_nested_differentiation(activation, hidden):
    network = MLP(2, 3, hidden, activation, "siren" if activation == "siren" else "xavier_normal")
    theta, x = draw(network)
    found = network.derivatives(theta, x, UP_TO_FOUR)
    expected = Network.derivatives(network, theta, x, UP_TO_FOUR)
    for order, ours, theirs in zip(UP_TO_FOUR, found, expected, strict=True):
        assert ours.shape == (3, 5, 3)
        # each of four orders loses a digit or two of float64 to cancellation
        assert relative(ours, theirs) < 1e-10 or theirs.abs().max() < 1e-12, order


@pytest.mark.parametrize("activation", get_args(Activation))
def test_second_derivatives_alone(activation):
    """Those of a piecewise linear network vanish, and still have a shape."""
    network = MLP(2, 1, (5, 5), activation)
    theta, x = draw(network)
    u_tt, u_xx = network.derivatives(theta, x, [(2, 0), (0, 2)])
    expected = Network.derivatives(network, theta, x, [(2, 0), (0, 2)])
    torch.testing.assert_close(u_tt, expected[0])
    torch.testing.assert_close(u_xx, expected[1])


@pytest.mark.parametrize("activation", ["tanh", "gelu", "softplus"])
def test_sixth_derivative_of_one_variable(activation):
    network = MLP(1, 1, (5, 5), activation)
    theta, x = draw(network)
    (ours,) = network.derivatives(theta, x, [(6,)])
    (theirs,) = Network.derivatives(network, theta, x, [(6,)])
    assert relative(ours, theirs) < 1e-8


@pytest.mark.parametrize("order", [(1, 0), (0, 2), (1, 1), (0, 3)])
def test_derivatives_agree_with_finite_differences(order):
    """Central differences of step h have an error of about h^2 and eps / h^n: 1e-4 at h = 2e-3 for n = 3."""
    network = MLP(2, 1, (8, 8))
    theta, x = draw(network)
    step = 2e-3
    stencils = {0: {0: 1.0}, 1: {-1: -0.5, 1: 0.5}, 2: {-1: 1, 0: -2, 1: 1}, 3: {-2: -0.5, -1: 1, 1: -1, 2: 0.5}}
    total = torch.zeros(3, 5, 1, dtype=torch.float64)
    for (i, a), (j, b) in product(stencils[order[0]].items(), stencils[order[1]].items()):
        total += a * b * network(theta, x + step * torch.tensor([float(i), float(j)]))
    (found,) = network.derivatives(theta, x, [order])
    assert relative(found, total / step ** sum(order)) < 1e-4


def test_gradient_by_theta_agrees_with_nested_differentiation():
    network = MLP(2, 1, (6, 6))
    theta, x = draw(network)

    def loss(derivatives, theta: Tensor) -> Tensor:
        u, u_t, u_xx = derivatives(theta, x, [(0, 0), (1, 0), (0, 2)])
        return (u_t - 0.1 * u_xx + u**3).square().sum()

    ours = torch.func.grad(lambda t: loss(network.derivatives, t))(theta)
    theirs = torch.func.grad(lambda t: loss(lambda *a: Network.derivatives(network, *a), t))(theta)
    assert relative(ours, theirs) < 1e-12
    assert torch.autograd.gradcheck(lambda t: loss(network.derivatives, t), theta.requires_grad_(True))


HEAT, WAVE = (((1, 0), 1.0), ((0, 2), -0.01)), (((2, 0), 1.0), ((0, 2), -4.0))
PLATE = (((4, 0), 1.0), ((2, 2), 2.0), ((0, 4), 1.0), ((0, 1), 3.0))
SUMS = [[(0, 0), HEAT], [WAVE], [PLATE], [HEAT, (1, 0)], [(0, 2), HEAT, WAVE, (1, 1), HEAT]]


@pytest.mark.parametrize("orders", SUMS)
@pytest.mark.parametrize("hidden", [(), (7,), (5, 6, 4, 3)])
@pytest.mark.parametrize("activation", get_args(Activation))
def test_sums_of_derivatives_agree_with_nested_differentiation(activation, hidden, orders):
    network = MLP(2, 3, hidden, activation, "siren" if activation == "siren" else "xavier_normal")
    theta, x = draw(network)
    expected = Network.derivatives(network, theta, x, orders)
    for order, ours, theirs in zip(orders, network.derivatives(theta, x, orders), expected, strict=True):
        assert ours.shape == (3, 5, 3)
        assert relative(ours, theirs) < 1e-10 or theirs.abs().max() < 1e-12, order
    for order, theirs in zip(orders, expected, strict=True):
        if order in (HEAT, WAVE, PLATE):
            parts = Network.derivatives(network, theta, x, [index for index, _ in order])
            torch.testing.assert_close(theirs, sum(c * part for (_, c), part in zip(order, parts, strict=True)))


def test_sums_are_taken_as_a_whole_where_that_saves_something():
    """A Laplacian in three dimensions needs the value, three slopes and itself, instead of three second derivatives."""
    laplacian = tuple((tuple(2 * (i == j) for j in range(3)), 1.0) for i in range(3))
    assert len(closure(collapsed((laplacian,)))) == 5
    assert closure(collapsed(((0, 0), HEAT))) == ((0, 0), (0, 1), HEAT)
    assert set(collapsed((HEAT, (1, 0)))) == {(1, 0), (0, 2)}  # the first of them is needed by itself
    several = tuple((((1, 0), 1.0), ((0, 2), float(factor))) for factor in range(1, 9))
    assert collapsed(several) == ((1, 0), (0, 2))  # many sums of the same two
    assert collapsed(((((0, 1), 1.0), ((0, 2), 1.0)),)) == ((0, 1), (0, 2))  # and here for the other one


def test_the_gradient_of_a_sum_of_derivatives():
    network = MLP(2, 1, (6, 6))
    theta, x = draw(network)

    def loss(theta: Tensor) -> Tensor:
        u, sum_of = network.derivatives(theta, x, [(0, 0), HEAT])
        return (sum_of + u**3).square().sum()

    assert torch.autograd.gradcheck(loss, theta.requires_grad_(True))


def test_any_module_has_derivatives():
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(2, 6), nn.Linear(6, 6), nn.Linear(6, 1)

        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.tanh(self.first(x))
            return self.last(hidden + torch.tanh(self.second(hidden)))

    network = ModuleNetwork(Residual, 2, 1)
    theta, x = draw(network)
    u_xx, u_xt = network.derivatives(theta, x, [(0, 2), (1, 1)])
    step = 1e-3

    def shifted(t: float, s: float) -> Tensor:
        return network(theta, x + torch.tensor([t, s], dtype=torch.float64))

    second = (shifted(0, step) - 2 * shifted(0, 0) + shifted(0, -step)) / step**2
    mixed = (shifted(step, step) - shifted(step, -step) - shifted(-step, step) + shifted(-step, -step)) / (4 * step**2)
    assert relative(u_xx, second) < 1e-5
    assert relative(u_xt, mixed) < 1e-5


@pytest.mark.parametrize("network", [MLP(2, 1, (6, 6)), ModuleNetwork(lambda: nn.Sequential(nn.Linear(2, 1)), 2, 1)])
@pytest.mark.parametrize("orders", [[(0, 0), (1, 0), (0, 2)], [(0, 0), HEAT]])
def test_derivatives_compile_in_one_graph(network, orders):
    theta, x = draw(network)
    compiled = torch.compile(lambda t: network.derivatives(t, x, orders), fullgraph=True, backend="eager")
    for ours, theirs in zip(compiled(theta), network.derivatives(theta, x, orders), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", get_args(Activation))
def test_derivatives_of_activations(name):
    """Every order against automatic differentiation of the one before."""
    z = torch.linspace(-2, 2, 9, dtype=torch.float64) + 0.1
    for order, found in enumerate(ACTIVATIONS[name](z, 5)[1:], start=1):

        def before(z: Tensor, order: int = order) -> Tensor:
            value = ACTIVATIONS[name](z, order - 1)[order - 1]
            return torch.zeros_like(z) if value is None else value

        expected = torch.func.jvp(before, (z,), (torch.ones_like(z),))[1]
        torch.testing.assert_close(torch.zeros_like(z) if found is None else found, expected, rtol=1e-11, atol=1e-11)


def test_partitions_are_counted_by_bell_numbers():
    """Weighted by the ways to label its parts, the partitions of n count the partitions of a set of n."""

    def ways(n: int) -> int:
        total = 0
        for parts in partitions((n,)):
            labelled = math.factorial(n)
            for (k,) in parts:
                labelled //= math.factorial(k)
            for part in set(parts):
                labelled //= math.factorial(parts.count(part))
            total += labelled
        return total

    assert [ways(n) for n in range(1, 7)] == [1, 2, 5, 15, 52, 203]


def test_composition_of_series_is_that_of_polynomials():
    """exp(z) with z = t + x + t x: coefficients of the product of known series."""
    one = torch.ones((), dtype=torch.float64)
    inner = {(0, 0): 0 * one, (1, 0): one, (0, 1): one, (1, 1): one}
    wanted = closure(((2, 2),))
    found = compose([one] * 5, inner, wanted)
    expected = np.zeros((3, 3))
    for i, j, k in product(range(3), repeat=3):  # exp(t) exp(x) exp(t x)
        if i + k <= 2 and j + k <= 2:
            expected[i + k, j + k] += 1 / (math.factorial(i) * math.factorial(j) * math.factorial(k))
    for a, b in wanted:
        assert found[a, b].item() == pytest.approx(expected[a, b], rel=1e-14)


def test_names_of_derivatives():
    assert order_of("xxt", ("t", "x")) == (1, 2)
    assert order_of("value", ("t", "x")) == (0, 0)
    assert order_of("timex", ("t", "time", "x")) == (0, 1, 1)
    assert order_of("y", ("t", "x")) is None
    assert order_of("xvalue", ("t", "x")) is None
    assert order_of("x" * 5000, ("t", "x")) == (0, 5000)
    assert order_of("a" * 40 + "b", ("a", "aa")) is None  # in time that does not double with every letter
    asked = Asked("u", ("t", "x"), 1)
    u = asked.at(torch.zeros(4, 2))
    _ = u.t + u.xx * u.value + u.t
    assert asked.orders == {"t": (1, 0), "xx": (0, 2), "value": (0, 0)}
    with pytest.raises(AttributeError, match=r"u\.y is no derivative: u depends on t, x"):
        _ = u.y


def test_a_sum_of_derivatives_is_asked_for_by_factors():
    asked = Asked("u", ["t", "x"], 1)
    asked.at(torch.zeros(2, 2)).combine(t=1.0, xx=-0.5, tx=2.0, xt=1.0)
    (order,) = asked.orders.values()
    assert order == (((1, 0), 1.0), ((0, 2), -0.5), ((1, 1), 3.0))
    with pytest.raises(AttributeError, match=r"u\.y is no derivative"):
        asked.at(torch.zeros(2, 2)).combine(t=1.0, y=1.0)
