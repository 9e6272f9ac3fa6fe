"""A functional prior is learned from earlier realisations, before inference."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sciuq_runner.models.base import Pretraining
from sciuq_runner.models.gan_training import Game, sliced_distance
from sciuq_runner.models.generated_fields import GeneratedFields
from sciuq_runner.physics.problem import Array, History
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.training.loop import Loop

if TYPE_CHECKING:
    from sciuq_runner.models.gan_fp import BoundGenerators

PRIOR_FORMAT = 2
"""Counts changes of the code after which an earlier prior is of no use."""

VARIANCE_FLOOR = 0.01
"""Variance below which directions of a history, in units of its spread, are not magnified further."""

N_JUDGED = 2000  # realisations that the learned prior is judged by
N_COMPARED = 10  # leading eigenvalues of the covariance, for the same


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
        whitener = (vectors / np.maximum(values, VARIANCE_FLOOR) ** 0.25) @ vectors.T
        self.centre, self.whitener = (torch.tensor(part, dtype=torch.float32) for part in (y.mean(1), whitener))

    def stack(self, values: Mapping[str, Array]) -> Array:
        """All quantities in one vector, each in the unit of its spread."""
        return np.concatenate([values[name] / self.scales[name] for name in self.history])

    def real(self) -> Tensor:
        y = self.stack({name: item.y for name, item in self.history.items()})
        return (torch.tensor(y.T, dtype=torch.float32) - self.centre) @ self.whitener

    def values(self, fields: GeneratedFields, beta: Tensor, z: Tensor, noise: Tensor) -> dict[str, Tensor]:
        """Generated quantities at the places of the history and with its noise, ``[M, N_q, R]``."""
        sizes = [len(item.x) for item in self.history.values()]
        found = {}
        for (name, item), unit in zip(self.history.items(), noise.transpose(1, 2).split(sizes, dim=1), strict=True):
            x = self.x[name].to(beta)
            found[name] = fields.observe(beta, z, name, x)
            if item.noise is None:
                found[name] = found[name] + fields.noise_scale(beta, name, x) * unit
            elif item.noise:
                found[name] = found[name] + item.noise * unit
        return found

    def made(self, fields: GeneratedFields, beta: Tensor, z: Tensor, noise: Tensor) -> Tensor:
        """The same as the critic sees it, ``[M, R, N]``."""
        values = self.values(fields, beta, z, noise)
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
        return int(next(iter(self.model.past.values())).y.shape[1])

    def key(self) -> str:
        problem, settings = self.model.problem, asdict(self.model.settings)
        del settings["gan"]["compile"], settings["n_starts"]  # change nothing about the product
        fields = {name: list(spec.coordinates) for name, spec in problem.fields.items()}
        found = hashlib.sha256(
            json.dumps(
                [PRIOR_FORMAT, type(problem).__name__, type(self.model.settings).__name__, settings, fields]
            ).encode()
        )
        for name, item in self.model.past.items():
            found.update(f"{name} {item.x.shape} {item.y.shape} {item.noise}".encode())
            found.update(np.ascontiguousarray(item.x, np.float64).tobytes())
            found.update(np.ascontiguousarray(item.y, np.float64).tobytes())
        found.update(problem.laws.encode())
        return found.hexdigest()

    def simulate(self, beta: Tensor, z: Tensor, noise: Tensor) -> Tensor:
        return self.samples.made(self.model.generated, beta, z, noise)

    def split(self) -> tuple[Tensor, Tensor]:
        """Realisations that train, and those that judge."""
        real = self.samples.real()[self.order]
        return real[self.n_held :], real[: self.n_held]

    def run(self, loop: Loop) -> dict[str, Tensor]:
        settings, random = self.model.settings, torch_stream(self.model.settings.pretrain_seed, "pre-training")
        self.model.generated.take_units(self.model.past)
        beta = self.model.generated.init(1, random).float()
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
            values = self.samples.values(self.model.generated, beta, z, noise)
            numbers = {"distance": sliced_distance(self.simulate(beta, z, noise), held).item()}
        arrays: dict[str, Array] = {}
        for name, item in self.model.past.items():
            made, real = values[name][0].double().numpy(), item.y[:, self.order[: self.n_held]]
            numbers |= {f"{name}_{key}": value for key, value in unlikeness(made.T, real.T).items()}
            arrays |= {f"{name}_x": item.x, f"{name}_made": made[:, : self.n_held], f"{name}_real": real}
        return numbers, arrays


def unlikeness(made: Array, real: Array) -> dict[str, float]:
    """How unlike two sets of realisations ``[R, N]`` are: errors of the mean and, on average over places, the
    Wasserstein distance of values, both over the spread of all values; relative error of the leading eigenvalues."""
    from scipy.stats import wasserstein_distance

    spectra = [np.linalg.eigvalsh(np.atleast_2d(np.cov(part.T)))[::-1][:N_COMPARED] for part in (made, real)]
    spread = max(float(real.std()), 1e-12)
    distances = [wasserstein_distance(a, b) for a, b in zip(made.T, real.T, strict=True)]
    found = {
        "mean_error": float(np.sqrt(np.square(made.mean(0) - real.mean(0)).mean()) / spread),
        "value_distance": float(np.mean(distances) / spread),
    }
    if spectra[1].sum() > 1e-9 * spread**2:  # else all realisations are the same
        found["spectrum_error"] = float(np.abs(spectra[0] - spectra[1]).sum() / spectra[1].sum())
    return found
