"""The forward PDE problem."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sciuq_runner.problems.forward_pde import DIFFUSION, REACTION, ForwardPDE, solution, source

from sciuq_runner.models import BNN
from sciuq_runner.seeds import stream, torch_stream
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
