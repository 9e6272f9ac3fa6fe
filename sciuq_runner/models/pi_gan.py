"""PI-GAN: generators of random fields, trained against critics on realisations of all quantities (Yang et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Generator as RandomGenerator
from torch import Tensor

from sciuq_runner.errors import RunError
from sciuq_runner.models.base import BoundAdversarialModel, InferenceKind, Prior
from sciuq_runner.models.gan_training import Adversarial, Game
from sciuq_runner.models.generated_fields import GeneratedFields, GeneratorSettings
from sciuq_runner.models.pretraining import keep_good
from sciuq_runner.models.prior_training import Samples
from sciuq_runner.models.random_fields import BoundRandomFieldModel, RandomFieldModel
from sciuq_runner.physics.problem import Array, History, Noise, Observations, Problem
from sciuq_runner.schema import Count
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.training.loop import Loop


@dataclass(frozen=True)
class PIGAN(GeneratorSettings, RandomFieldModel):
    r"""Random fields :math:`u_z(x; \beta)` of a common input :math:`z \sim \mathcal N(0, I)` of length ``latent``.

    Observations of all quantities of one realisation, those that physics makes of the fields among them, are one sample
    that a critic compares. There is no likelihood: ``method=dens`` trains its members with the settings ``gan.*``,
    each against a critic of its own, and other methods have nothing to sample. Fields are shown at ``n_draws`` draws
    of z.
    """

    inference: ClassVar[InferenceKind] = BoundAdversarialModel.inference

    gan: Adversarial = field(default_factory=lambda: Adversarial(n_steps=3000, energy=2.0, averaging=0.9))
    n_draws: Count = 2000

    def bind(
        self, problem: Problem, noise: Mapping[str, Noise], observations: Mapping[str, Observations] | None = None
    ) -> BoundPIGAN:
        history = {name: as_history(part, noise[name]) for name, part in (observations or {}).items()}
        return BoundPIGAN(self, problem, history)


def as_history(part: Observations, noise: Noise) -> History:
    """Realisations with the noise that they are known to have."""
    return History(part.x, part.y, 0.0 if noise.kind == "exact" else float(np.mean(noise.scale)))


class BoundPIGAN(BoundRandomFieldModel, BoundAdversarialModel):
    """Generators of all fields; theta is the weights of all of them."""

    def __init__(self, settings: PIGAN, problem: Problem, history: Mapping[str, History]) -> None:
        self.settings, self.problem, self.past, self.prior = settings, problem, history, Prior(1.0)
        self.generated = GeneratedFields(settings, problem)
        self.generated.take_units(history)
        self.n_params = self.generated.n_params

    @property
    def n_realisations(self) -> int:
        return self.settings.n_draws

    def draws(self, n: int, name: str) -> Tensor:
        """The same inputs z every time, so that members and points can be compared."""
        return torch.randn(n, self.settings.latent, generator=torch_stream(0, name), dtype=torch.float64)

    def observe(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        z = self.draws(self.n_realisations, "shown").to(theta)
        return self.generated.observe(theta, z, quantity, x)

    def realise(self, theta: Tensor, quantity: str, x: Tensor, sensed: Mapping[str, Array]) -> Tensor:
        n = next(iter(sensed.values())).shape[1]
        return self.generated.observe(theta, self.draws(n, "realised").to(theta), quantity, x)

    def init(self, n_members: int, generator: RandomGenerator) -> Tensor:
        return self.generated.init(n_members, generator)

    def train(self, start: Tensor, generator: RandomGenerator, loop: Loop) -> Tensor:
        """The game; when it is lost, the last good weights are kept beside the checkpoint."""
        samples = Samples(self.past)
        real = samples.real().to(start)
        order = torch.tensor(stream(0, "held out").permutation(len(real)))
        held = max(2, round(self.settings.held_out * len(real)))

        def simulate(beta: Tensor, z: Tensor, noise: Tensor) -> Tensor:
            return samples.made(self.generated, beta, z, noise)

        parts = real[order[held:]], real[order[:held]]
        game = Game(self.settings.gan, simulate, self.settings.latent, *parts, start, generator, loop, "training")
        try:
            return game.run()
        except RunError as error:
            if loop.checkpoint is None:  # no folder to keep anything in
                raise
            kept = {} if game.good is None else {"theta": game.good, **self.state()}
            raise RunError(f"{error} {keep_good(loop.checkpoint.parent, kept)}") from error

    def state(self) -> dict[str, Tensor]:
        return {"units": torch.tensor(list(self.generated.units.values()), dtype=torch.float64)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.generated.units = dict(zip(self.generated.units, state["units"].tolist(), strict=True))
