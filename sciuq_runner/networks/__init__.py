"""Batched networks: ``network(theta[M, K], x[N, D]) -> [M, N, D_out]``, one member per row of theta."""

from sciuq_runner.networks.base import Network
from sciuq_runner.networks.mlp import MLP
from sciuq_runner.networks.module import ModuleNetwork

__all__ = ["MLP", "ModuleNetwork", "Network"]
