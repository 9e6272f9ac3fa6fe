"""Wasserstein GANs with gradient penalty (Gulrajani et al. 2017; Appendix B.4 of the paper), batched over members."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Gt, Lt
from torch import Generator as RandomGenerator
from torch import Tensor

from sciuq_runner.errors import RunError
from sciuq_runner.networks.critic import Critic
from sciuq_runner.schema import Count, NonNegative, Positive
from sciuq_runner.training.autodiff import CompileChoice, MaybeCompiled, worth_compiling
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import AdamState, adam

log = logging.getLogger(__name__)

BETAS = (0.5, 0.9)
JUDGED_EVERY = 50  # generator steps between two looks at held-out realisations
N_PROJECTIONS = 200
COLLAPSED, NARROW = 0.02, 0.3  # spread of what is generated over that of the data: given up, warned of

PLAYED = (
    "average",
    *(f"{player}{part}" for player in ("beta", "gamma") for part in ("", "_first", "_second", "_count")),
)
"""What changes from step to step: the weights of both players with their moments, and the average."""

Simulate = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps weights ``beta[M, P]``, inputs ``z[M, R, K]`` and unit noise ``[M, R, N]`` to samples ``[M, R, N]``."""


@dataclass(frozen=True)
class Adversarial:
    r"""Settings of the game between generator and critic.

    The critic :math:`D_\gamma` minimises :math:`E[D(\text{made})] - E[D(\text{real})] + \zeta E(\|\nabla D\| - 1)^2`,
    the last on lines between made and real samples, ``n_critic`` times for every step of the generator, which minimises
    :math:`-E[D(\text{made})]` and ``energy`` times the energy distance (Székely & Rizzo 2013)

    .. math:: 2 E\|s - r\| - E\|s - s'\| - E\|r - r'\|

    between made s and real r, which needs no opponent: in trials, means and spectra settled in a few thousand steps
    with it and swung by a third without. Zero is the game as in the paper. The learning rate falls to zero. The weights
    kept are an average over the last steps (``averaging`` is the weight of the past), since those of a single step
    circle around the solution.
    """

    n_steps: Count = 4000
    learning_rate: Positive = 1e-3
    n_critic: Count = 5
    penalty: Positive = 10.0
    batch: Count = 64
    critic_width: Count = 128
    critic_depth: Count = 3
    energy: NonNegative = 10.0
    averaging: Annotated[float, Gt(0), Lt(1)] = 0.99
    compile: CompileChoice = "auto"


class Game:
    """One training: ``n_members`` generators, each against a critic of its own.

    ``real[R, N]`` are realisations that train, ``held[R', N]`` others that only judge.
    """

    def __init__(
        self,
        settings: Adversarial,
        simulate: Simulate,
        latent: int,
        real: Tensor,
        held: Tensor,
        beta: Tensor,
        generator: RandomGenerator,
        loop: Loop,
        name: str = "pre-training",
    ) -> None:
        self.settings, self.simulate, self.latent, self.name = settings, simulate, latent, name
        self.real, self.held, self.generator, self.loop = real, held, generator, loop
        self.critic = Critic(real.shape[1], (settings.critic_width,) * settings.critic_depth)
        gamma = self.critic.init(len(beta), generator).to(beta)
        parts = [(v, torch.zeros_like(v), torch.zeros_like(v), v.new_zeros(())) for v in (beta, gamma)]
        state = dict(zip(PLAYED, (beta.clone(), *parts[0], *parts[1]), strict=True))
        self.state = loop.track({**state, "good": torch.full_like(beta, math.nan)}, generator)
        self.play = MaybeCompiled(
            self.round, worth_compiling(settings.compile, settings.n_steps * (settings.n_critic + 1))
        )
        self.warned = False

    def run(self) -> Tensor:
        """Play to the end; the averaged weights of the generators, ``[M, P]``."""
        for step in self.loop.steps(self.name, self.settings.n_steps):
            self.advance(step)
            if (step + 1) % JUDGED_EVERY == 0 or step + 1 == self.settings.n_steps:
                self.look(step + 1)
        return self.state["average"]

    @property
    def good(self) -> Tensor | None:
        """The averaged weights when a look last found nothing wrong; None if none has: where it starts is no good."""
        found = self.state["good"]
        return found if bool(torch.isfinite(found).all()) else None

    # The two players

    def draw(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator).to(self.real)

    def inputs(self, *shape: int) -> tuple[Tensor, Tensor]:
        """What samples are made of: random inputs and noise."""
        return self.draw(*shape, self.latent), self.draw(*shape, self.real.shape[1])

    def advance(self, step: int) -> None:
        """Some steps of the critics, then one of the generators."""
        settings, state = self.settings, self.state
        members, batch, times = len(state["beta"]), settings.batch, settings.n_critic
        index = torch.randint(len(self.real), (times, members, batch), generator=self.generator)
        mix = torch.rand(times, members, batch, 1, generator=self.generator).to(self.real)
        rates = self.real.new_full((times,), settings.learning_rate * (1 - step / settings.n_steps))
        past = self.real.new_tensor(min(settings.averaging, step / (step + 10)))
        *new, loss = self.play(
            *(state[key] for key in PLAYED),
            self.real[index.to(self.real.device)],
            mix,
            rates,
            past,
            *self.inputs(members, times * batch),
            *self.inputs(1, members, batch),
        )
        state.update(zip(PLAYED, new, strict=True))
        if not torch.isfinite(loss).all():
            raise RunError(
                f"The critic's loss became NaN or infinite in step {step} of {self.name}: "
                "try a smaller model.gan.learning_rate."
            )

    def round(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """All that one call computes, as a function of tensors alone: it can be compiled."""
        average, state = tensors[0], tensors[1:9]
        real, mix, rates, past, made_z, made_noise, z, noise = tensors[9:]
        generators, critics = AdamState(*state[:4]), AdamState(*state[4:])
        with torch.no_grad():
            made = self.simulate(generators.theta, made_z, made_noise).detach()
            made = made.unflatten(1, (len(rates), -1)).transpose(0, 1)
        critics, loss = adam(self.critic_loss, critics, rates, made, real, torch.lerp(real, made, mix), betas=BETAS)

        def generator_loss(beta: Tensor, z: Tensor, noise: Tensor, real: Tensor) -> Tensor:
            made = self.simulate(beta, z, noise)
            loss = -self.critic.value(critics.theta, made).mean(1)
            return loss + self.settings.energy * energy_distance(made, real) if self.settings.energy else loss

        generators, _ = adam(generator_loss, generators, rates[:1], z, noise, real[:1], betas=BETAS)
        average = torch.lerp(generators.theta, average, past)
        players = [part for s in (generators, critics) for part in (s.theta, s.first, s.second, s.count)]
        return average, *players, loss

    def critic_loss(self, gamma: Tensor, made: Tensor, real: Tensor, between: Tensor) -> Tensor:
        said_made, said_real = self.critic.value(gamma, torch.cat([made, real], dim=1)).chunk(2, dim=1)
        length = self.critic.slope(gamma, between).square().sum(-1).clamp_min(1e-20).sqrt()
        penalty = self.settings.penalty * (length - 1).square().mean(1)
        return said_made.mean(1) - said_real.mean(1) + penalty

    # The judge

    def look(self, step: int) -> None:
        """Compare with held-out realisations: how far, and whether the variety has been lost.

        Noise would vary beside a generator that gives always the same, so that its variety is that without any. It is
        compared with data that have noise: what is healthy may vary less than they do, but not fifty times less.
        """
        average = self.state["average"]
        with torch.no_grad():
            z, noise = self.inputs(len(average), len(self.held))
            made, clean = (self.simulate(average, z, part) for part in (noise, torch.zeros_like(noise)))
            said = self.critic.value(self.state["gamma"], torch.cat([made, self.held.expand_as(made)], dim=1))
        estimate = said[:, len(self.held) :].mean() - said[:, : len(self.held)].mean()
        distance = sliced_distance(made, self.held)
        spread, variety = (part.std(1).mean(1) / self.held.std(0).mean() for part in (made, clean))
        self.loop.show(critic=estimate.item(), distance=distance.mean().item(), spread=spread.min().item())
        if not torch.isfinite(distance).all():
            raise RunError(
                f"The generator gives NaN or infinite values in step {step} of {self.name}: "
                "try a smaller model.gan.learning_rate."
            )
        late = step >= self.settings.n_steps / 4
        lost, wild = bool(variety.min() < COLLAPSED), bool(spread.max() > 1 / COLLAPSED)
        if late and lost:
            raise RunError(
                f"The generator has collapsed in step {step} of {self.name}: without noise its realisations vary "
                f"{variety.min():.1%} as much as the data; try a smaller model.gan.learning_rate, another seed "
                "of it or a larger model.gan.n_critic."
            )
        if late and wild:
            raise RunError(
                f"The generator has run away in step {step} of {self.name}: its realisations vary "
                f"{spread.max():.0f} times as much as the data; try a smaller model.gan.learning_rate."
            )
        if late and not NARROW <= spread.min() <= spread.max() <= 1 / NARROW and not self.warned:
            extreme = spread.min() if spread.min() < NARROW else spread.max()
            log.warning("The generator's realisations vary %.0f %% as much as the data.", 100 * extreme)
            self.warned = True
        if not lost and not wild:
            self.state["good"] = average.clone()  # two names of one tensor cannot be saved


def energy_distance(made: Tensor, real: Tensor) -> Tensor:
    """Unbiased estimate from samples ``[M, R, N]`` of both, up to what does not depend on the first, ``[M]``."""
    count = made.shape[1]
    between = lengths(made[:, :, None] - real[:, None]).mean((1, 2))
    within = lengths(made[:, :, None] - made[:, None]).sum((1, 2)) / (count * (count - 1))
    return 2 * between - within


def lengths(differences: Tensor) -> Tensor:
    return (differences.square().sum(-1) + 1e-12).sqrt()


def sliced_distance(made: Tensor, real: Tensor) -> Tensor:
    """Wasserstein distance between samples ``[M, R, N]`` and ``[R, N]``, mean over random directions, ``[M]``.

    The directions are the same in every call, so that values can be compared.
    """
    random = RandomGenerator().manual_seed(0)
    directions = torch.randn(real.shape[1], N_PROJECTIONS, generator=random).to(real)
    directions = directions / directions.norm(dim=0)
    levels = torch.linspace(0, 1, min(made.shape[1], len(real)) + 1)[:-1].to(real) + 0.5 / len(real)

    def quantiles(samples: Tensor) -> Tensor:
        along = (samples @ directions).sort(dim=-2).values
        place = (levels * along.shape[-2]).long().clamp_max(along.shape[-2] - 1)
        found: Tensor = along[..., place, :]
        return found

    return (quantiles(made) - quantiles(real)).abs().mean((1, 2))
