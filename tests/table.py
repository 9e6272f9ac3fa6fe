"""The table of all methods: how each is run on small targets, and what it should find. A new method is a new row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sciuq_runner.methods.base import Method
from sciuq_runner.methods.dens import DEns
from sciuq_runner.methods.gp import GP
from sciuq_runner.methods.hmc import HMC
from sciuq_runner.methods.la import LA
from sciuq_runner.methods.ld import LD
from sciuq_runner.methods.mcd import MCD
from sciuq_runner.methods.mfvi import MFVI
from sciuq_runner.methods.nuts import NUTS
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.methods.sens import SEns
from sciuq_runner.methods.sghmc import SGHMC
from sciuq_runner.methods.sgld import SGLD
from sciuq_runner.methods.swag import SWAG
from tests.exact import ExactRegression
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
    correlation = np.corrcoef(samples.T)[np.triu_indices(len(exact.mean), 1)]
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
    """A method on the small targets."""

    method: Method  # on Bayesian linear regression
    exact: Check  # what it should find there
    brief: Mapping[str, Any]  # settings of a run of no time, for what does not ask how good the samples are
    tempered: Check | None = None  # what it should find at another temperature; None: refuses one
    cold: Mapping[str, Any] = field(default_factory=dict)  # changes for that, which is a factor of two
    warped: Mapping[str, Any] = field(default_factory=dict)  # changes for a parameter beside the weights
    noisy: Mapping[str, Any] | None = field(default_factory=dict)  # changes for a learned noise scale; None: refuses it
    nonlinear: Mapping[str, Any] | None = None  # settings for a small network with a noise function; None: refuses it

    def with_settings(self, settings: Mapping[str, Any]) -> Method:
        """The same kind of method with other settings."""
        return type(self.method)(**settings)


STEPS = {"n_steps": 4000, "learning_rate": 0.01}
CHAIN = {"n_chains": 8, "n_burn": 400, "n_samples": 8000, "thin": 1}
CYCLES = {"n_chains": 16, "n_burn": 500, "n_steps": 8000, "n_samples": 16_000, "batch_size": None, "n_cycles": 1}
NOISY_CYCLES = {"n_chains": 8, "n_steps": 2000, "n_samples": 400, "batch_size": 40, "n_cycles": 2}
SHORT = {"n_chains": 2, "n_burn": 10, "n_samples": 20}
ROWS: dict[str, Row] = {
    "hmc": Row(
        HMC(**CHAIN, n_leapfrog=5, step_size=0.05, target_accept=0.8),
        exact_posterior,
        {**SHORT, "n_leapfrog": 3, "thin": 2, "step_size": 0.05},
        tempered=exact_posterior,
        cold={"n_samples": 3000},
        warped={"n_samples": 3000},
        noisy={"n_samples": 2000},
        nonlinear={
            "n_burn": 200,
            "n_samples": 400,
            "thin": 1,
            "n_leapfrog": 20,
            "target_accept": 0.8,
            "step_size": 0.01,
        },
    ),
    "nuts": Row(
        NUTS(n_chains=2, n_burn=150, n_samples=400, step_size=0.1),
        exact_posterior,
        {"n_chains": 3, "n_burn": 5, "n_samples": 12},
        tempered=exact_posterior,
        noisy={"n_samples": 200},
        nonlinear={"n_chains": 1, "n_burn": 150, "n_samples": 100, "step_size": 0.01, "max_tree_depth": 6},
    ),
    "ld": Row(
        LD(n_chains=16, n_burn=1000, n_samples=16_000, thin=4, step_size=2e-4),
        nearly_exact(0.25),
        SHORT,
        tempered=nearly_exact(0.25),
        noisy={"n_samples": 4000},
        nonlinear={"n_chains": 8, "n_burn": 2000, "n_samples": 400, "thin": 20, "step_size": 1e-3},
    ),
    "sgld": Row(
        SGLD(**CYCLES, step_size=2e-3, final_step_size=1e-3, sampled_share=0.9),
        nearly_exact(0.25),
        {**SHORT, "n_steps": 40, "batch_size": 4},
        tempered=nearly_exact(0.25),
        noisy={"n_steps": 3000, "n_samples": 3200},
        nonlinear={**NOISY_CYCLES, "n_burn": 2000, "step_size": 1e-3, "final_step_size": 1e-4},
    ),
    "sghmc": Row(
        SGHMC(**CYCLES, step_size=1e-3, final_step_size=5e-4, sampled_share=0.9),
        nearly_exact(0.25),
        {**SHORT, "n_steps": 40, "batch_size": 4},
        tempered=nearly_exact(0.25),
        noisy={"n_steps": 3000, "n_samples": 3200},
        nonlinear={**NOISY_CYCLES, "n_burn": 1000, "step_size": 1e-4, "final_step_size": 1e-5},
    ),
    "gp": Row(
        GP(n_samples=4000, n_prior=4000),
        nearly_exact(0.3),
        {"n_samples": 10, "n_prior": 50},
        tempered=nearly_exact(0.3),
        noisy=None,
    ),
    "mfvi": Row(
        MFVI(n_samples=4000, **STEPS, n_draws=32, scale_delay=1000),
        mean_field_optimum,
        {"n_steps": 200, "n_samples": 10, "scale_delay": 50, "early_stopping": True},
        warped={"n_steps": 2000},
        noisy={"n_steps": 2500},
        nonlinear={**STEPS, "n_steps": 3000, "scale_delay": 1000},
    ),
    "la": Row(
        LA(n_samples=4000, **STEPS),
        exact_posterior,
        {"n_steps": 100, "n_samples": 10, "n_scale_steps": 20},
        tempered=exact_posterior,
        cold={"n_steps": 2000},
        warped={"n_steps": 2000},
        noisy={"n_steps": 2000, "n_samples": 1000},
        nonlinear={"n_steps": 3000},
    ),
    "la kron": Row(  # the weights of a linear model are one column: its Kronecker factors are exact
        LA(n_samples=4000, **STEPS, hessian="kron"),
        exact_posterior,
        {"n_steps": 100, "n_samples": 10, "n_scale_steps": 20, "hessian": "kron"},
        tempered=exact_posterior,
        cold={"n_steps": 2000},
        noisy={"n_steps": 2000, "n_samples": 1000},
        nonlinear={"n_steps": 3000, "hessian": "kron"},
    ),
    "la diag": Row(
        LA(n_samples=4000, **STEPS, hessian="diag"),
        mean_field_optimum,
        {"n_steps": 100, "n_samples": 10, "n_scale_steps": 20, "hessian": "diag"},
        tempered=mean_field_optimum,
        cold={"n_steps": 2000},
        warped={"n_steps": 2000},
        noisy={"n_steps": 2000, "n_samples": 1000},
        nonlinear={"n_steps": 3000, "hessian": "diag"},
    ),
    "dens": Row(
        DEns(n_members=3, **STEPS),
        maximum(),
        {"n_members": 2, "n_steps": 100},
        warped={"n_steps": 2000},
        noisy={"n_steps": 2000},
        nonlinear={"n_members": 4, "n_steps": 3000, "learning_rate": 0.01},
    ),
    "dens anchored": Row(
        DEns(n_members=4000, **STEPS, anchored=True),
        exact_posterior,
        {"n_members": 2, "n_steps": 100, "anchored": True},
        tempered=exact_posterior,
        cold={"n_members": 1000},
        noisy=None,
    ),
    "sens": Row(
        SEns(n_steps=4000, n_cycles=4, n_used=3),
        maximum(5e-3),
        {"n_steps": 105, "n_cycles": 5, "n_used": 4},
        noisy={"n_steps": 2000},
        nonlinear={"n_steps": 4000, "n_cycles": 4, "n_used": 3},
    ),
    "swag": Row(
        SWAG(n_steps=4000, n_samples=200),
        near_maximum,
        {"n_steps": 105, "n_cycles": 5, "n_used": 4, "n_samples": 10},
        noisy={"n_steps": 2000},
        nonlinear={"n_steps": 4000},
    ),
    "mcd": Row(
        MCD(n_samples=2000, n_steps=6000, learning_rate=1e-3, rate=0.2, drop="weights", n_masks=64),
        dropout_ridge,
        {"n_steps": 100, "n_samples": 10},
        noisy={
            "rate": 0.01,
            "n_steps": 4000,
            "n_masks": 16,
        },  # the masks of a linear model add their own variance to the residual
        nonlinear={"n_steps": 3000, "learning_rate": 0.01, "rate": 0.05, "weight_decay": 1e-3, "n_samples": 100},
    ),
}
