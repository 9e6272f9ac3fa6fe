"""Random functions of a generator: values and derivatives agree with another way to take them."""

from __future__ import annotations

import pytest
import torch

from sciuq_runner.networks.generator import Generator, JointGenerator, SplitGenerator

LATENT, DRAWS, POINTS, MEMBERS = 3, 4, 5, 2


def make(kind: type[Generator]) -> tuple[Generator, torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    net = kind(2, LATENT, (7, 6), "tanh")  # type: ignore[call-arg]
    z, x = (torch.randn(n, d, generator=random, dtype=torch.float64) for n, d in ((DRAWS, LATENT), (POINTS, 2)))
    return net, net.init(MEMBERS, random), z, x


def naive(net: Generator, beta: torch.Tensor, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """One member, one draw, one point, by the definition."""
    if isinstance(net, SplitGenerator):
        branch, trunk = beta[: net.branch.n_params], beta[net.branch.n_params :]
        return (net.branch(branch[None], z[None])[0, 0] * net.trunk(trunk[None], x[None])[0, 0]).sum()
    assert isinstance(net, JointGenerator)
    return net.network(beta[None], torch.cat([x, z])[None])[0, 0, 0]


@pytest.mark.parametrize("kind", [SplitGenerator, JointGenerator])
def test_values_and_derivatives_agree_with_the_definition(kind):
    net, beta, z, x = make(kind)
    orders = [(0, 0), (1, 0), (0, 2), (1, 1)]
    found = net.derivatives(beta, z, x, orders)
    torch.testing.assert_close(net(beta, z, x), found[0])
    assert found[0].shape == (MEMBERS, POINTS, DRAWS)
    for m, n, r in [(0, 0, 0), (1, 3, 2), (1, 4, 3)]:

        def value(point: torch.Tensor, m: int = m, r: int = r) -> torch.Tensor:
            return naive(net, beta[m], z[r], point)

        slope = torch.func.jacfwd(value)(x[n])
        curve = torch.func.hessian(value)(x[n])
        expected = [value(x[n]), slope[0], curve[1, 1], curve[0, 1]]
        torch.testing.assert_close(torch.stack([part[m, n, r] for part in found]), torch.stack(expected))


@pytest.mark.parametrize("kind", [SplitGenerator, JointGenerator])
def test_nothing_is_generated_at_no_points(kind):
    net, beta, z, x = make(kind)
    found = net.derivatives(beta, z, x[:0], [(0, 0), (1, 0), (0, 2)])
    assert [part.shape for part in found] == [(MEMBERS, 0, DRAWS)] * 3


@pytest.mark.parametrize("kind", [SplitGenerator, JointGenerator])
def test_every_member_may_have_draws_of_its_own(kind):
    net, beta, z, x = make(kind)
    own = torch.stack([z, z.flip(0)])
    found = net(beta, own, x)
    torch.testing.assert_close(found[0], net(beta, z, x)[0])
    torch.testing.assert_close(found[1], net(beta, z, x)[1].flip(1))


def test_the_first_units_of_the_trunk_turn_over_inside_the_domain():
    net = SplitGenerator(1, LATENT, (50,), "tanh", "he_normal")
    weight, bias = net.trunk.layers(net.init(MEMBERS, torch.Generator().manual_seed(0))[:, net.branch.n_params :])[0]
    places = -bias / weight
    assert places.abs().max() <= 1
    assert places.std() > 0.4
