"""The Fourier neural operator, a second operator beside DeepONet (Li et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sciuq_runner.errors import ConfigError
from sciuq_runner.models.base import Prior
from sciuq_runner.models.operators import OperatorModel
from sciuq_runner.networks.activations import Activation
from sciuq_runner.networks.fno import FourierNetwork
from sciuq_runner.physics.problem import Array
from sciuq_runner.physics.standardisation import axes_of_plane
from sciuq_runner.schema import Count, Positive

ROUNDING = 1e-3  # how far steps may differ, in units of their mean: coordinates in a file have few digits


@dataclass(frozen=True)
class FNO(OperatorModel):
    """``depth`` convolutions in Fourier space over ``width`` channels, the lowest ``modes`` frequencies of either sign
    along each coordinate, then a layer of ``hidden`` units at every node.

    For functions on a rectangular grid in two dimensions, evenly spaced along each; its output is on the same grid and
    bilinear in between.
    """

    width: Count = 16
    modes: Count = 6
    depth: Count = 4
    hidden: Count = 32
    activation: Activation = "gelu"
    prior_scale: Positive = 1.0

    @property
    def prior(self) -> Prior:
        return Prior(self.prior_scale)

    def make_network(self, sensors: Array, low: Array, high: Array) -> FourierNetwork:
        try:
            first, second = axes_of_plane(sensors)
            if not (is_even(first) and is_even(second)):
                raise ValueError("nodes that are evenly spaced along both coordinates")
        except ValueError as error:
            raise ConfigError(f"model: a Fourier operator needs {error}; otherwise use model=deeponet.") from error
        bounds = (float(first[0]), float(first[-1])), (float(second[0]), float(second[-1]))
        try:
            sizes = self.width, self.modes, self.depth, self.hidden
            return FourierNetwork((len(first), len(second)), bounds, *sizes, self.activation)
        except ValueError as error:
            raise ConfigError(f"model.{error}") from error


def is_even(axis: Array) -> bool:
    """Whether the nodes of an axis, two at least, have the same distances."""
    steps = np.diff(axis)
    return len(steps) > 0 and bool(np.ptp(steps) <= ROUNDING * steps.mean())
