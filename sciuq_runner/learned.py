"""What was learned about scales: priors and posteriors side by side (figure on distributions, Section 6.1.2)."""

from __future__ import annotations

import numpy as np
import torch

from sciuq_runner.methods.base import Posterior
from sciuq_runner.problem import Array, InverseGamma
from sciuq_runner.target import Target

N_DRAWS = 2000


def before_and_after(target: Target, posterior: Posterior, rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    """Samples for one panel each of theta, of every direct prediction at the origin, and of every learned scale."""
    panels: dict[str, dict[str, Array]] = {}
    hyperprior = target.model.prior.hyperprior
    if hyperprior is not None:
        initial, learned = draw_scale(hyperprior, rng), resample(posterior.evaluate_scale(target.prior_scale), rng)
        weights = {
            "initial prior": initial[:, None] * rng.standard_normal((N_DRAWS, target.n_weights)),
            "learned prior": learned[:, None] * rng.standard_normal((N_DRAWS, target.n_weights)),
        }
        stacked = target.weights(posterior.theta).cpu().double().numpy()
        panels["theta"] = {name: subset(values, rng) for name, values in weights.items()}
        panels["theta"]["stacked posterior"] = subset(stacked, rng)
        for quantity in (name for name in target.noise if target.model.is_direct(name)):
            origin = target.tensor(np.zeros((1, target.terms[0].x.shape[1])))

            def value(theta: torch.Tensor, quantity: str = quantity, x: torch.Tensor = origin) -> torch.Tensor:
                return target.model.observe(target.weights(theta), quantity, x)

            priors = {name: Posterior(target.tensor(part)).evaluate(value) for name, part in weights.items()}
            values = {**priors, "posterior": posterior.evaluate(value)}
            panels[f"{quantity}(0)"] = {name: part[:, 0, 0].cpu().double().numpy() for name, part in values.items()}
    noise = posterior.evaluate_scale(lambda theta: target.log_noise_scales(theta).exp()).cpu().double().numpy()
    for slot, group in enumerate(target.noise_groups):
        panels[f"noise scale of {group}"] = {
            "prior": draw_scale(target.hyperprior(group), rng),
            "posterior": noise[:, slot],
        }
    return panels


def draw_scale(hyperprior: InverseGamma, rng: np.random.Generator) -> Array:
    """Scales drawn from the inverse-Gamma hyperprior of their square."""
    return 1 / np.sqrt(rng.gamma(hyperprior.shape, hyperprior.scale, N_DRAWS))


def resample(scales: torch.Tensor, rng: np.random.Generator) -> Array:
    return rng.choice(scales.cpu().double().numpy(), N_DRAWS)


def subset(values: Array, rng: np.random.Generator) -> Array:
    """A few thousand of many values: enough for a density."""
    return rng.choice(values.ravel(), 5 * N_DRAWS)
