"""Dropout: which weights are dropped. That samples are of the right distribution is in the conformance table."""

from __future__ import annotations

import pytest
import torch
from sciuq_runner.problems.function import Function

from sciuq_runner.methods.mcd import MCD
from sciuq_runner.models import BNN
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop


@pytest.fixture(scope="module")
def target() -> Target:
    problem = Function()
    readings = {name: data.train for name, data in problem.dataset(stream(0, "data")).items()}
    return Target(BNN().bind(problem, problem.noise), problem.noise, readings)


@pytest.mark.parametrize("drop", ["units", "weights"])
@pytest.mark.parametrize("drop_last", [True, False])
def test_the_last_layer_is_dropped_or_stays(target: Target, drop, drop_last):
    method = MCD(n_samples=200, n_steps=20, rate=0.3, drop=drop, drop_last=drop_last, compile="never")
    theta = method.run(target, torch_stream(0, "test"), Loop()).theta
    last = target.model.last_layer()
    assert last is not None
    first, hidden, bias = slice(0, 50), slice(100, 2600), slice(50, 100)
    zeros = (theta == 0).double().mean(0)  # how often each weight is dropped: by chance within 5 standard errors
    expected = {"first": 0.3 if drop == "weights" else 0.0, "hidden": 0.3, "last": 0.3 if drop_last else 0.0}
    weights = torch.nonzero(last).flatten()[:-1]
    for name, where in {"first": first, "hidden": hidden, "last": weights}.items():
        independent = 200 * (50 if drop == "units" or name != "hidden" else 2500)
        assert abs(zeros[where].mean().item() - expected[name]) <= 5 * (0.21 / independent) ** 0.5, name
    assert not zeros[bias].any()
    if not drop_last:
        assert torch.equal(theta[:, last], theta[:1, last].expand(200, -1))


def test_without_layers_there_is_no_last_one(target: Target, monkeypatch):
    monkeypatch.setattr(type(target.model), "last_layer", lambda self: None)
    assert MCD().objection(target) is None
    assert "method.drop_last=false needs a model with a last layer" in str(MCD(drop_last=False).objection(target))
