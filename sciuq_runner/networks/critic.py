"""The critic of a Wasserstein GAN: a piecewise linear network whose slope is known in closed form."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sciuq_runner.networks.mlp import MLP, affine

LEAK = 0.2  # slope of the leaky ReLU below zero, as in TensorFlow, which the paper uses


class Critic(MLP):
    r"""A number for every sample ``s[M, R, N]``, one critic per member.

    Between its kinks the network is linear, so that its slope is a product of the weight matrices with the units that
    are off scaled down, :math:`\nabla_s D = W_1 \Lambda_1 W_2 \Lambda_2 \cdots w_L`. The gradient penalty then needs no
    second derivative: one backward pass through this product gives its gradient.
    """

    def __init__(self, n_inputs: int, hidden: Sequence[int]) -> None:
        super().__init__(n_inputs, 1, hidden, "leaky_relu")

    def value(self, gamma: Tensor, samples: Tensor) -> Tensor:
        """What the critic says of every sample, ``[M, R]``."""
        *hidden, last = self.layers(gamma)
        for weight, bias in hidden:
            samples = torch.nn.functional.leaky_relu(affine(samples, weight, bias), LEAK)
        return affine(samples, *last)[..., 0]

    def slope(self, gamma: Tensor, samples: Tensor) -> Tensor:
        """Its gradient with respect to every sample, ``[M, R, N]``."""
        *hidden, (last, _) = self.layers(gamma)
        factors = []
        for weight, bias in hidden:
            samples = affine(samples.detach(), weight.detach(), bias.detach())
            factors.append(torch.where(samples > 0, 1.0, LEAK))
            samples = samples * factors[-1]
        slope = last.transpose(1, 2)
        for (weight, _), factor in zip(reversed(hidden), reversed(factors), strict=True):
            slope = torch.bmm(slope.expand(-1, factor.shape[1], -1) * factor, weight.transpose(1, 2))
        return slope.expand(*samples.shape[:2], -1)
