"""Kinds of posterior: what they evaluate to, and back from a file."""

from __future__ import annotations

import torch

from sciuq_runner.files import read_tensors, write_tensors
from sciuq_runner.methods.posterior import CombinedPosterior, LinearisedPosterior, Posterior, read_posterior

RNG = torch.Generator().manual_seed(0)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=RNG, dtype=torch.float64)


def curved(theta: torch.Tensor) -> torch.Tensor:
    return torch.stack([theta.prod(1), theta.sin().sum(1)], dim=1)[..., None]


def test_linearised_posterior_is_a_first_order_expansion():
    theta, centre = draw(600, 3), draw(3)
    found = LinearisedPosterior(theta, centre=centre).evaluate(curved)
    jacobian = torch.func.jacrev(lambda t: curved(t[None])[0, :, 0])(centre)
    expected = curved(centre[None])[0, :, 0] + (theta - centre) @ jacobian.T
    torch.testing.assert_close(found[..., 0], expected)


def test_combined_posterior_is_a_weighted_sum():
    theta, weights = draw(4, 3), draw(7, 4)
    found = CombinedPosterior(theta, weights=weights).evaluate(curved, chunk=3)
    torch.testing.assert_close(found[..., 0], weights @ curved(theta)[..., 0])


def test_scales_are_neither_linearised_nor_combined():
    theta = draw(4, 3)
    assert torch.equal(Posterior(theta).evaluate_scale(curved), curved(theta))
    assert torch.equal(LinearisedPosterior(theta, centre=theta[0]).evaluate_scale(curved)[2], curved(theta[:1])[0])
    assert CombinedPosterior(theta, weights=draw(7, 4)).evaluate_scale(curved).shape == (7, 2, 1)


def test_every_kind_comes_back_from_a_file(tmp_path):
    theta = draw(6, 3)
    kinds = [
        Posterior(theta, n_chains=2),
        LinearisedPosterior(theta, centre=draw(3)),
        CombinedPosterior(theta, weights=draw(5, 6)),
    ]
    for kind in kinds:
        write_tensors(tmp_path / "samples.safetensors", *kind.tensors())
        back = read_posterior(*read_tensors(tmp_path / "samples.safetensors"))
        assert type(back) is type(kind)
        assert back.n_chains == kind.n_chains
        assert torch.equal(back.evaluate(curved), kind.evaluate(curved))
