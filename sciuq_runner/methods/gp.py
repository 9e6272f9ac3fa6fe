"""The Gaussian process that a Bayesian network is analogous to (Section 6.1.1 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from sciuq_runner.errors import RunError
from sciuq_runner.memory import Need
from sciuq_runner.methods.base import Method, vectors
from sciuq_runner.methods.posterior import CombinedPosterior, Posterior
from sciuq_runner.schema import Count
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop


@dataclass(frozen=True)
class GP(Method):
    r"""Exact regression with the covariance of the network's outputs under its prior,

    .. math:: k(x, x') = \frac1R \sum_{r=1}^R u_{\theta_r}(x)\, u_{\theta_r}(x'), \qquad \theta_r \sim p(\theta),

    estimated from ``n_prior`` draws. A Gaussian process with this kernel is Bayesian linear regression on the features
    :math:`u_{\theta_r}(x) / \sqrt R`, so that its posterior functions are weighted sums of the prior's, with weights

    .. math::
        w = w_0 + \Phi^T (\Phi \Phi^T + \sigma^2 I)^{-1} (y + \sigma n - \Phi w_0), \qquad w_0, n \sim \mathcal N(0, I)

    (sampling by Matheron's rule). The gold standard for function approximation with known noise.
    """

    n_samples: Count = 1000
    n_prior: Count = 2000

    def objection(self, target: Target) -> str | None:
        if len(target.terms) != 1 or not all(target.model.is_direct(name) for name in target.noise):
            return "method=gp is for function approximation, where readings are of the network's own output."
        noise = target.terms[0].noise
        if noise.kind != "known" or noise.family != "gaussian":
            return "method=gp needs Gaussian noise of known scale: use problem.case=known or another method."
        if target.learns_prior:
            return "method=gp takes its kernel from a fixed prior: set model.learn_prior=false."
        return None

    def needs(self, target: Target) -> list[Need]:
        prior = vectors("method.n_prior", self.n_prior, target.n_weights, 8)
        what = f"weights of {self.n_samples} samples for {self.n_prior} prior draws"
        return [prior, Need(f"method.n_samples={self.n_samples}", what, 3.0 * 8 * self.n_samples * self.n_prior)]

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        term = target.terms[0]

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        theta = target.tensor(target.model.prior.scale * normal(self.n_prior, target.n_weights))
        prior = Posterior(theta)
        values = prior.evaluate(lambda part: target.model.observe(part, term.quantity, term.x))
        spread = target.temperature**0.5  # cooling scales prior and noise variance alike
        origin = target.model.unit(term.quantity).offset  # the prior's mean, with nothing random about it
        y = term.y.cpu().double() - origin
        features = spread * (values[..., 0].cpu().double().T - origin) / self.n_prior**0.5  # [N, R]
        scale = spread * term.known_scale.cpu().double().flatten()
        noise = scale.expand(len(features)) if scale.numel() == 1 else scale
        gram = features @ features.T + torch.diag(noise**2)
        factor, failed = torch.linalg.cholesky_ex(gram)
        if int(failed):
            raise RunError(
                "The kernel matrix is not positive definite: try more method.n_prior or a larger noise scale."
            )
        start = normal(self.n_samples, self.n_prior)
        observations = y[:, 0] + noise * normal(self.n_samples, len(noise))
        misfit = observations - start @ features.T
        weights = start + torch.cholesky_solve(misfit.T, factor).T @ features
        weights = spread * weights / self.n_prior**0.5
        if origin:  # functions are origin + sum w (u - origin), and a network of zeros is the origin
            theta = torch.cat([theta, torch.zeros_like(theta[:1])])
            weights = torch.cat([weights, 1 - weights.sum(1, keepdim=True)], dim=1)
        posterior = CombinedPosterior(theta, weights=target.tensor(weights))
        evidence = -0.5 * (y[:, 0] @ torch.cholesky_solve(y, factor)).item()
        determinant = factor.diagonal().log().sum().item()
        posterior.diagnostics = {"log_evidence": evidence - determinant - 0.9189385332046727 * len(noise)}
        return posterior
