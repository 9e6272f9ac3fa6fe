"""What a run says of parameters follows from their draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciuq_runner.evaluation.posterior_summaries import learned_parameters
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.physics.problem import Parameter
from tests.devices import elsewhere
from tests.exact import warped_regression


@pytest.mark.parametrize(("truth", "covered"), [(0.9, 1.0), (2.5, 0.0), (None, None)])
def test_an_unknown_number_has_the_moments_and_quantiles_of_its_draws(truth, covered):
    target = warped_regression().target
    draws = np.random.default_rng(0).permutation(np.linspace(0.0, 2.0, 401))
    theta = torch.zeros(len(draws), target.size, dtype=torch.float64)
    theta[:, target.n_weights - 1] = torch.tensor(draws)
    (name,) = target.model.scalars
    target.model.scalars[name] = Parameter("normal", 0.0, 1.0)
    expected = {"mean": 1.0, "std": draws.std(), "median": 1.0, "lower": 0.05, "upper": 1.95}
    expected |= {} if truth is None else {"reference": truth, "covered": covered}
    for samples in (theta, elsewhere(theta)):
        found = learned_parameters(target, Posterior(samples), {name: Parameter("normal", 0.0, 1.0, truth)})
        assert found == {name: pytest.approx(expected)}
