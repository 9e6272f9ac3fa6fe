"""Posterior mean, spread and interval of what is learned beside the fields: noise and prior scales, and parameters."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.physics.problem import Parameter
from sciuq_runner.target.density import Target


def learned_noise(target: Target, posterior: Posterior) -> dict[str, dict[str, float]]:
    """Posterior mean and spread of every learned scale."""
    noise = posterior.evaluate_scale(lambda theta: target.log_noise_scales(theta).exp())
    scales = dict(zip(target.noise_groups, noise.unbind(1), strict=True))
    if target.learns_prior:
        scales["prior"] = posterior.evaluate_scale(target.prior_scale)
    return {name: {"mean": s.mean().item(), "std": s.std(correction=0).item()} for name, s in scales.items()}


def learned_parameters(
    target: Target, posterior: Posterior, parameters: Mapping[str, Parameter]
) -> dict[str, dict[str, float]]:
    """Posterior mean, spread and 95 % credible interval of every parameter, beside the truth where known."""
    found = {}
    for name, item in parameter_draws(target, posterior).items():
        draws = item.cpu()  # before double precision, which not every device has
        lower, median, upper = torch.quantile(draws.double(), torch.tensor([0.025, 0.5, 0.975], dtype=torch.float64))
        found[name] = {
            "mean": draws.mean().item(),
            "std": draws.std(correction=0).item(),
            "median": median.item(),
            "lower": lower.item(),
            "upper": upper.item(),
        }
        truth = parameters[name].reference
        if truth is not None:
            found[name] |= {"reference": truth, "covered": float(lower <= truth <= upper)}
    return found


def parameter_draws(target: Target, posterior: Posterior) -> dict[str, torch.Tensor]:
    """The parameters of the problem for every sample, never linearised: they would leave their bounds."""
    return target.model.parameters(posterior.theta[:, target.n_weights - target.model.n_scalars : target.n_weights])
