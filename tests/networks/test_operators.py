"""Convolutional networks and operators agree with direct implementations, one member and one function at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.interpolate import RegularGridInterpolator
from torch import Tensor, nn

from sciuq_runner.networks import MLP, Network
from sciuq_runner.networks.activations import ACTIVATIONS
from sciuq_runner.networks.cnn import CNN
from sciuq_runner.networks.fno import FourierNetwork
from sciuq_runner.networks.operator import BranchTrunkNetwork, OperatorNetwork
from sciuq_runner.training.autodiff import value_and_grad

EPS = torch.finfo(torch.float64).eps
BOUNDS = ((0.1, 0.7), (-1.0, 2.0))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def points(n: int, seed: int = 0) -> Tensor:
    """Inside the bounds, and some beyond them."""
    low, high = torch.tensor(BOUNDS, dtype=torch.float64).T
    return low + (high - low) * (1.2 * torch.rand(n, 2, generator=seeded(seed), dtype=torch.float64) - 0.1)


def agree(found: Tensor, expected: Tensor, n_terms: int, eps: float = EPS) -> None:
    """Equal but for the rounding of sums with ``n_terms`` terms in all, with signs: some lose leading digits."""
    assert found.shape == expected.shape
    tolerance = 10 * n_terms * eps * expected.abs().max().item()
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


@dataclass(frozen=True)
class Case:
    """A small network with what it is evaluated at: ``value(theta)`` is ``[M, ...]``."""

    network: Network | OperatorNetwork
    value: Callable[[Tensor], Tensor]
    n_terms: int

    def start(self, n_members: int, seed: int = 0) -> Tensor:
        """Starting points with biases that are not zero."""
        theta = self.network.init(n_members, seeded(seed))
        return theta + 0.1 * normal(*theta.shape, seed=seed + 1)


def cnn() -> Case:
    network = CNN((5, 4), 2, (2, 3), (3,), "tanh")
    x = normal(3, 20)
    return Case(network, lambda theta: network(theta, x), 60)


def deeponet() -> Case:
    network = BranchTrunkNetwork(CNN((4, 3), 4, (2,), (3,), "tanh"), MLP(2, 3, (4,)))
    x, inputs = points(5), normal(2, 12)
    return Case(network, lambda theta: network(theta, x, inputs), 60)


def fno() -> Case:
    network = FourierNetwork((4, 3), BOUNDS, width=2, modes=2, depth=2, hidden=3)
    x, inputs = points(5), normal(2, 12)
    return Case(network, lambda theta: network(theta, x, inputs), 100)


each = pytest.mark.parametrize("make", [cnn, deeponet, fno])


def convolutions(network: CNN, theta: Tensor) -> nn.Sequential:
    """Of one member, as torch has them."""
    modules: list[nn.Module] = []
    for layer, (weight, bias) in enumerate(network.layers(theta[None])):
        channels = network.channels[layer] if layer < len(network.channels) - 1 else 0
        size = weight.shape[-1]
        if channels:
            module: nn.Conv2d | nn.Linear = nn.Conv2d(channels, size, 3, stride=2, padding=1)
        else:
            module = nn.Linear(weight.shape[1], size)
            modules += [nn.Flatten()] if layer == len(network.channels) - 1 else []
        module.weight.data = weight[0].T.reshape(module.weight.shape)
        module.bias.data = bias.flatten()
        modules += [module, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


@pytest.mark.parametrize(
    ("grid", "channels", "hidden"), [((7, 5), (3, 4), (6,)), ((8, 8), (2, 3, 4), ()), ((4, 9), (5,), (3, 2))]
)
@pytest.mark.parametrize("shared", [True, False])
def test_convolutions_are_those_of_torch(grid, channels, hidden, shared):
    network = CNN(grid, 2, channels, hidden)
    theta = network.init(3, seeded()) + 0.1 * normal(3, network.n_params)
    x = normal(6, math.prod(grid)) if shared else normal(3, 6, math.prod(grid))
    found = network(theta, x)
    for member in range(3):
        fields = (x if shared else x[member]).reshape(6, 1, *grid)
        with torch.no_grad():
            expected = convolutions(network, theta[member])(fields)
        agree(found[member], expected, sum(fan_in for fan_in, _ in network.shapes))


@pytest.mark.parametrize("shared", [True, False])
def test_deeponet_is_an_inner_product_of_its_networks(shared):
    branch, trunk = MLP(6, 5, (7,)), MLP(2, 4, (3,))
    network = BranchTrunkNetwork(branch, trunk)
    theta, x = network.init(3, seeded()), points(4)
    inputs = normal(2, 6) if shared else normal(3, 2, 6)
    found = network(theta, x, inputs)
    expected = torch.empty(3, 4, 2, dtype=torch.float64)
    for m, n, r in itertools.product(range(3), range(4), range(2)):
        first, second = theta[m : m + 1, : branch.n_params], theta[m : m + 1, branch.n_params :]
        weights = branch(first, inputs[r : r + 1] if shared else inputs[m, r : r + 1])[0, 0].tolist()
        modes = trunk(second, x[n : n + 1])[0, 0].tolist()
        expected[m, n, r] = sum(a * b for a, b in zip(weights, modes, strict=False)) / 2 + weights[-1]
    agree(found, expected, 6 + 7 + 2 + 3 + 5)


def fourier_operator(
    theta: Tensor, x: Tensor, field: Tensor, width: int, modes: int, depth: int, hidden: int, activation: str
) -> Tensor:
    """One member and one function ``field[rows, columns]`` at points, with fast transforms and complex weights."""
    taken = 0

    def take(*shape: int) -> Tensor:
        nonlocal taken
        taken += math.prod(shape)
        return theta[taken - math.prod(shape) : taken].reshape(shape)

    rows, columns = field.shape
    along = [torch.linspace(-1, 1, n, dtype=torch.float64) for n in field.shape]
    weight, bias = take(3, width), take(width)
    lifted = torch.zeros(rows + math.ceil(rows / 8), columns + math.ceil(columns / 8), width, dtype=torch.float64)
    for i, j in itertools.product(range(rows), range(columns)):
        lifted[i, j] = field[i, j] * weight[0] + along[0][i] * weight[1] + along[1][j] * weight[2] + bias
    for layer in range(depth):
        weight, bias = take(width, width), take(width)
        spectrum = torch.fft.rfft2(lifted, dim=(0, 1))
        kept = torch.zeros_like(spectrum)
        for first, second in itertools.product([*range(modes), *range(-modes, 0)], range(modes)):
            pair = take(width, 2, width)
            kept[first, second] = spectrum[first, second] @ torch.complex(pair[:, 0], pair[:, 1])
        lifted = lifted @ weight + bias + torch.fft.irfft2(kept, s=lifted.shape[:2], dim=(0, 1))
        if layer < depth - 1:
            lifted = ACTIVATIONS[activation](lifted, 0)[0]
    values = ACTIVATIONS[activation](lifted[:rows, :columns] @ take(width, hidden) + take(hidden), 0)[0]
    values = values @ take(hidden, 1) + take(1)
    assert taken == len(theta)
    nodes = [np.linspace(*ends, n) for ends, n in zip(BOUNDS, field.shape, strict=True)]
    inside = [np.clip(part, axis[0], axis[-1]) for part, axis in zip(x.T.numpy(), nodes, strict=True)]
    return torch.tensor(RegularGridInterpolator(nodes, values[..., 0].numpy())(np.stack(inside, axis=1)))


@pytest.mark.parametrize(
    ("grid", "modes", "depth", "activation"),
    [((9, 12), 3, 3, "gelu"), ((7, 7), 4, 2, "tanh"), ((5, 4), 1, 1, "gelu"), ((16, 6), 2, 2, "relu")],
)
@pytest.mark.parametrize("shared", [True, False])
def test_fno_is_that_of_fast_transforms(grid, modes, depth, activation, shared):
    width, hidden = 3, 5
    network = FourierNetwork(grid, BOUNDS, width, modes, depth, hidden, activation)
    theta = network.init(2, seeded()) + 0.1 * normal(2, network.n_params)
    x, size = points(20), math.prod(grid)
    inputs = normal(3, size) if shared else normal(2, 3, size)
    found = network(theta, x, inputs)
    assert found.shape == (2, 20, 3)
    n_terms = 3 + depth * (width + 2 * sum(network.padded)) + width + hidden
    for m, r in itertools.product(range(2), range(3)):
        field = (inputs if shared else inputs[m])[r].reshape(grid)
        expected = fourier_operator(theta[m], x, field, width, modes, depth, hidden, activation)
        agree(found[m, :, r], expected, n_terms)


def test_fno_in_single_precision():
    network = FourierNetwork((12, 10), BOUNDS, 4, 3, 3, 8)
    theta, x, inputs = network.init(2, seeded()), points(30), normal(3, 120)
    found = network(theta.float(), x.float(), inputs.float())
    assert found.dtype == torch.float32
    agree(found.double(), network(theta, x, inputs), 3 + 3 * (4 + 2 * 26) + 12, torch.finfo(torch.float32).eps)


def test_fields_have_their_values_at_the_nodes_and_are_bilinear_between():
    rows, columns = 6, 9
    network = FourierNetwork((rows, columns), BOUNDS, modes=1)
    axes = [torch.linspace(*ends, n, dtype=torch.float64) for ends, n in zip(BOUNDS, (rows, columns), strict=True)]
    nodes = torch.stack([part.flatten() for part in torch.meshgrid(*axes, indexing="ij")], dim=1)
    values = normal(2, 3, rows * columns)
    agree(network.interpolate(values, nodes), values.transpose(1, 2), columns)

    def bilinear(x: Tensor) -> Tensor:
        a, b = x.T
        return 1 + 2 * a - 3 * b + 4 * a * b

    low, high = torch.tensor(BOUNDS, dtype=torch.float64).T
    x = points(200)
    found = network.interpolate(bilinear(nodes).expand(1, 1, -1), x)[0, :, 0]
    agree(found, bilinear(x.clamp(low, high)), columns)
    assert ((x < low) | (x > high)).any()


def test_fno_knows_how_many_frequencies_a_grid_has():
    FourierNetwork((7, 14), BOUNDS, modes=4)
    with pytest.raises(ValueError, match="use at most 4"):
        FourierNetwork((7, 14), BOUNDS, modes=5)


@each
def test_gradients(make):
    case = make()
    theta = case.start(1).requires_grad_(True)
    assert torch.autograd.gradcheck(case.value, (theta,), check_forward_ad=True, check_batched_grad=True)


@pytest.mark.parametrize("shared", [True, False])
def test_operators_have_gradients_of_points_and_functions(shared):
    for case in (deeponet(), fno()):
        network, theta = case.network, case.start(2)
        x = points(4).requires_grad_(True)
        inputs = (normal(2, 12) if shared else normal(2, 2, 12)).requires_grad_(True)
        assert torch.autograd.gradcheck(lambda x, inputs, f=network, t=theta: f(t, x, inputs), (x, inputs))


@each
def test_members_do_not_interact(make):
    case = make()
    theta = case.start(4)
    shares = normal(*case.value(theta).shape[1:], seed=5)
    value, gradient = value_and_grad(lambda t: (case.value(t) * shares).flatten(1).sum(1), theta)
    together = case.value(theta)
    for member in range(4):
        alone = theta[member : member + 1]
        agree(together[member], case.value(alone)[0], case.n_terms)
        expected = value_and_grad(lambda t: (case.value(t) * shares).flatten(1).sum(1), alone)
        agree(value[member], expected[0][0], case.n_terms * shares.numel())
        agree(gradient[member], expected[1][0], case.n_terms * shares.numel())


def biases(network: Network | OperatorNetwork) -> Tensor:
    """A mask of theta: the last row of every block, except of spectral weights."""
    blocks = network.blocks()
    spectral = (network.width, 2 * network.width) if isinstance(network, FourierNetwork) else None
    rows = [torch.arange(rows) == rows - 1 for rows, _ in blocks]
    parts = [row[:, None].expand(block) & (block != spectral) for row, block in zip(rows, blocks, strict=True)]
    return torch.cat([part.flatten() for part in parts])


@each
@pytest.mark.parametrize("kind", ["weights", "units"])
def test_dropout_keeps_the_mean_and_the_biases(make, kind):
    network, rate, n = make().network, 0.2, 4000
    masks = network.dropout_masks(n, rate, kind, seeded())
    assert masks.shape == (n, network.n_params)
    assert masks.dtype == torch.float64
    assert set(masks.unique().tolist()) == {0.0, 1.0, 1 / (1 - rate)}
    assert (masks[:, biases(network)] == 1).all()
    deviation = math.sqrt(rate / (1 - rate) / n)
    assert (masks.mean(0) - 1).abs().max() < 6 * deviation
    if kind == "weights":
        assert not (masks[:, ~biases(network)] == 1).any()
        first, second = masks[:, ~biases(network)][:, :2].T
        assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 6 / math.sqrt(n)
    assert torch.equal(masks, network.dropout_masks(n, rate, kind, seeded()))


@each
def test_dropped_units_lead_nowhere(make):
    """All weights of a row share their fate, and first layers stay."""
    network = make().network
    masks = network.dropout_masks(100, 0.3, "units", seeded())
    parts = masks.split([rows * columns for rows, columns in network.blocks()], dim=1)
    matrices = [part.unflatten(1, block) for part, block in zip(parts, network.blocks(), strict=True)]
    assert all((matrix == matrix[:, :, :1]).all() for matrix in matrices)
    firsts = [0, len(network.branch.blocks())] if isinstance(network, BranchTrunkNetwork) else [0]
    for i, matrix in enumerate(matrices):
        assert (matrix == 1).all() == (i in firsts)


def test_a_dropped_channel_is_dropped_at_all_frequencies():
    network = FourierNetwork((6, 6), BOUNDS, width=4, modes=2, depth=3)
    _, layers, _, _ = network.weights(network.dropout_masks(50, 0.3, "units", seeded()))
    for pointwise, spectral in layers:
        assert (spectral == pointwise[:, None, :-1, :1]).all()
    assert not torch.equal(layers[0][0], layers[1][0])


@each
def test_blocks_cover_theta(make):
    network = make().network
    assert sum(rows * columns for rows, columns in network.blocks()) == network.n_params
    assert network.init(2, seeded()).shape == (2, network.n_params)


def test_blocks_of_an_fno_follow_its_weights():
    network = FourierNetwork((6, 6), BOUNDS, width=4, modes=2, depth=2, hidden=5)
    layer = [(5, 4), *[(4, 8)] * 8]
    assert network.blocks() == [(4, 4), *layer, *layer, (5, 5), (6, 1)]


@each
def test_the_value_is_affine_in_the_last_layer(make):
    case = make()
    mask, theta = case.network.last_layer(), case.start(2)
    assert mask.shape == (case.network.n_params,)
    assert mask.dtype == torch.bool
    step = normal(*theta.shape, seed=7) * mask
    below, here, above = (case.value(theta + t * step) for t in (-1, 0, 1))
    assert ((above - here).abs().flatten(1).max(1).values > 1e-3).all()
    agree((below + above) / 2, here, 2 * case.n_terms)


@pytest.mark.parametrize(("make", "size"), [(cnn, 8), (deeponet, 16), (fno, 4)])
def test_the_last_layer_ends_theta_or_its_branch(make, size):
    network = make().network
    end = network.branch.n_params if isinstance(network, BranchTrunkNetwork) else network.n_params
    assert network.last_layer().nonzero().flatten().tolist() == [*range(end - size, end)]


@each
def test_a_seed_starts_members_apart_and_the_same_again(make):
    network = make().network
    first = network.init(3, seeded(1))
    assert first.dtype == torch.float64
    assert torch.equal(first, network.init(3, seeded(1)))
    assert not torch.equal(first, network.init(3, seeded(2)))
    assert not torch.equal(first[0], first[1])
    assert (first[:, biases(network)] == 0).all()
    assert (first[:, ~biases(network)] != 0).all()


def test_fno_starts_with_the_variances_it_names():
    network = FourierNetwork((8, 8), BOUNDS, width=6, modes=3, depth=2, hidden=10)
    lift, layers, hidden, last = network.weights(network.init(300, seeded()))
    expected = [(lift[:, :-1], 2 / 9), (hidden[:, :-1], 2 / 16), (last[:, :-1], 2 / 11)]
    expected += [pair for w, s in layers for pair in ((w[:, :-1], 2 / 12), (s, 1 / 6))]
    for drawn, variance in expected:
        assert drawn.var().item() == pytest.approx(variance, rel=6 * (2 / drawn.numel()) ** 0.5)


def test_fields_of_an_fno_neither_fade_nor_grow_at_the_start(monkeypatch):
    network = FourierNetwork((16, 16), BOUNDS, width=16, modes=5, depth=8)
    seen: list[float] = []
    convolve = network.convolve

    def listen(*arguments):
        found = convolve(*arguments)
        seen.append(found.square().mean().item())
        return found

    monkeypatch.setattr(network, "convolve", listen)
    i, j = torch.meshgrid(*[torch.linspace(0, 1, 16, dtype=torch.float64)] * 2, indexing="ij")
    smooth = torch.stack([torch.cos(a * i + b * j) for a, b in itertools.product((1, 3, 5), repeat=2)])
    network(network.init(10, seeded()), points(1), smooth.flatten(1) * math.sqrt(2))
    assert len(seen) == 8
    assert all(0.1 < value < 1 for value in seen)
