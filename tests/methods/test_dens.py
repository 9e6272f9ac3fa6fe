"""Deep ensembles: all members converge to the optimum of their objective, independently of each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciuq_runner.errors import RunError
from sciuq_runner.methods.dens import DEns, Objective
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import AdamState, Trainer, adam
from tests.exact import linear_regression


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_members_reach_the_maximum_of_the_posterior():
    exact = linear_regression()
    posterior = DEns(n_members=3, n_steps=4000, learning_rate=0.01).run(exact.target, generator(), Loop())
    np.testing.assert_allclose(posterior.theta.numpy(), np.tile(exact.mean, (3, 1)), atol=1e-4)
    assert posterior.n_chains == 0
    assert posterior.gradient_evaluations == 12_000


def test_weight_decay_is_ridge_regression():
    exact, decay = linear_regression(), 0.7
    method = DEns(n_members=2, n_steps=4000, learning_rate=0.01, weight_decay=decay)
    posterior = method.run(exact.target, generator(), Loop())
    expected = np.linalg.solve(exact.features.T @ exact.features + decay * np.eye(3), exact.features.T @ exact.y[:, 0])
    np.testing.assert_allclose(posterior.theta.numpy(), np.tile(expected, (2, 1)), atol=1e-4)


def test_adam_is_torchs():
    target = linear_regression().target
    theta = torch.randn(4, 3, generator=generator()).double()
    leaf = theta.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([leaf], lr=0.05)
    for _ in range(25):
        optimiser.zero_grad()
        (-target.log_density(leaf)).sum().backward()
        optimiser.step()
    state = AdamState(theta, torch.zeros_like(theta), torch.zeros_like(theta), theta.new_zeros(()))
    state, _ = adam(lambda t: -target.log_density(t), state, torch.full((25,), 0.05, dtype=torch.float64))
    torch.testing.assert_close(state.theta, leaf.detach(), rtol=1e-9, atol=1e-9)


def test_a_member_trains_the_same_alone_and_in_company():
    target = linear_regression().target
    start = target.init(3, generator())

    def fit(theta: torch.Tensor) -> torch.Tensor:
        return Trainer(Objective(target, None), theta, generator(), Loop()).run(57, lambda _: 0.01)

    torch.testing.assert_close(fit(start)[1:2], fit(start[1:2]), rtol=1e-12, atol=1e-12)


def test_a_loss_that_is_no_number_stops_with_advice():
    trainer = Trainer(lambda theta: theta.sum(1).sqrt(), torch.ones(1, 3), generator(), Loop())
    with pytest.raises(RunError, match=r"member 0 .* near training step .*learning_rate"):
        trainer.run(20, lambda _: 0.3)


def test_a_loss_that_was_never_a_number_is_not_blamed_on_the_learning_rate():
    trainer = Trainer(lambda theta: theta.sum(1).log(), -torch.ones(1, 3), generator(), Loop())
    with pytest.raises(RunError, match=r"not a finite number where training starts: .* powers") as caught:
        trainer.run(20, lambda _: 0.1)
    assert "learning_rate" not in str(caught.value)
