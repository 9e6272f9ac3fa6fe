"""Diagnostics of a method. Chains are judged by their predictions: raw weights of a network are not identifiable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.predictive import Predictive
from sciuq_runner.target.density import Target

GOOD_RHAT = 1.1
GOOD_ESS = 100.0


def judge(
    target: Target, posterior: Posterior, predictives: Mapping[str, Predictive]
) -> tuple[dict[str, float], list[str]]:
    """Diagnostics of the method and of its chains, with what to say about them.

    Learned scales and parameters count by themselves: chains that agree on all predictions may still be on their way
    with a scale.
    """
    found = dict(posterior.diagnostics)
    if posterior.n_chains:
        parts = [convergence(item.members, posterior.n_chains) for item in predictives.values()]
        if all(parts):
            found["rhat_max"] = max(part["rhat_max"] for part in parts)
            found["ess_min"] = min(part["ess_min"] for part in parts)
        settled = convergence(target.numbers(posterior.theta)[..., None].cpu().numpy(), posterior.n_chains)
        if settled:
            found["rhat_numbers"] = settled["rhat_max"]
    return found, posterior.warnings + (convergence_warnings(found) if posterior.n_chains else [])


def convergence(members: Array, n_chains: int) -> dict[str, float]:
    """Worst split R-hat over all predicted values, smallest effective sample size over about a hundred of them.

    ``members`` is ``[M, N, D_q]`` with chains one after another.
    """
    from pyro.ops import stats

    if not members.size:
        return {}
    tested: Any = stats  # Pyro's are tested against Stan's, and have no types
    chains = torch.as_tensor(members).reshape(n_chains, -1, *members.shape[1:]).flatten(2)
    moving = chains.flatten(0, 1).std(0) > 0  # a value that the model fixes, such as a boundary value, cannot disagree
    if chains.shape[1] < 4 or not moving.any():
        return {}
    chains = chains[..., moving]
    stuck = chains.std(1).amax(0) == 0  # every chain constant, but not the same constant
    rhat = tested.split_gelman_rubin(chains, chain_dim=0, sample_dim=1)
    some = chains[..., :: max(1, chains.shape[2] // 100)]  # autocorrelations of all points would take gigabytes
    ess = tested.effective_sample_size(some, chain_dim=0, sample_dim=1)
    rhat = torch.where(stuck | rhat.isnan(), torch.inf, rhat)
    # the estimate of a very short or constant chain can come out negative or undefined: worth no more than one sample
    return {"rhat_max": rhat.max().item(), "ess_min": ess.nan_to_num(nan=1.0).clamp(min=1.0).min().item()}


def convergence_warnings(found: dict[str, float]) -> list[str]:
    """Plain words about chains that have not converged."""
    warnings = []
    if "rhat_max" not in found:
        warnings.append("The chains are too short to tell whether they have converged: try more method.n_samples.")
    if found.get("rhat_max", 1.0) > GOOD_RHAT:
        warnings.append(
            f"The chains do not agree on the predictions (R-hat {found['rhat_max']:.2f}, good is below "
            f"{GOOD_RHAT}): try more method.n_burn and method.n_samples."
        )
    if found.get("rhat_numbers", 1.0) > GOOD_RHAT:
        warnings.append(
            f"Learned scales or unknown numbers have not settled (R-hat {found['rhat_numbers']:.2f}, good is below "
            f"{GOOD_RHAT}): they drift, or differ between chains; try more method.n_burn and method.n_samples."
        )
    if found.get("ess_min", GOOD_ESS) < GOOD_ESS:
        warnings.append(
            f"Some predictions rest on only {found['ess_min']:.0f} effective samples: their uncertainty is itself "
            "uncertain; try more method.n_samples."
        )
    return warnings
