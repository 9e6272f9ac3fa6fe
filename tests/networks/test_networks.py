"""Both ways to batch a network agree with a plain module, in value and gradient."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from sciuq_runner.networks import MLP, ModuleNetwork, Network
from sciuq_runner.networks.activations import ACTIVATIONS, Activation
from sciuq_runner.networks.mlp import Init

torch.manual_seed(0)


class Wrapped(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, 0)[0]


def sequential(sizes: tuple[int, ...], activation: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), Wrapped(ACTIVATIONS[activation])]
    return nn.Sequential(*layers[:-1]).double()


def to_module_order(network: MLP, theta: Tensor) -> Tensor:
    """nn.Linear keeps weights as [out, in]."""
    parts = [p for weight, bias in network.layers(theta) for p in (weight.transpose(1, 2), bias)]
    return torch.cat([part.reshape(len(theta), -1) for part in parts], dim=1)


@pytest.mark.parametrize("activation", get_args(Activation))
@pytest.mark.parametrize(
    ("n_inputs", "n_outputs", "hidden"), [(1, 1, (7, 5)), (3, 2, (4,)), (2, 1, ()), (2, 3, (6, 1, 6))]
)
def test_fast_path_agrees_with_the_module_path(activation, n_inputs, n_outputs, hidden):
    fast = MLP(n_inputs, n_outputs, hidden, activation)
    general = ModuleNetwork(lambda: sequential((n_inputs, *hidden, n_outputs), activation), n_inputs, n_outputs)
    assert fast.n_params == general.n_params
    x = torch.randn(11, n_inputs, dtype=torch.float64)
    probe = torch.randn(4, 11, n_outputs, dtype=torch.float64)

    def value_and_gradient(network: Network, order) -> tuple[Tensor, Tensor]:
        leaf = theta.clone().requires_grad_(True)
        value = network(order(leaf), x)
        return value.detach(), torch.autograd.grad((value * probe).sum(), leaf)[0]

    theta = torch.randn(4, fast.n_params, dtype=torch.float64)
    value, gradient = value_and_gradient(fast, lambda leaf: leaf)
    expected, expected_gradient = value_and_gradient(general, lambda leaf: to_module_order(fast, leaf))
    assert value.shape == (4, 11, n_outputs)
    spread = 30.0 ** len(hidden) if activation == "siren" else 1.0  # by which each layer amplifies rounding errors
    torch.testing.assert_close(value, expected, rtol=1e-12 * spread, atol=1e-12 * spread)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-11 * spread, atol=1e-11 * spread)


@pytest.mark.parametrize(
    "make", [lambda: MLP(2, 1, (5, 5)), lambda: ModuleNetwork(lambda: sequential((2, 5, 1), "tanh"), 2, 1)]
)
def test_members_may_have_points_of_their_own(make):
    network = make()
    theta = network.init(3, torch.Generator().manual_seed(0))
    x = torch.randn(3, 6, 2, dtype=torch.float64)
    together = network(theta, x)
    apart = torch.cat([network(theta[i : i + 1], x[i]) for i in range(3)])
    torch.testing.assert_close(together, apart, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("init", get_args(Init))
def test_initialisation_has_the_variance_it_names(init):
    network = MLP(40, 1, (60,), init=init)
    theta = network.init(500, torch.Generator().manual_seed(0))
    weight, bias = network.layers(theta)[0]
    expected = {
        "xavier_normal": 2 / 100,
        "xavier_uniform": 2 / 100,
        "he_normal": 2 / 40,
        "siren": 1 / 40**2 / 3,
        "prior": 1.0,
    }[init]
    n = weight.numel()
    assert weight.var().item() == pytest.approx(expected, rel=5 * (2 / n) ** 0.5)
    assert weight.mean().item() == pytest.approx(0, abs=5 * (expected / n) ** 0.5)
    assert (bias == 0).all() == (init != "prior")


def test_members_start_apart_and_a_seed_starts_them_the_same():
    for network in (MLP(1, 1), ModuleNetwork(lambda: sequential((1, 4, 1), "tanh"), 1, 1)):
        first = network.init(3, torch.Generator().manual_seed(1))
        assert torch.equal(first, network.init(3, torch.Generator().manual_seed(1)))
        assert not torch.equal(first, network.init(3, torch.Generator().manual_seed(2)))
        assert not torch.equal(first[0], first[1])


def test_a_network_that_is_no_function_of_its_parameters_is_refused():
    with pytest.raises(ValueError, match="batch normalisation"):
        ModuleNetwork(lambda: nn.Sequential(nn.Linear(1, 3), nn.BatchNorm1d(3)), 1, 3)
