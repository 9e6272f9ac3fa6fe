"""A finished run as ArviZ knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.posterior_summaries import parameter_draws
from sciuq_runner.evaluation.results import Result
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.physics.observations import Array, Observations
from sciuq_runner.predict.predictive import predict
from sciuq_runner.target.density import Target
from sciuq_runner.target.terms import log_density


def inference_data(target: Target, posterior: Posterior, results: Mapping[str, Result], **attributes: Any) -> Any:
    r"""The samples of a run as :class:`arviz.InferenceData`.

    - ``posterior``: parameters, learned scales, and every quantity on its test grid, ``[chain, draw, point]``;
    - ``observed_data`` and ``constant_data``: the observations that trained, and their points;
    - ``log_likelihood``: :math:`\log p(y_i \mid \theta_j)` of every observation;
    - ``sample_stats``: ``lp``, the log density of every sample, of methods whose samples are members of the model.

    Samples that do not come in chains are one chain. Observations of random fields, thousands of realisations, and
    those that an operator compares in standardised units have no log likelihood here; samples have no ``lp`` where
    these, or conditions beside observations, count too.
    """
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of releases to come
        import arviz as az
    n_chains = posterior.n_chains or 1
    draws = scalar_draws(target, posterior)
    fields, observed, points, likelihood = {}, {}, {}, {}
    is_density = type(posterior) is Posterior
    for name, result in results.items():
        if result.statistic_of or result.inputs is not None or result.mean.shape[1] != 1:
            continue
        fields[name] = predict(target, posterior, name, result.x).members[..., 0]
        data = result.train.observations
        if data.columns_are_functions or name in target.transforms:
            is_density = False
        elif len(data):
            observed[name], points[f"{name}_x"] = data.compared(data.y)[:, 0], data.compared(data.x)
            likelihood[name] = pointwise(target, posterior, name, data)
            is_density = is_density and data.count == len(data)

    if not fields and not draws:
        raise ConfigError(
            "ArviZ needs parameters or fields: this run has an operator alone, whose samples are weights."
        )

    def chained(values: Mapping[str, Array]) -> dict[str, Array]:
        return {name: part.reshape(n_chains, -1, *part.shape[1:]) for name, part in values.items()}

    found = az.from_dict(
        posterior=chained({**draws, **fields}),
        log_likelihood=chained(likelihood) or None,
        observed_data=observed or None,
        constant_data=points or None,
        sample_stats=chained({"lp": log_densities(target, posterior, likelihood)})
        if likelihood and is_density
        else None,
        dims={f"{name}_x": [f"{name}_observation", f"{name}_coordinate"] for name in observed}
        | {name: [f"{name}_point"] for name in fields},
        attrs={**posterior.diagnostics, **attributes},
    )
    return found


def scalar_draws(target: Target, posterior: Posterior) -> dict[str, Array]:
    """Draws ``[S]`` of the parameters, and of the noise scales and the prior scale where they are learned."""
    found = {name: _array(values) for name, values in parameter_draws(target, posterior).items()}
    if target.noise_groups:
        scales = _array(posterior.evaluate_scale(lambda theta: target.log_noise_scales(theta).exp()))
        found |= {f"noise_{group}": scales[:, slot] for slot, group in enumerate(target.noise_groups)}
    if target.model.prior.hyperprior is not None:
        found["prior_scale"] = _array(posterior.evaluate_scale(target.prior_scale)).reshape(-1)
    return found


def pointwise(target: Target, posterior: Posterior, quantity: str, data: Observations) -> Array:
    r"""The log density ``[S, count]`` of every observation under every sample."""
    members = predict(target, posterior, quantity, data.x).members
    points = target.tensor(data.x)
    scale = posterior.evaluate_scale(
        lambda theta: target.noise_scale(theta, quantity, points).expand(len(theta), len(points), -1)
    )
    residual = torch.as_tensor(data.compared(data.y) - data.compared(members))
    compared = torch.as_tensor(data.compared(_array(scale)))
    return _array(log_density(residual, compared, target.noise[quantity])[..., 0])


def log_densities(target: Target, posterior: Posterior, likelihood: Mapping[str, Array]) -> Array:
    r""":math:`\log p(D \mid \theta_j) + \log p(\theta_j)` of every sample ``[S]``."""
    total = sum(part.sum(1) for part in likelihood.values())
    prior = _array(posterior.evaluate_scale(target.log_prior))
    return np.asarray(total + prior.reshape(-1))


def _array(values: torch.Tensor) -> Array:
    found: Array = values.detach().cpu().double().numpy()
    return found
