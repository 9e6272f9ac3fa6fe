"""Functional priors: the generator of a GAN, trained on earlier realisations, whose input is inferred."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge
from torch import Generator as RandomGenerator
from torch import Tensor

from sciuq_runner.errors import ConfigError
from sciuq_runner.models.asked_derivatives import columns_of, derivatives_asked
from sciuq_runner.models.base import BoundModel, Model, Pretraining, Prior
from sciuq_runner.models.gan_training import Adversarial, Game, sliced_distance
from sciuq_runner.networks import MLP
from sciuq_runner.networks.activations import Activation
from sciuq_runner.networks.generator import Generator, JointGenerator, SplitGenerator
from sciuq_runner.networks.mlp import Init
from sciuq_runner.physics.fields import Field, Jet, Unknowns
from sciuq_runner.physics.problem import Array, History, Noise, Problem, Readings
from sciuq_runner.physics.taylor import Order
from sciuq_runner.schema import Count, Fraction
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.training.loop import Loop

FORMAT = 2
"""Counts changes of the code after which an earlier product is of no use."""


FLOOR = 0.01
"""Variance below which directions of a history, in units of its spread, are not magnified further."""

N_JUDGED = 2000  # realisations that the learned prior is judged by
N_EIGENVALUES = 10


@dataclass(frozen=True)
class GeneratorSettings:
    """How generators of the fields of a problem are made and trained."""

    latent: Count = 20
    width: Count = 128
    depth: Annotated[int, Ge(0)] = 2
    activation: Activation = "tanh"
    init: Init = "he_normal"
    generator: Literal["split", "joint"] = "split"
    held_out: Fraction = 0.1
    gan: Adversarial = field(default_factory=Adversarial)

    def make_generator(self, n_inputs: int) -> Generator:
        kind = SplitGenerator if self.generator == "split" else JointGenerator
        return kind(n_inputs, self.latent, (self.width,) * self.depth, self.activation, self.init)


@dataclass(frozen=True)
class GANFP(GeneratorSettings, Model):
    r"""Fields :math:`u_z(x; \beta)` with a frozen generator and an unknown input :math:`z \sim \mathcal N(0, I)`.

    All fields of the problem share z, of length ``latent``. The weights :math:`\beta` come from a Wasserstein GAN on
    the problem's historical realisations of some of its quantities: those that follow from the fields by physics are
    compared through the equation. Where the noise of the history is unknown, a network of its own learns its scale as a
    function of the place, which then is the noise of the readings too. ``pretrain_seed`` draws the history and all that
    the GAN starts from; ``seed`` changes neither.

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
        self, problem: Problem, noise: Mapping[str, Noise], readings: Mapping[str, Readings] | None = None
    ) -> BoundModel:
        refusal = self.refuse(problem, noise)
        if refusal:
            raise ConfigError(refusal)
        return BoundGenerators(self, problem, noise, readings)

    def refuse(self, problem: Problem, noise: Mapping[str, Noise]) -> str | None:
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

    def history(self, problem: Problem, readings: Mapping[str, Readings]) -> Mapping[str, History]:
        """What the generator learns from."""
        return problem.history(stream(self.pretrain_seed, "history"), self.n_realisations)


class GeneratorField(Field):
    """A field made by a generator for many inputs z, with the derivatives that the physics of one quantity asks for.

    ``arrange`` brings values ``[M, N, R]`` into the shape that the reader of the quantity expects.
    """

    def __init__(
        self,
        generator: Generator,
        beta: Tensor,
        z: Tensor,
        columns: Sequence[int],
        orders: Mapping[str, Order],
        unit: float,
        arrange: Callable[[Tensor], Tensor],
    ) -> None:
        self.generator, self.beta, self.z, self.unit = generator, beta, z, unit
        self.columns, self.orders, self.arrange = list(columns), orders, arrange

    def __call__(self, x: Tensor) -> Tensor:
        return self.unit * self.arrange(self.generator(self.beta, self.z, x[..., self.columns]))

    def at(self, x: Tensor) -> Any:
        orders = tuple(self.orders.values())
        values = self.generator.derivatives(self.beta, self.z, x[..., self.columns], orders)
        return Jet(self.orders, [self.unit * self.arrange(value) for value in values])


def members_first(values: Tensor) -> Tensor:
    """One generator, every input a member: ``[1, N, M]`` as ``[M, N, 1]``."""
    return values[0].transpose(0, 1)[..., None]


def as_they_are(values: Tensor) -> Tensor:
    """Every input a realisation: ``[M, N, R]``."""
    return values


class Physics:
    """Generators of all fields of a problem side by side in one flat ``beta``, then networks of learned noise.

    A field of which there is a history is generated in the unit of its values there.
    """

    def __init__(
        self,
        settings: GeneratorSettings,
        problem: Problem,
        learned_noise: Sequence[str] = (),
        noise_network: tuple[int, ...] = (),
    ) -> None:
        self.problem, self.latent = problem, settings.latent
        self.generators = {
            name: settings.make_generator(len(spec.coordinates)) for name, spec in problem.fields.items()
        }
        self.noises = {
            name: MLP(len(problem.coordinates_of(name)), 1, noise_network, "relu", "he_normal")
            for name in learned_noise
        }
        self.units = dict.fromkeys(problem.fields, 1.0)  # numbers, not tensors: constants of what is compiled
        self.makers: list[Generator | MLP] = [*self.generators.values(), *self.noises.values()]
        self.sizes = [part.n_params for part in self.makers]
        self.n_params = sum(self.sizes)
        self.columns = {name: columns_of(problem, name) for name in problem.noise}
        self.asked = {name: derivatives_asked(problem, name) for name in problem.noise}

    def take_units(self, history: Mapping[str, History]) -> None:
        """Let the values of a history be of the order of one."""
        for name in self.units.keys() & history.keys():
            self.units[name] = float(np.sqrt(np.square(history[name].y).mean()))

    def init(self, n_members: int, generator: RandomGenerator) -> Tensor:
        return torch.cat([part.init(n_members, generator) for part in self.makers], dim=1)

    def parts(self, beta: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The weights of every generator and of every network of noise."""
        pieces = beta.split(self.sizes, dim=1)
        n = len(self.generators)
        return dict(zip(self.generators, pieces[:n], strict=True)), dict(zip(self.noises, pieces[n:], strict=True))

    def observe(
        self, beta: Tensor, z: Tensor, quantity: str, x: Tensor, arrange: Callable[[Tensor], Tensor] = as_they_are
    ) -> Tensor:
        """A quantity at ``x[N, D]`` for every input, ``[M, N, R]`` before it is arranged."""
        weights, asked = self.parts(beta)[0], self.asked[quantity]
        fields = {
            name: GeneratorField(
                self.generators[name], weights[name], z, columns, asked[name], self.units[name], arrange
            )
            for name, columns in self.columns[quantity].items()
        }
        return self.problem.observe(quantity, Unknowns(fields), x)

    def noise_scale(self, beta: Tensor, quantity: str, x: Tensor) -> Tensor:
        """The learned scale of the noise, ``[M, N, 1]``."""
        raw = self.noises[quantity](self.parts(beta)[1][quantity], x)
        return torch.nn.functional.softplus(raw - 2.0) + 1e-4  # starts near 0.1


class BoundGenerators(BoundModel):
    """A functional prior for one problem: theta is the input z of its frozen generators."""

    def __init__(
        self, settings: GANFP, problem: Problem, noise: Mapping[str, Noise], readings: Mapping[str, Readings] | None
    ) -> None:
        self.settings, self.problem, self.noise, self.readings = settings, problem, noise, readings or {}
        learned = [name for name, item in noise.items() if item.kind == "heteroscedastic"]
        self.physics = Physics(settings, problem, learned, (settings.noise_width,) * settings.noise_depth)
        self.n_params, self.prior, self.n_starts = settings.latent, Prior(1.0), settings.n_starts
        self.beta: Tensor | None = None

    @cached_property
    def past(self) -> Mapping[str, History]:
        """What the generators learn from: made when they do, which takes seconds, and not for a saved model."""
        return self.settings.history(self.problem, self.readings)

    @property
    def weights(self) -> Tensor:
        assert self.beta is not None, "the generator has not been trained yet"
        return self.beta

    def observe(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        return self.physics.observe(self.weights.to(theta), theta, quantity, x, members_first)

    def noise_scale(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        """What the game has learned with Gaussian noise is a standard deviation, whatever the likelihood is."""
        std = self.physics.noise_scale(self.weights.to(theta), quantity, x).expand(len(theta), -1, -1)
        return std / self.noise[quantity].variance_factor ** 0.5

    def init(self, n_members: int, generator: RandomGenerator) -> Tensor:
        return torch.randn(n_members, self.n_params, generator=generator, dtype=torch.float64)

    def pretraining(self) -> Sequence[Pretraining]:
        return [PriorTraining(self)]

    def state(self) -> dict[str, Tensor]:
        return self.state_with(self.weights)

    def state_with(self, beta: Tensor) -> dict[str, Tensor]:
        """What :meth:`load_state` takes, with other weights."""
        return {"beta": beta, "units": torch.tensor(list(self.physics.units.values()), dtype=torch.float64)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.beta = state["beta"]
        self.physics.units = dict(zip(self.physics.units, state["units"].tolist(), strict=True))


class Samples:
    r"""Realisations of all quantities of a history as vectors ``[R, N]``, in coordinates that suit the critic.

    Each quantity has the spread of its values as unit, and all the same weight in sum, however many places each was
    read at; then they are whitened half-way by the covariance C of the
    history, :math:`s = C^{-1/4} (y - \bar y)`. So the many small directions in which noise and fine structure show
    weigh more. In trials of a function with noise, whitened fully the leading eigenvalues were learned slowly (error of
    the spectrum 0.4 after 3000 steps instead of 0.2), and not whitened the noise scale was not learned at all.
    """

    def __init__(self, history: Mapping[str, History]) -> None:
        self.history = history
        self.x = {name: torch.tensor(item.x, dtype=torch.float32) for name, item in history.items()}
        typical = np.mean([len(item.x) for item in history.values()])
        self.scales = {
            name: (float(item.y.std()) or 1.0) * float(np.sqrt(len(item.x) / typical)) for name, item in history.items()
        }
        y = self.stack({name: item.y for name, item in history.items()})
        values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(y)))
        whitener = (vectors / np.maximum(values, FLOOR) ** 0.25) @ vectors.T
        self.centre, self.whitener = (torch.tensor(part, dtype=torch.float32) for part in (y.mean(1), whitener))

    def stack(self, values: Mapping[str, Array]) -> Array:
        """All quantities in one vector, each in the unit of its spread."""
        return np.concatenate([values[name] / self.scales[name] for name in self.history])

    def real(self) -> Tensor:
        y = self.stack({name: item.y for name, item in self.history.items()})
        return (torch.tensor(y.T, dtype=torch.float32) - self.centre) @ self.whitener

    def values(self, physics: Physics, beta: Tensor, z: Tensor, noise: Tensor) -> dict[str, Tensor]:
        """Generated quantities at the places of the history and with its noise, ``[M, N_q, R]``."""
        sizes = [len(item.x) for item in self.history.values()]
        found = {}
        for (name, item), unit in zip(self.history.items(), noise.transpose(1, 2).split(sizes, dim=1), strict=True):
            x = self.x[name].to(beta)
            found[name] = physics.observe(beta, z, name, x)
            if item.noise is None:
                found[name] = found[name] + physics.noise_scale(beta, name, x) * unit
            elif item.noise:
                found[name] = found[name] + item.noise * unit
        return found

    def made(self, physics: Physics, beta: Tensor, z: Tensor, noise: Tensor) -> Tensor:
        """The same as the critic sees it, ``[M, R, N]``."""
        values = self.values(physics, beta, z, noise)
        stacked = torch.cat([value / self.scales[name] for name, value in values.items()], dim=1)
        return (stacked.transpose(1, 2) - self.centre.to(beta)) @ self.whitener.to(beta)


class PriorTraining(Pretraining):
    """Learn the generators of a functional prior from the history."""

    def __init__(self, model: BoundGenerators) -> None:
        self.model, self.samples = model, Samples(model.past)
        self.game: Game | None = None
        order = stream(model.settings.pretrain_seed, "held out").permutation(self.n_realisations)
        self.n_held = max(2, round(model.settings.held_out * self.n_realisations))
        self.order = torch.tensor(order)

    @property
    def n_realisations(self) -> int:
        return next(iter(self.model.past.values())).y.shape[1]

    def key(self) -> str:
        problem, settings = self.model.problem, asdict(self.model.settings)
        del settings["gan"]["compile"], settings["n_starts"]  # change nothing about the product
        fields = {name: list(spec.coordinates) for name, spec in problem.fields.items()}
        found = hashlib.sha256(
            json.dumps([FORMAT, type(problem).__name__, type(self.model.settings).__name__, settings, fields]).encode()
        )
        for name, item in self.model.past.items():
            found.update(f"{name} {item.x.shape} {item.y.shape} {item.noise}".encode())
            found.update(np.ascontiguousarray(item.x, np.float64).tobytes())
            found.update(np.ascontiguousarray(item.y, np.float64).tobytes())
        found.update(problem.laws.encode())
        return found.hexdigest()

    def simulate(self, beta: Tensor, z: Tensor, noise: Tensor) -> Tensor:
        return self.samples.made(self.model.physics, beta, z, noise)

    def split(self) -> tuple[Tensor, Tensor]:
        """Realisations that train, and those that judge."""
        real = self.samples.real()[self.order]
        return real[self.n_held :], real[: self.n_held]

    def run(self, loop: Loop) -> dict[str, Tensor]:
        settings, random = self.model.settings, torch_stream(self.model.settings.pretrain_seed, "pre-training")
        self.model.physics.take_units(self.model.past)
        beta = self.model.physics.init(1, random).float()
        self.game = Game(settings.gan, self.simulate, settings.latent, *self.split(), beta, random, loop)
        self.model.beta = self.game.run()
        return self.model.state()

    def load(self, product: Mapping[str, Tensor]) -> None:
        self.model.load_state(product)

    def kept(self) -> dict[str, Tensor]:
        good = None if self.game is None else self.game.good
        return {} if good is None else self.model.state_with(good)

    def judge(self) -> tuple[dict[str, float], Mapping[str, Array]]:
        """Mean, covariance spectrum and one-point distributions against realisations that did not train it."""
        _, held = self.split()
        random = torch_stream(self.model.settings.pretrain_seed, "judge")
        beta = self.model.weights.float()
        z, noise = (torch.randn(1, N_JUDGED, n, generator=random) for n in (self.model.settings.latent, held.shape[1]))
        with torch.no_grad():
            values = self.samples.values(self.model.physics, beta, z, noise)
            numbers = {"distance": sliced_distance(self.simulate(beta, z, noise), held).item()}
        arrays: dict[str, Array] = {}
        for name, item in self.model.past.items():
            made, real = values[name][0].double().numpy(), item.y[:, self.order[: self.n_held]]
            numbers |= {f"{name}_{key}": value for key, value in compare(made.T, real.T).items()}
            arrays |= {f"{name}_x": item.x, f"{name}_made": made[:, : self.n_held], f"{name}_real": real}
        return numbers, arrays


def compare(made: Array, real: Array) -> dict[str, float]:
    """How unlike two sets of realisations ``[R, N]`` are: errors of the mean and, on average over places, the
    Wasserstein distance of values, both over the spread of all values; relative error of the leading eigenvalues."""
    from scipy.stats import wasserstein_distance

    spectra = [np.linalg.eigvalsh(np.atleast_2d(np.cov(part.T)))[::-1][:N_EIGENVALUES] for part in (made, real)]
    spread = max(float(real.std()), 1e-12)
    distances = [wasserstein_distance(a, b) for a, b in zip(made.T, real.T, strict=True)]
    found = {
        "mean_error": float(np.sqrt(np.square(made.mean(0) - real.mean(0)).mean()) / spread),
        "value_distance": float(np.mean(distances) / spread),
    }
    if spectra[1].sum() > 1e-9 * spread**2:  # else all realisations are the same
        found["spectrum_error"] = float(np.abs(spectra[0] - spectra[1]).sum() / spectra[1].sum())
    return found
