"""Convergence of chains, judged by their predictions: raw weights of a network are not identifiable."""

from __future__ import annotations

import torch

from sciuq_runner.physics.problem import Array

GOOD_RHAT = 1.1
GOOD_ESS = 100.0


def convergence(members: Array, n_chains: int) -> dict[str, float]:
    """Worst split R-hat over all predicted values, smallest effective sample size over about a hundred of them.

    ``members`` is ``[M, N, D_q]`` with chains one after another.
    """
    from pyro.ops.stats import effective_sample_size, split_gelman_rubin  # Pyro's are tested against Stan's

    if not members.size:
        return {}
    chains = torch.as_tensor(members).reshape(n_chains, -1, *members.shape[1:]).flatten(2)
    moving = chains.flatten(0, 1).std(0) > 0  # a value that the model fixes, such as a boundary value, cannot disagree
    if chains.shape[1] < 4 or not moving.any():
        return {}
    chains = chains[..., moving]
    stuck = chains.std(1).amax(0) == 0  # every chain constant, but not the same constant
    rhat = split_gelman_rubin(chains, chain_dim=0, sample_dim=1)
    some = chains[..., :: max(1, chains.shape[2] // 100)]  # autocorrelations of all points would take gigabytes
    ess = effective_sample_size(some, chain_dim=0, sample_dim=1)
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
