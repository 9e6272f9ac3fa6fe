"""How far a Monte Carlo estimate may lie from the truth: bounds derived from the effective sample size."""

from __future__ import annotations

import numpy as np
import torch
from pyro.ops.stats import effective_sample_size

SIGMAS = 5.0  # with a few dozen comparisons at fixed seeds, a chance failure is a one in a million event


def effective(chains: torch.Tensor) -> np.ndarray:
    """Effective sample size of every parameter of ``chains[C, S, K]``, never more than the number of samples."""
    total = chains.shape[0] * chains.shape[1]
    return effective_sample_size(chains, chain_dim=0, sample_dim=1).clamp(max=total).numpy()


def assert_moments(chains: torch.Tensor, mean: np.ndarray, covariance: np.ndarray) -> None:
    """Mean and covariance of the samples agree with a Gaussian's within Monte Carlo error."""
    samples = chains.flatten(0, 1).numpy()
    size = effective(chains)
    squares = effective((chains - torch.as_tensor(mean)) ** 2)
    deviation = np.sqrt(np.diag(covariance))
    assert (np.abs(samples.mean(0) - mean) < SIGMAS * deviation / np.sqrt(size)).all()
    # variance of a sample covariance of Gaussian draws: (s_ii s_jj + s_ij^2) / n
    spread = np.sqrt(np.outer(deviation**2, deviation**2) + covariance**2) / np.sqrt(squares.min())
    assert (np.abs(np.cov(samples.T) - covariance) < SIGMAS * spread).all()
