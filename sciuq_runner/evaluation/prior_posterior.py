"""What was learned: priors and posteriors side by side (figures on distributions of Sections 6.1.2 and 6.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from sciuq_runner.evaluation.posterior_summaries import parameter_draws
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.physics.problem import Array, InverseGamma
from sciuq_runner.target.density import Target

N_PANEL_DRAWS = 2000


def before_and_after(
    target: Target, posterior: Posterior, rng: np.random.Generator, probes: Mapping[str, Sequence[float]]
) -> dict[str, dict[str, Array]]:
    """Samples for one panel each of the unknown numbers, of theta and every direct prediction at the origin if the
    prior was learned, of ``probes`` (quantities at points) and of every learned noise scale."""
    panels: dict[str, dict[str, Array]] = {}
    z = target.tensor(rng.standard_normal((N_PANEL_DRAWS, target.model.n_scalars)))
    before, after = target.model.parameters(z), parameter_draws(target, posterior)
    panels |= {name: {"prior": numbers(before[name]), "posterior": numbers(after[name])} for name in before}
    hyperprior = target.model.prior.hyperprior
    initial = np.full(N_PANEL_DRAWS, target.model.prior.scale) if hyperprior is None else draw_scale(hyperprior, rng)
    if hyperprior is not None:
        learned = resample(posterior.evaluate_scale(target.prior_scale), rng)
        priors = {"initial prior": prior(target, initial, rng), "learned prior": prior(target, learned, rng)}
        n = target.n_weights - target.model.n_scalars
        panels["weights"] = {name: subset(numbers(part.theta[:, :n]), rng) for name, part in priors.items()}
        panels["weights"]["stacked posterior"] = subset(numbers(posterior.theta[:, :n]), rng)
        width = {term.quantity: term.x.shape[1] for term in target.terms if target.model.is_direct(term.quantity)}
        for quantity, size in width.items():
            panels |= values_at(target, {**priors, "posterior": posterior}, quantity, np.zeros(size))
    for quantity, point in probes.items():
        panels |= probe(target, posterior, initial, quantity, np.array(point), rng)
    noise = posterior.evaluate_scale(lambda theta: target.log_noise_scales(theta).exp()).cpu().double().numpy()
    for slot, group in enumerate(target.noise_groups):
        panels[f"noise scale of {group}"] = {
            "prior": draw_scale(target.hyperprior(group), rng),
            "posterior": noise[:, slot],
        }
    return panels


def prior(target: Target, scales: Array, rng: np.random.Generator) -> Posterior:
    """Weights under priors of these scales; the unknown numbers have one of their own."""
    draws = rng.standard_normal((len(scales), target.n_weights))
    draws[:, : target.n_weights - target.model.n_scalars] *= scales[:, None]
    return Posterior(target.tensor(draws))


def probe(
    target: Target, posterior: Posterior, scales: Array, quantity: str, point: Array, rng: np.random.Generator
) -> dict[str, dict[str, Array]]:
    """The panel of a quantity at one point.

    Where the prior of theta holds what was read already, the model has to say what was assumed before.
    """
    if target.model.inference != "prior":
        return values_at(target, {"prior": prior(target, scales, rng), "posterior": posterior}, quantity, point)
    assumed = target.model.assumed(quantity, N_PANEL_DRAWS, rng)
    before = {} if assumed is None else {"prior": assumed}
    found = values_at(target, {"posterior": posterior}, quantity, point)
    return {label: before | after for label, after in found.items()}


def values_at(
    target: Target, posteriors: Mapping[str, Posterior], quantity: str, point: Array
) -> dict[str, dict[str, Array]]:
    """The panel of a quantity at one point, for every sample."""
    x = target.tensor(point[None])

    def value(theta: torch.Tensor) -> torch.Tensor:
        return target.model.observe(target.weights(theta), quantity, x)

    label = f"{quantity}({', '.join(f'{value:g}' for value in point)})"
    return {label: {name: numbers(samples.evaluate(value)[:, 0, 0]) for name, samples in posteriors.items()}}


def numbers(values: torch.Tensor) -> Array:
    found: Array = values.cpu().double().numpy()
    return found


def draw_scale(hyperprior: InverseGamma, rng: np.random.Generator) -> Array:
    """Scales drawn from the inverse-Gamma hyperprior of their square."""
    return 1 / np.sqrt(rng.gamma(hyperprior.shape, hyperprior.scale, N_PANEL_DRAWS))


def resample(scales: torch.Tensor, rng: np.random.Generator) -> Array:
    return rng.choice(scales.cpu().double().numpy(), N_PANEL_DRAWS)


def subset(values: Array, rng: np.random.Generator) -> Array:
    """A few thousand of many values: enough for a density."""
    return rng.choice(values.ravel(), 5 * N_PANEL_DRAWS)
