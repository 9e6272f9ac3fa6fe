"""A learned functional prior as the input of a learned operator: PA-GAN-FP (Sections 4.3 and 6.5 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass, field

from sciuq_runner.models.base import Model
from sciuq_runner.models.gan_fp import GANFP
from sciuq_runner.models.gan_training import Adversarial
from sciuq_runner.models.operator_fields import OperatorFieldModel


@dataclass(frozen=True)
class PAGANFP(OperatorFieldModel):
    """The input is made by a generator that a GAN has learned from earlier inputs; theta is what it starts from."""

    prior: GANFP = field(default_factory=lambda: GANFP(latent=100, n_realisations=1000, gan=Adversarial(n_steps=3000)))

    def prior_model(self) -> Model:
        return self.prior
