"""GP + PI-GAN: a Gaussian process through the observations of one quantity, then a GAN for fields that make those."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from sciuq_runner.errors import ConfigError
from sciuq_runner.models.base import BoundModel, InferenceKind
from sciuq_runner.models.gan_fp import GANFP, BoundGenerators
from sciuq_runner.physics.problem import Array, History, Noise, Observations, Problem
from sciuq_runner.schema import Count
from sciuq_runner.seeds import stream

if TYPE_CHECKING:
    from sklearn.gaussian_process import GaussianProcessRegressor


@dataclass(frozen=True)
class GPPIGAN(GANFP):
    r"""First the observations of the quantity ``process`` are fitted by a Gaussian process with squared exponential
    kernel, its scale and length found by marginal likelihood. ``n_realisations`` draws of its posterior at ``n_places``
    equidistant places, and of all other observations with their noise taken off, then train a generator through the
    physics, as if the problem was stochastic (Section 4.4 of the paper).

    All that is known from the observations is then in the generator: its input z stays standard normal, and samplers
    draw from that. The spread of the fields is epistemic. What was assumed before is the process without observations.
    """

    inference: ClassVar[InferenceKind] = "prior"

    latent: Count = 40
    process: str = "f"
    n_places: Annotated[int, Ge(3)] = 101
    n_starts: Count = 1

    def bind(
        self, problem: Problem, noise: Mapping[str, Noise], observations: Mapping[str, Observations] | None = None
    ) -> BoundModel:
        sentence = self.objection(problem, noise)
        if sentence:
            raise ConfigError(sentence)
        return BoundProcess(self, problem, noise, observations)

    def objection(self, problem: Problem, noise: Mapping[str, Noise]) -> str | None:
        if self.process not in problem.noise or len(problem.coordinates_of(self.process)) != 1:
            return f"model.process={self.process} should be a quantity of one coordinate that is read."
        if any(not item.is_given or item.family != "gaussian" for item in noise.values()):
            return "model: a Gaussian process needs Gaussian noise of known scale: use model=bnn."
        return None

    def history(self, problem: Problem, observations: Mapping[str, Observations]) -> Mapping[str, History]:
        return self.realise(problem, observations)[0]

    def realise(
        self, problem: Problem, observations: Mapping[str, Observations]
    ) -> tuple[Mapping[str, History], float]:
        """What the generator learns from, and the variance that the process has where nothing is read."""
        rng, noise = stream(self.pretrain_seed, "realisations"), problem.noise
        (coordinate,) = problem.coordinates_of(self.process)
        seen = [
            part.x[:, problem.coordinates_of(name).index(coordinate)]
            for name, part in observations.items()
            if coordinate in problem.coordinates_of(name)
        ]
        ends = np.concatenate(seen)
        places = np.linspace(ends.min(), ends.max(), self.n_places)[:, None]
        made, variance = {}, np.nan
        for name, part in observations.items():
            if name == self.process:
                process = self.fit(part, noise[name], float(np.ptp(places)), rng)
                variance = process.kernel_.k1.constant_value
                made[name] = History(places, self.posterior_draws(process, places, rng))
            elif len(part):
                shape = (len(part), self.n_realisations)
                scale = np.broadcast_to(np.asarray(noise[name].scale), (len(part), 1))
                made[name] = History(part.x, part.y[:, :1] + scale * rng.standard_normal(shape))
        return made, float(variance)

    def fit(
        self, part: Observations, noise: Noise, extent: float, rng: np.random.Generator
    ) -> GaussianProcessRegressor:
        """The process given its observations."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel

        spacing = float(np.median(np.diff(np.sort(part.x[:, 0]))))
        kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(extent / 5, (spacing / 2, extent * 10))  # no finer than is read
        process = GaussianProcessRegressor(
            kernel, alpha=np.square(noise.scale), n_restarts_optimizer=10, random_state=int(rng.integers(2**31))
        )
        with warnings.catch_warnings():  # of a parameter at the end of its range
            warnings.simplefilter("ignore", ConvergenceWarning)
            return process.fit(part.x, part.y[:, 0])

    def posterior_draws(self, process: GaussianProcessRegressor, places: Array, rng: np.random.Generator) -> Array:
        """Realisations ``[n_places, n_realisations]`` of a process that has been fitted."""
        mean, covariance = process.predict(places, return_cov=True)
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0))
        draws: Array = mean[:, None] + root @ rng.standard_normal((len(places), self.n_realisations))
        return draws


class BoundProcess(BoundGenerators):
    """Generators that hold all that the observations tell."""

    settings: GPPIGAN
    inference: InferenceKind = GPPIGAN.inference

    @cached_property
    def realised(self) -> tuple[Mapping[str, History], float]:
        return self.settings.realise(self.problem, self.observations)

    @cached_property
    def past(self) -> Mapping[str, History]:
        return self.realised[0]

    def assumed(self, quantity: str, n: int, rng: np.random.Generator) -> Array | None:
        """The process without observations, whose mean is zero; what the physics makes of it elsewhere is not known."""
        if quantity != self.settings.process:
            return None
        return math.sqrt(self.realised[1]) * rng.standard_normal(n)
