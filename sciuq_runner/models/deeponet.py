"""DeepONet: a branch for the function, a trunk for the point (Sections 2.2 and 6.5 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sciuq_runner.errors import ConfigError
from sciuq_runner.models.base import Prior
from sciuq_runner.models.operators import OperatorModel
from sciuq_runner.networks import MLP, Network
from sciuq_runner.networks.activations import Activation
from sciuq_runner.networks.cnn import CNN
from sciuq_runner.networks.layered import Init
from sciuq_runner.networks.operator import BranchTrunkNetwork, in_box
from sciuq_runner.physics.problem import Array
from sciuq_runner.physics.standardisation import axes_of_plane
from sciuq_runner.schema import Count, Positive


@dataclass(frozen=True)
class DeepONet(OperatorModel):
    r"""The operator :math:`u(x; \lambda) = p^{-1/2} \sum_{k \le p} b_k(\lambda)\, t_k(x) + b_{p+1}(\lambda)`.

    The branch b is fully connected (``mlp``), ``depth`` layers of ``width`` units, or has convolutions with these
    ``channels`` before one such layer (``cnn``), for functions on a rectangular grid. The trunk t is fully connected
    with ``trunk_depth`` layers of ``trunk_width``; ``n_modes`` is p.
    """

    branch: Literal["mlp", "cnn"] = "cnn"
    channels: list[Count] = field(default_factory=lambda: [16, 32, 64])
    width: Count = 128
    depth: Count = 2
    activation: Activation = "gelu"
    trunk_width: Count = 128
    trunk_depth: Count = 3
    trunk_activation: Activation = "tanh"
    n_modes: Count = 128
    init: Init = "xavier_normal"
    prior_scale: Positive = 1.0

    def __post_init__(self) -> None:
        if self.branch == "cnn" and not self.channels:
            raise ValueError("channels should name at least one convolution for branch=cnn.")

    @property
    def prior(self) -> Prior:
        return Prior(self.prior_scale)

    def make_network(self, sensors: Array, low: Array, high: Array) -> BranchTrunkNetwork:
        n_outputs = self.n_modes + 1
        parts = self.activation, self.init, self.prior_scale
        branch: Network
        if self.branch == "mlp":
            branch = MLP(len(sensors), n_outputs, (self.width,) * self.depth, *parts)
        else:
            try:
                rows, columns = axes_of_plane(sensors)
            except ValueError as error:
                raise ConfigError(f"model.branch=cnn needs {error}; otherwise use mlp.") from error
            branch = CNN((len(rows), len(columns)), n_outputs, self.channels, (self.width,), *parts)
        hidden = (self.trunk_width,) * self.trunk_depth
        trunk = MLP(len(low), self.n_modes, hidden, self.trunk_activation, self.init, self.prior_scale)
        return BranchTrunkNetwork(branch, in_box(trunk, np.asarray(low), np.asarray(high)))
