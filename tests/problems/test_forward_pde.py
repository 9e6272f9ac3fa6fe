"""The forward PDE problem."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sciuq_runner.problems.forward_pde import DIFFUSION, REACTION, ForwardPDE, solution, source

from sciuq_runner.evaluation.prior_posterior import before_and_after
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.models import BNN
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.target.density import Target
from tests.exact import along


def test_source_and_solution_satisfy_the_equation():
    """The second derivative by automatic differentiation of the exact solution."""
    x = torch.linspace(-1, 1, 101, dtype=torch.float64)[:, None]

    def u(x):
        return torch.sin(6 * x) ** 3

    expected = DIFFUSION * along(along(u))(x) - REACTION * u(x) ** 3
    np.testing.assert_allclose(source(x.numpy()), expected.numpy(), atol=1e-13)
    np.testing.assert_allclose(solution(x.numpy()), u(x).numpy(), atol=1e-14)


@pytest.mark.parametrize(("case", "n"), [("n15", 15), ("n6", 6)])
def test_readings_are_those_of_the_paper(case, n):
    found = ForwardPDE(case=case).dataset(stream(0, "data"))
    assert found["u"].train.x.ravel().tolist() == [-1, 1]
    places = found["f"].train.x.ravel()
    assert len(places) == n
    assert np.abs(places).max() < 1
    assert np.ptp(np.diff(places)) < 1e-12
    residual = found["f"].test.y - found["f"].reference
    assert residual.std() == pytest.approx(0.1, rel=5 / np.sqrt(2 * residual.size))


def test_f_of_a_network_is_the_equation():
    problem = ForwardPDE()
    model = BNN(width=8).bind(problem, problem.noise)
    theta = model.init(2, torch_stream(0, "test"))
    x = torch.rand(7, 1, dtype=torch.float64)

    def u(points):
        return model.observe(theta, "u", points)

    expected = DIFFUSION * along(along(u))(x) - REACTION * u(x) ** 3
    torch.testing.assert_close(model.observe(theta, "f", x), expected, rtol=1e-10, atol=1e-10)


def test_the_source_at_the_right_end_is_shown_before_and_after():
    """The prior is that of networks with standard normal weights, whatever the samples are."""
    problem = ForwardPDE()
    model = BNN(width=8).bind(problem, problem.noise)
    readings = {name: item.train for name, item in problem.dataset(stream(0, "data")).items()}
    target = Target(model, problem.noise, readings, dtype=torch.float64)
    posterior = Posterior(target.init(3, torch_stream(0, "test")))
    panel = before_and_after(target, posterior, stream(0, "figures"), problem.probes)["f(1)"]
    assert list(panel) == ["prior", "posterior"]
    at = torch.ones(1, 1, dtype=torch.float64)
    np.testing.assert_allclose(panel["posterior"], model.observe(posterior.theta, "f", at)[:, 0, 0])
    draws = torch.randn(4000, model.n_params, generator=torch_stream(1, "test"), dtype=torch.float64)
    parts = panel["prior"], model.observe(draws, "f", at)[:, 0, 0].numpy()
    np.testing.assert_allclose(*(np.quantile(part, (0.25, 0.75)) for part in parts), rtol=0.15)
