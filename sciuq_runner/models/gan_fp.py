"""Functional priors: the generator of a GAN, trained on earlier realisations, whose input is inferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Generator as RandomGenerator
from torch import Tensor

from sciuq_runner.errors import ConfigError
from sciuq_runner.models.base import BoundModel, Model, Pretraining, Prior
from sciuq_runner.models.generated_fields import GeneratedFields, GeneratorSettings, members_first
from sciuq_runner.models.prior_training import PriorTraining
from sciuq_runner.physics.problem import History, Noise, Observations, Problem
from sciuq_runner.schema import Count
from sciuq_runner.seeds import stream


@dataclass(frozen=True)
class GANFP(GeneratorSettings, Model):
    r"""Fields :math:`u_z(x; \beta)` with a frozen generator and an unknown input :math:`z \sim \mathcal N(0, I)`.

    All fields of the problem share z, of length ``latent``. The weights :math:`\beta` come from a Wasserstein GAN on
    the problem's historical realisations of some of its quantities: those that follow from the fields by physics are
    compared through the equation. Where the noise of the history is unknown, a network of its own learns its scale as a
    function of the place, which then is the noise of the observations too. ``pretrain_seed`` draws the history and all
    that the GAN starts from; ``seed`` changes neither.

    The posterior of z has modes a hundred nats apart, between which no chain moves: in two of three runs of the mixed
    problem, one of four chains that started at a draw of the prior stayed in a low one. Each chain therefore starts at
    the likeliest of ``n_starts`` draws. What they all miss, R-hat does not show.
    """

    noise_width: Count = 20
    noise_depth: Count = 2
    n_realisations: Annotated[int, Ge(20)] = 10_000
    pretrain_seed: Annotated[int, Ge(0)] = 0
    n_starts: Count = 200

    def bind(
        self, problem: Problem, noise: Mapping[str, Noise], observations: Mapping[str, Observations] | None = None
    ) -> BoundModel:
        sentence = self.objection(problem, noise)
        if sentence:
            raise ConfigError(sentence)
        return BoundGenerators(self, problem, noise, observations)

    def objection(self, problem: Problem, noise: Mapping[str, Noise]) -> str | None:
        """One sentence on why this model cannot serve a problem."""
        if problem.scalars or any(spec.n_outputs > 1 for spec in problem.fields.values()):
            return "model: a generator makes fields of one component and no unknown numbers: use model=bnn."
        known = problem.noise_of_history()
        if not known:
            return "model: the problem has no historical data in this case to learn a prior from: use model=bnn."
        for name, item in noise.items():
            if item.kind == "heteroscedastic" and known.get(name, 0.0) is not None:
                return (
                    f"model: the noise of {name} depends on the place and the historical data do not tell how: "
                    "use model=bnn."
                )
        return None

    def history(self, problem: Problem, observations: Mapping[str, Observations]) -> Mapping[str, History]:
        """What the generator learns from."""
        return problem.history(stream(self.pretrain_seed, "history"), self.n_realisations)


class BoundGenerators(BoundModel):
    """A functional prior for one problem: theta is the input z of its frozen generators."""

    def __init__(
        self,
        settings: GANFP,
        problem: Problem,
        noise: Mapping[str, Noise],
        observations: Mapping[str, Observations] | None,
    ) -> None:
        self.settings, self.problem, self.noise, self.observations = settings, problem, noise, observations or {}
        learned = [name for name, item in noise.items() if item.kind == "heteroscedastic"]
        self.generated = GeneratedFields(settings, problem, learned, (settings.noise_width,) * settings.noise_depth)
        self.n_params, self.prior, self.n_starts = settings.latent, Prior(1.0), settings.n_starts
        self.beta: Tensor | None = None

    @cached_property
    def past(self) -> Mapping[str, History]:
        """What the generators learn from: made when they do, which takes seconds, and not for a saved model."""
        return self.settings.history(self.problem, self.observations)

    @property
    def weights(self) -> Tensor:
        assert self.beta is not None, "the generator has not been trained yet"
        return self.beta

    def observe(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        return self.generated.observe(self.weights.to(theta), theta, quantity, x, members_first)

    def noise_scale(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        """What the game has learned with Gaussian noise is a standard deviation, whatever the likelihood is."""
        std = self.generated.noise_scale(self.weights.to(theta), quantity, x).expand(len(theta), -1, -1)
        return std / float(self.noise[quantity].variance_factor ** 0.5)

    def init(self, n_members: int, generator: RandomGenerator) -> Tensor:
        return torch.randn(n_members, self.n_params, generator=generator, dtype=torch.float64)

    def pretraining(self) -> Sequence[Pretraining]:
        return [PriorTraining(self)]

    def state(self) -> dict[str, Tensor]:
        return self.state_with(self.weights)

    def state_with(self, beta: Tensor) -> dict[str, Tensor]:
        """What :meth:`load_state` takes, with other weights."""
        return {"beta": beta, "units": torch.tensor(list(self.generated.units.values()), dtype=torch.float64)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.beta = state["beta"]
        self.generated.units = dict(zip(self.generated.units, state["units"].tolist(), strict=True))
