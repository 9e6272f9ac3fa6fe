"""A Bayesian network as the input of a learned operator: PA-BNN-FP (Sections 4.3 and 6.5 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass

from sciuq_runner.models.base import Model
from sciuq_runner.models.bnn import BNN
from sciuq_runner.models.operator_fields import OperatorFieldModel
from sciuq_runner.networks.activations import Activation
from sciuq_runner.networks.layered import Init
from sciuq_runner.schema import Count, Positive


@dataclass(frozen=True)
class PABNNFP(OperatorFieldModel):
    """The input is a fully connected network with a Gaussian prior on its weights."""

    width: Count = 50
    depth: Count = 2
    activation: Activation = "tanh"
    init: Init = "xavier_normal"
    prior_scale: Positive = 1.0

    def prior_model(self) -> Model:
        return BNN(self.width, self.depth, self.activation, self.init, self.prior_scale)
