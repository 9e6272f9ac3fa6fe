"""The GP against the textbook formulas with the same kernel."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sciuq_runner.problems.function import Function

from sciuq_runner.methods.gp import GP
from sciuq_runner.models import BNN
from sciuq_runner.predict.predictive import predict
from sciuq_runner.seeds import stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_posterior_is_that_of_regression_with_the_estimated_kernel(temperature):
    problem = Function()
    data = problem.dataset(stream(0, "data"))["u"]
    model = BNN(width=10).bind(problem, problem.noise)
    target = Target(model, problem.noise, {"u": data.train}, temperature=temperature, dtype=torch.float64)
    n = 20_000
    posterior = GP(n_samples=n, n_prior=300).run(target, torch.Generator().manual_seed(0), Loop())
    x = np.linspace(-1, 1, 9)[:, None]
    basis = [model.observe(posterior.theta, "u", target.tensor(p))[..., 0].numpy().T for p in (data.train.x, x)]
    kernel = [[a @ b.T / 300 * temperature for b in basis] for a in basis]
    gain = np.linalg.solve(kernel[0][0] + temperature * 0.01 * np.eye(32), kernel[0][1]).T
    mean, covariance = gain @ data.train.y[:, 0], kernel[1][1] - gain @ kernel[0][1]
    found = predict(target, posterior, "u", x)
    std = np.sqrt(np.diag(covariance))
    assert (np.abs(found.mean[:, 0] - mean) < 5 * std / np.sqrt(n)).all()
    np.testing.assert_allclose(found.epistemic_std[:, 0], std, rtol=5 / np.sqrt(2 * n))


def test_what_a_gp_cannot_do_is_refused():
    for case in ("unknown", "heteroscedastic"):
        problem = Function(case=case)
        target = Target(
            BNN().bind(problem, problem.noise), problem.noise, {"u": problem.dataset(stream(0, "d"))["u"].train}
        )
        assert "known scale" in str(GP().objection(target))
