"""Snapshots, averages and their schedules."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sciuq_runner.methods.sens import SEns
from sciuq_runner.methods.swag import SWAG
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import cosine_cycles, cycle_ends
from tests.exact import linear_regression


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize(("n_steps", "n_cycles"), [(100, 4), (105, 10), (7, 7), (20_000, 20)])
def test_every_cycle_falls_from_the_highest_to_the_lowest_rate(n_steps, n_cycles):
    ends = cycle_ends(n_steps, n_cycles)
    rate = cosine_cycles(n_steps, n_cycles, 1e-2, 1e-4)
    rates = np.array([rate(step) for step in range(n_steps)])
    assert ends[-1] == n_steps
    for begin, end in zip([0, *ends], ends, strict=False):
        cycle = rates[begin:end]
        assert cycle[0] == pytest.approx(1e-2)
        assert (np.diff(cycle) <= 1e-15).all()
        if len(cycle) > 1:
            assert cycle[-1] == pytest.approx(1e-4)
            middle = 0.5 * (1e-2 + 1e-4)
            assert np.interp(0.5, np.linspace(0, 1, len(cycle)), cycle) == pytest.approx(middle, rel=0.3)


def test_snapshots_are_the_iterates_at_the_ends_of_cycles():
    """A run that stops at the end of a cycle has the snapshot as its last iterate."""
    target = linear_regression().target
    method = SEns(n_steps=60, n_cycles=3, n_used=3, n_members=2)
    found = method.run(target, generator(), Loop()).theta.view(3, 2, 3)

    class StopAt(Loop):
        def show(self, **numbers: float) -> None:
            if self.done.get("training", 0) + 10 >= 20:
                self.request_stop()

    early = method.run(target, generator(), StopAt())
    assert torch.equal(early.theta, found[0])
    assert not torch.equal(found[0], found[1])


def test_more_cycles_than_steps_or_uses_than_cycles_are_refused():
    with pytest.raises(ValueError, match="n_used=5 is more than n_cycles=4"):
        SEns(n_cycles=4, n_used=5)
    with pytest.raises(ValueError, match="a cycle needs a step"):
        SWAG(n_steps=5, n_cycles=10)


def test_swag_draws_have_the_fitted_mean_and_covariance():
    """Half the diagonal and half the low-rank covariance, as in the definition."""
    method = SWAG(n_samples=40_000, n_members=1)
    rng = torch.Generator().manual_seed(1)
    mean, spread = torch.tensor([[1.0, -2.0, 0.5]]).double(), torch.tensor([[0.3, 0.1, 0.2]]).double()
    snapshots = mean + torch.randn(5, 1, 3, generator=rng, dtype=torch.float64)
    state = {"mean": mean, "square": mean**2 + spread**2, "snapshots": snapshots}
    draws = method.draw(state, 5, generator()).numpy()
    deviations = (snapshots - mean)[:, 0].numpy()
    expected = 0.5 * np.diag(spread[0].numpy() ** 2) + 0.5 * deviations.T @ deviations / 4
    n = len(draws)
    std = np.sqrt(np.diag(expected))
    assert (np.abs(draws.mean(0) - mean[0].numpy()) < 5 * std / math.sqrt(n)).all()
    bound = 5 * np.sqrt(np.outer(std**2, std**2) + expected**2) / math.sqrt(n)
    assert (np.abs(np.cov(draws.T) - expected) < bound).all()


def test_multi_swag_shares_its_samples_between_trajectories():
    target = linear_regression().target
    posterior = SWAG(n_steps=100, n_cycles=5, n_used=3, n_members=3, n_samples=30).run(target, generator(), Loop())
    assert posterior.theta.shape == (30, 3)
    assert posterior.gradient_evaluations == 300
