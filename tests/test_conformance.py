"""One table of all methods against what is known exactly. Adding a method adds one row.

(a) Bayesian linear regression: samplers recover mean and covariance within Monte Carlo error; approximations get
    what theory says they get.
(b) A learned noise scale is recovered.
(c) A noise function is recovered where there are data.
(d) A colder posterior is narrower, by the factor that theory gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sciuq_runner.loop import Loop
from sciuq_runner.methods.base import Method, Posterior
from sciuq_runner.methods.dens import DEns
from sciuq_runner.methods.gp import GP
from sciuq_runner.methods.hmc import HMC
from sciuq_runner.methods.la import LA
from sciuq_runner.methods.ld import LD
from sciuq_runner.methods.mcd import MCD
from sciuq_runner.methods.mfvi import MFVI
from sciuq_runner.methods.nuts import NUTS
from sciuq_runner.methods.sens import SEns
from sciuq_runner.methods.sghmc import SGHMC
from sciuq_runner.methods.sgld import SGLD
from sciuq_runner.methods.swag import SWAG
from sciuq_runner.models.base import Prior
from sciuq_runner.models.bnn import BoundBNN
from sciuq_runner.networks import MLP
from sciuq_runner.predictive import predict
from sciuq_runner.problem import InverseGamma, Noise, Readings
from sciuq_runner.target import Target
from tests.exact import ExactRegression, Plane, linear_regression
from tests.montecarlo import assert_moments

Check = Callable[[ExactRegression, Posterior], None]


def chains(posterior: Posterior) -> torch.Tensor:
    return posterior.theta.view(max(1, posterior.n_chains), -1, posterior.theta.shape[1])


def exact_posterior(exact: ExactRegression, posterior: Posterior) -> None:
    """Mean and covariance within Monte Carlo error."""
    assert_moments(chains(posterior), exact.mean, exact.covariance)


def nearly_exact(bias: float) -> Check:
    """Mean and covariance up to a discretisation bias, in units of the posterior's own scale."""

    def check(exact: ExactRegression, posterior: Posterior) -> None:
        samples = posterior.theta.numpy()
        deviation = np.sqrt(np.diag(exact.covariance))
        assert (np.abs(samples.mean(0) - exact.mean) < bias * deviation).all()
        ratio = np.cov(samples.T) / np.outer(deviation, deviation)
        expected = exact.covariance / np.outer(deviation, deviation)
        assert (np.abs(ratio - expected) < bias).all()

    return check


def mean_field_optimum(exact: ExactRegression, posterior: Posterior) -> None:
    """The factorised Gaussian nearest to a Gaussian: its mean, and the inverse diagonal of its precision."""
    samples, n = posterior.theta.numpy(), len(posterior.theta)
    std = 1 / np.sqrt(np.diag(np.linalg.inv(exact.covariance)))
    np.testing.assert_allclose(samples.std(0), std, rtol=5 / np.sqrt(2 * n) + 0.05)  # 5 % for the optimiser
    assert (np.abs(samples.mean(0) - exact.mean) < 5 * std / np.sqrt(n) + 0.1 * std).all()
    correlation = np.corrcoef(samples.T)[np.triu_indices(3, 1)]
    assert (np.abs(correlation) < 5 / np.sqrt(n)).all()


def maximum(tolerance: float = 1e-3) -> Check:
    """All members at the maximum of the posterior, which a linear model has one of."""

    def check(exact: ExactRegression, posterior: Posterior) -> None:
        np.testing.assert_allclose(
            posterior.theta.numpy(), np.tile(exact.mean, (len(posterior.theta), 1)), atol=tolerance
        )

    return check


def near_maximum(exact: ExactRegression, posterior: Posterior) -> None:
    """SWAG's Gaussian sits at the maximum; its spread is that of the iterates, not of the posterior."""
    deviation = np.sqrt(np.diag(exact.covariance))
    assert (np.abs(posterior.theta.numpy().mean(0) - exact.mean) < 0.2 * deviation).all()


def dropout_ridge(exact: ExactRegression, posterior: Posterior) -> None:
    """Dropping inputs of a linear model with probability p is ridge regression with penalty p / (1 - p) x^2."""
    rate = 0.2
    squares = np.diag([*(exact.features[:, :2] ** 2).sum(0), 0.0])
    normal = exact.features.T @ exact.features + rate / (1 - rate) * squares
    expected = np.linalg.solve(normal, exact.features.T @ exact.y[:, 0])
    samples, n = posterior.theta.numpy(), len(posterior.theta)
    kept = samples[:, :2] != 0
    assert (np.abs(kept.mean(0) - (1 - rate)) < 5 * np.sqrt(rate * (1 - rate) / n)).all()
    np.testing.assert_allclose(samples.max(0)[[0, 2]], [expected[0] / (1 - rate), expected[2]], atol=0.02)
    np.testing.assert_allclose(samples.min(0)[1], expected[1] / (1 - rate), atol=0.02)


@dataclass(frozen=True)
class Row:
    """How a method is run on the small targets, and what it should find."""

    method: Method
    exact: Check
    tempered: Check | None = None  # None: refuses a temperature
    learns_noise: bool = True
    small: Mapping[str, Any] | None = None  # other settings for the nonlinear targets


STEPS = {"n_steps": 4000, "learning_rate": 0.01}
CHAIN = {"n_chains": 8, "n_burn": 400, "n_samples": 8000}
ROWS: dict[str, Row] = {
    "hmc": Row(HMC(**CHAIN, n_leapfrog=5, step_size=0.05, target_accept=0.8), exact_posterior, exact_posterior),
    "nuts": Row(NUTS(n_chains=2, n_burn=150, n_samples=800, step_size=0.1), exact_posterior, exact_posterior),
    "ld": Row(
        LD(n_chains=16, n_burn=1000, n_samples=16_000, thin=4, step_size=2e-4), nearly_exact(0.25), nearly_exact(0.25)
    ),
    "ld adjusted": Row(
        LD(n_chains=16, n_burn=500, n_samples=32_000, step_size=1e-2, adjusted=True), exact_posterior, exact_posterior
    ),
    "sgld": Row(
        SGLD(
            16, 500, 8000, 16_000, batch_size=None, step_size=2e-3, final_step_size=1e-3, n_cycles=1, sampled_share=0.9
        ),
        nearly_exact(0.25),
        nearly_exact(0.25),
    ),
    "sghmc": Row(
        SGHMC(
            16, 500, 8000, 16_000, batch_size=None, step_size=1e-3, final_step_size=5e-4, n_cycles=1, sampled_share=0.9
        ),
        nearly_exact(0.25),
        nearly_exact(0.25),
    ),
    "gp": Row(GP(n_samples=4000, n_prior=4000), nearly_exact(0.3), nearly_exact(0.3), learns_noise=False),
    "mfvi": Row(MFVI(n_samples=4000, **STEPS, n_draws=32), mean_field_optimum),
    "la": Row(LA(n_samples=4000, **STEPS), exact_posterior, exact_posterior),
    "dens": Row(DEns(n_members=3, **STEPS), maximum()),
    "dens anchored": Row(DEns(n_members=4000, **STEPS, anchored=True), exact_posterior, exact_posterior, False),
    "sens": Row(SEns(n_steps=4000, n_cycles=4, n_used=3), maximum(5e-3)),
    "swag": Row(SWAG(n_steps=4000, n_samples=200), near_maximum),
    "mcd": Row(
        MCD(n_samples=2000, n_steps=6000, learning_rate=1e-3, rate=0.2, drop="weights", n_masks=64),
        dropout_ridge,
        learns_noise=False,
    ),
}


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_every_method_has_a_row():
    methods = {path.stem for path in (Path(__file__).parent.parent / "conf" / "method").glob("*.yaml")}
    assert methods == {name.split()[0] for name in ROWS}


def run(name: str, target: Target) -> Posterior:
    method = ROWS[name].method
    assert method.refuse(target) is None
    return method.run(target, generator(), Loop())


def weights(name: str, exact: ExactRegression, posterior: Posterior) -> Posterior:
    """Samples of the three coefficients; a GP's are read off its functions."""
    if name != "gp":
        return posterior
    probes = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    values = predict(exact.target, posterior, "u", probes).members[..., 0]
    return Posterior(
        torch.as_tensor(np.column_stack([values[:, 0] - values[:, 2], values[:, 1] - values[:, 2], values[:, 2]]))
    )


@pytest.mark.parametrize("name", ROWS)
def test_linear_regression(name):
    exact = linear_regression()
    ROWS[name].exact(exact, weights(name, exact, run(name, exact.target)))


@pytest.mark.parametrize("name", ROWS)
def test_temperature(name):
    """Half the temperature: half the variance, where a method has a variance to temper."""
    row = ROWS[name]
    exact = linear_regression(temperature=0.5)
    if name == "mfvi":  # the paper tempers the divergence: readings count twice, the prior once
        posterior = run(name, exact.target)
        std = 1 / np.sqrt(np.diag(exact.features.T @ exact.features) / 0.09 / 0.5 + 1)
        np.testing.assert_allclose(posterior.theta.numpy().std(0), std, rtol=5 / np.sqrt(2 * 4000) + 0.05)
    elif row.tempered is None:
        assert "temperature" in str(row.method.refuse(exact.target))
    else:
        row.tempered(exact, weights(name, exact, run(name, exact.target)))


N_NOISE = 200


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.learns_noise])
def test_a_learned_noise_scale_is_recovered(name):
    """With 200 readings the scale 0.3 is known to about 5 %; five standard errors are allowed."""
    noise = Noise("learned", 0.3, hyperprior=InverseGamma(2.0, 10.0))
    target = linear_regression(n=N_NOISE, noise=noise).target
    start = target.init
    target.init = lambda n, g: start(n, g) + torch.tensor([0.0, 0, 0, 0.7]).double()  # begin at twice the truth
    posterior = run(name, target)
    scale = posterior.evaluate_scale(lambda theta: target.log_noise_scales(theta)[:, 0].exp()).mean().item()
    assert scale == pytest.approx(0.3, rel=5 / np.sqrt(2 * N_NOISE))


def test_learned_scales_that_cannot_be_are_refused():
    target = linear_regression(noise=Noise("learned", 0.3)).target
    for name in ("gp", "dens anchored"):
        assert "known scale" in str(ROWS[name].method.refuse(target))
    student = linear_regression(noise=Noise("learned", 0.3, "student_t")).target
    assert "joint" in str(HMC().refuse(student))
    assert HMC(scales="joint").refuse(student) is None
    assert "method=hmc" in str(LD().refuse(student))


def noisy_line(n: int = 160) -> Target:
    """A line whose noise grows from 0.1 to 0.7 along x."""
    rng = np.random.default_rng(3)
    x = np.column_stack([np.linspace(-1, 1, n), np.zeros(n)])
    y = 0.5 * x[:, :1] + (0.4 + 0.3 * x[:, :1]) * rng.standard_normal((n, 1))
    noise = {"u": Noise("heteroscedastic", 0.4)}
    model = BoundBNN(Plane(), {"u": MLP(2, 2, (8,))}, Prior(1.0), noise)
    return Target(model, noise, {"u": Readings(x, y)}, dtype=torch.float64)


NONLINEAR: dict[str, Method] = {
    "hmc": HMC(n_chains=4, n_burn=300, n_samples=400, thin=2, n_leapfrog=20, target_accept=0.8, step_size=0.01),
    "nuts": NUTS(n_chains=1, n_burn=150, n_samples=100, step_size=0.01, max_tree_depth=6),
    "ld": LD(n_chains=8, n_burn=4000, n_samples=400, thin=20, step_size=1e-3),
    "sgld": SGLD(8, 4000, 4000, 400, batch_size=40, step_size=1e-3, final_step_size=1e-4, n_cycles=2),
    "sghmc": SGHMC(8, 2000, 4000, 400, batch_size=40, step_size=1e-4, final_step_size=1e-5, n_cycles=2),
    "mfvi": MFVI(n_steps=4000, learning_rate=0.01, n_draws=8),
    "la": LA(n_steps=3000),
    "dens": DEns(n_members=4, n_steps=3000, learning_rate=0.01),
    "sens": SEns(n_steps=4000, n_cycles=4, n_used=3),
    "swag": SWAG(n_steps=4000),
    "mcd": MCD(n_steps=3000, learning_rate=0.01, rate=0.05, weight_decay=1e-3, n_samples=100),
}


@pytest.mark.parametrize("name", NONLINEAR)
def test_a_noise_function_is_recovered_where_there_are_data(name):
    """The predicted scale rises along x as the true one does, within what 160 readings can tell."""
    target = noisy_line()
    assert NONLINEAR[name].refuse(target) is None
    posterior = NONLINEAR[name].run(target, generator(), Loop())
    x = np.column_stack([np.linspace(-0.8, 0.8, 9), np.zeros(9)])
    found = predict(target, posterior, "u", x).aleatoric_std[:, 0]
    true = 0.4 + 0.3 * x[:, 0]
    # each ninth of the interval holds some 18 readings: a relative error of 1 / sqrt(36), and five of them allowed
    assert (np.abs(found / true - 1) < 5 / 6).all()
    assert np.corrcoef(found, true)[0, 1] > 0.9
    assert np.sqrt(np.mean((found - true) ** 2)) < 0.1
