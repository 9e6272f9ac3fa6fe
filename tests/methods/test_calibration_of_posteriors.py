"""Simulation-based calibration of the exact samplers on a nonlinear model (Talts et al. 2018; Modrák et al. 2023).

Draw theta from the prior and readings y from the likelihood. Given y, this theta is one more draw of the posterior:
among ``N_DRAWS`` independent ones its rank, by any test quantity, is uniform on 0, ..., ``N_DRAWS``. The quantities are
those that the symmetries of a network leave alone: values of u, learned scales, and the log prior and log likelihood,
which see errors that values of u do not.

A chi-square test asks whether the ranks of many simulations are uniform. With twenty or more expected at each rank, a
p-value falls below ``LEVEL`` = 1e-5 by chance with a probability of at most 1.4e-5, and 62 p-values of this file should
not: by Bonferroni a chance failure is less likely than 1e-3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Generator, Tensor

from sciuq_runner.methods.hmc import HMC
from sciuq_runner.methods.ld import LD
from sciuq_runner.methods.nuts import NUTS
from sciuq_runner.models.base import Prior
from sciuq_runner.models.bnn import BoundBNN
from sciuq_runner.networks import MLP
from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.problem import InverseGamma, Noise, PointObservations
from sciuq_runner.target.batches import Batch
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop
from tests.exact import Plane

LEVEL = 1e-5
N_DRAWS = 9
X = np.random.default_rng(0).standard_normal((8, 2))
PROBES = torch.tensor([[0.0, 0.0], [1.0, -1.0], [2.0, 2.0]], dtype=torch.float64)
KNOWN, LEARNED = Noise("known", 0.5), Noise("learned", 0.5, hyperprior=InverseGamma(5.0, 0.4))
FIXED, HIERARCHICAL = Prior(1.0), Prior(1.0, InverseGamma(5.0, 0.2))

Ranks = dict[str, np.ndarray]


@dataclass(frozen=True)
class Simulations(Plane):
    """Observations ``y[i]`` of its own for every member of a batch: what is observed is u - y[i], and it reads zero."""

    y: Tensor

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        return unknowns[quantity](x) - self.y


@dataclass(frozen=True)
class Case:
    """A model and a sampler, with settings that make its draws nearly independent, for ``n`` simulations at once."""

    method: HMC | LD | NUTS
    noise: Noise = KNOWN
    prior: Prior = FIXED
    n: int = 500

    def target(self, y: Tensor, kind: type[Target] = Target) -> Target:
        """The posteriors given the readings ``y[n, N, 1]``, one per member."""
        model = BoundBNN(Simulations(y), {"u": MLP(2, 1, (3,))}, self.prior)
        return kind(model, {"u": self.noise}, {"u": PointObservations(X, np.zeros((len(X), 1)))}, dtype=torch.float64)


class Product(Target):
    """The posteriors of all simulations as one, for a sampler that runs its chains one after another."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.n = len(self.model.problem.y)
        self.size *= self.n

    def init(self, n_members: int, generator: Generator) -> Tensor:
        return super().init(n_members * self.n, generator).view(n_members, self.size)

    def log_density(self, theta: Tensor, batch: Batch | None = None) -> Tensor:
        return super().log_density(theta.view(self.n, -1), batch).sum(0, keepdim=True)


def simulate(case: Case, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Flat vectors ``[n, size]`` from the prior and readings ``[n, N, 1]`` from the likelihood."""
    target = case.target(torch.zeros(()))
    noise_scale = draw_scale(case.noise.scale, case.noise.hyperprior if target.noise_groups else None, case.n, rng)
    prior_scale = draw_scale(case.prior.scale, case.prior.hyperprior, case.n, rng)
    weights = prior_scale * rng.standard_normal((case.n, target.n_weights))
    learned = [noise_scale] * len(target.noise_groups) + [prior_scale] * target.learns_prior
    theta = torch.as_tensor(np.hstack([weights, *np.log(learned)]))
    shape, gaussian = (case.n, len(X), 1), case.noise.family == "gaussian"
    noise = rng.standard_normal(shape) if gaussian else rng.standard_t(case.noise.degrees_of_freedom, shape)
    u = target.model.networks["u"](target.weights(theta), target.tensor(X))
    return theta, u + torch.as_tensor(noise_scale[..., None] * noise)


def draw_scale(known: float, hyperprior: InverseGamma | None, n: int, rng: np.random.Generator) -> np.ndarray:
    """Scales ``[n, 1]``; the inverse square of a learned one is Gamma distributed."""
    if hyperprior is None:
        return np.full((n, 1), known)
    return rng.gamma(hyperprior.shape, hyperprior.scale, (n, 1)) ** -0.5


def sample(case: Case, y: Tensor, seed: int) -> Tensor:
    """Posterior draws ``[n, N_DRAWS, size]``."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(case.method, NUTS):
        theta = case.method.run(case.target(y, Product), generator, Loop()).theta
        draws = theta.view(len(theta), len(y), -1).transpose(0, 1)
    else:
        method = replace(case.method, n_chains=len(y), n_samples=len(y) * N_DRAWS)
        draws = method.run(case.target(y), generator, Loop()).theta.view(len(y), N_DRAWS, -1)
    thin = draws.shape[1] // N_DRAWS
    return draws[:, thin - 1 :: thin]


def quantities(target: Target, theta: Tensor) -> dict[str, Tensor]:
    """Test quantities ``[n]`` of one vector per simulation."""
    u = target.model.networks["u"](target.weights(theta), PROBES)[..., 0]
    learned = ["noise scale"] * len(target.noise_groups) + ["prior scale"] * target.learns_prior
    return {
        **{f"u{tuple(x)}": values for x, values in zip(PROBES.tolist(), u.T, strict=True)},
        **dict(zip(learned, theta[:, target.n_weights :].T, strict=True)),
        "log prior": target.log_prior(theta),
        "log likelihood": target.log_likelihood(theta),
    }


def ranks(case: Case, seed: int, wrong: Case | None = None) -> Ranks:
    """Ranks of the truth among posterior draws, or among those of a model or sampler that is wrong."""
    theta, y = simulate(case, np.random.default_rng(seed))
    target = case.target(y)
    draws = [quantities(target, draw) for draw in sample(wrong or case, y, seed).unbind(1)]
    truth = quantities(target, theta)
    return {name: sum(draw[name] < value for draw in draws).numpy() for name, value in truth.items()}


def p_values(*parts: Ranks) -> dict[str, float]:
    """Of uniform ranks, for every quantity; ties have probability zero."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return {name: stats.chisquare(np.bincount(rank, minlength=N_DRAWS + 1)).pvalue for name, rank in joined.items()}


TRAJECTORIES = HMC(n_burn=100, thin=8, n_leapfrog=10, target_accept=0.9)
CASES: dict[str, Case] = {
    "hmc": Case(TRAJECTORIES),
    "hmc gibbs": Case(TRAJECTORIES, LEARNED, HIERARCHICAL),
    "hmc joint": Case(replace(TRAJECTORIES, scales="joint"), replace(LEARNED, family="student_t")),
    "nuts": Case(NUTS(n_chains=1, n_burn=50, n_samples=3 * N_DRAWS, step_size=0.1, max_tree_depth=7), LEARNED, n=200),
}
MISTAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "noise scale": ("hmc", {"noise": Noise("known", 0.75)}),
    "prior scale": ("hmc", {"prior": Prior(1.25)}),
    "rate for scale": ("hmc gibbs", {"noise": replace(LEARNED, hyperprior=InverseGamma(5.0, 1 / 0.4))}),
    "no correction": ("hmc", {"method": LD(n_burn=400, thin=200, step_size=0.03)}),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full if name == "nuts" else ()) for name in CASES]
)
def test_ranks_are_uniform(name):
    found = p_values(ranks(CASES[name], seed=0))
    assert min(found.values()) > LEVEL, found


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_ranks_of_many_simulations_are_uniform(name):
    found = p_values(*(ranks(CASES[name], seed) for seed in range(1, 11)))
    assert min(found.values()) > LEVEL, found


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_detected(name):
    case, change = MISTAKES[name]
    found = p_values(ranks(CASES[case], seed=0, wrong=replace(CASES[case], **change)))
    assert min(found.values()) < LEVEL, found


def test_only_the_log_likelihood_tells_the_posterior_from_the_prior():
    """Draws that ignore the readings, as with endless noise, leave the ranks of all other quantities uniform."""
    found = p_values(ranks(CASES["hmc"], seed=0, wrong=replace(CASES["hmc"], noise=Noise("known", 1e6))))
    assert found.pop("log likelihood") < LEVEL
    assert min(found.values()) > LEVEL, found
