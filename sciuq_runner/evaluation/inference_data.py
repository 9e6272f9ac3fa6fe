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

ARVIZ_GROUPS = ("posterior", "log_likelihood", "sample_stats", "observed_data", "constant_data")


def inference_data(target: Target, posterior: Posterior, results: Mapping[str, Result], **attributes: Any) -> Any:
    r"""The samples of a run as :class:`arviz.InferenceData`.

    - ``posterior``: parameters, learned scales ``[chain, draw]``, and every quantity on its test grid
      ``[chain, draw, u_point]`` with the coordinates of its points;
    - ``observed_data`` and ``constant_data``: the observations that trained, and their points;
    - ``log_likelihood``: :math:`\log p(y_i \mid \theta_j)` of every observation ``[chain, draw, u_observation]``;
      conditions that hold exactly, such as an equation, are not observed;
    - ``sample_stats``: ``lp``, the log density of every sample at temperature one, of methods whose samples are members
      of the model.

    Samples that do not come in chains are one chain. Observations of random fields, thousands of realisations, and
    those that an operator compares in standardised units have no log likelihood here; samples have no ``lp`` where
    these, or conditions beside observations, count too.
    """
    import warnings

    import xarray as xr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of releases to come
        import arviz as az

    n_chains = posterior.n_chains or 1
    groups = {name: xr.Dataset(attrs=attributes) for name in ARVIZ_GROUPS}
    terms, is_density = [], type(posterior) is Posterior

    def add(group: str, name: str, values: Array, *dims: str) -> None:
        chained = values.reshape(n_chains, -1, *values.shape[1:])
        groups[group][name] = (("chain", "draw", *dims), chained)

    for name, values in scalar_draws(target, posterior).items():
        add("posterior", name, values)
    for name, result in results.items():
        if result.statistic_of or result.inputs is not None or result.mean.shape[1] != 1:
            continue
        add("posterior", name, predict(target, posterior, name, result.x).members[..., 0], f"{name}_point")
        for key, column in zip(result.coordinates, result.x.T, strict=True):
            groups["posterior"].coords[f"{name}_{key}"] = (f"{name}_point", column)
        data = result.train.observations
        if data.columns_are_functions or name in target.transforms:
            is_density = False
        elif len(data):
            found, along = pointwise(target, posterior, name, data), f"{name}_observation"
            terms.append(found.sum(1))
            is_density = is_density and data.count == len(data)
            if target.noise[name].kind != "exact":
                add("log_likelihood", name, found, along)
                groups["observed_data"][name] = (along, data.compared(data.y)[:, 0])
                groups["constant_data"][f"{name}_x"] = ((along, f"{name}_coordinate"), data.compared(data.x))
    if not groups["posterior"].data_vars:
        raise ConfigError("ArviZ needs parameters or fields: this run has an operator alone, with weights as samples.")
    if terms and is_density:
        prior = _array(posterior.evaluate_scale(target.log_prior)).reshape(-1)
        add("sample_stats", "lp", np.sum(terms, axis=0) + prior)
    filled: dict[str, Any] = {name: group for name, group in groups.items() if group.data_vars}
    return az.InferenceData(**filled)


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
    residual = torch.as_tensor(data.compared(data.y) - data.compared(members))
    scale = torch.as_tensor(scales(target, posterior, quantity, data))
    return _array(log_density(residual, scale, target.noise[quantity])[..., 0])


def scales(target: Target, posterior: Posterior, quantity: str, data: Observations) -> Array:
    """The noise scale of every observation under every sample, broadcastable to ``[S, count, 1]``; of an exact
    condition its tolerance."""
    noise = target.noise[quantity]
    if noise.is_given:
        return np.asarray(noise.scale, dtype=float).reshape(1, -1, 1)
    points = target.tensor(data.x)
    found = posterior.evaluate_scale(
        lambda theta: target.noise_scale(theta, quantity, points).expand(len(theta), len(points), -1)
    )
    return data.compared(_array(found))


def _array(values: torch.Tensor) -> Array:
    found: Array = values.detach().cpu().double().numpy()
    return found
