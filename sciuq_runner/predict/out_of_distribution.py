"""Whether an operator has seen functions like this one: scores of inputs that are out of distribution (Section 6.5.3
of the paper)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sciuq_runner import files, layout
from sciuq_runner.models.gan_fp import GANFP, BoundGenerators
from sciuq_runner.models.operator_fields import InputFunction
from sciuq_runner.physics.problem import Array, Dataset, OperatorPairs, Problem
from sciuq_runner.physics.standardisation import Standardisation
from sciuq_runner.schema import Count, Fraction, Positive
from sciuq_runner.seeds import torch_stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.optimisers import AdamState, adam, cosine_cycles

ScoreName = Literal["std", "residual", "gan_mse", "gan_nll"]
SCORE_LABELS = {
    "std": "ensemble std",
    "residual": "PDE residual",
    "gan_mse": "GAN MSE",
    "gan_nll": "GAN NLL",
    "rl2e": "RL2E",
}


@dataclass(frozen=True)
class DetectionSettings:
    """``detection.*``: how inputs that are unlike those of training are recognised.

    ``score`` decides, by a threshold that the share ``level`` of held-out functions of the training's kind stays below.
    ``prior`` is a generator that learns the inputs of training, where its scores are wanted; a function is fitted in
    ``n_steps`` by the generator's input, misfits of ``misfit`` (in standardised units) counting as much as one standard
    deviation of that.
    """

    score: ScoreName = "std"
    level: Fraction = 0.95
    prior: GANFP | None = None
    n_steps: Count = 400
    learning_rate: Positive = 0.05
    misfit: Positive = 0.1


@dataclass
class Detector:
    """Scores of functions, and from which value on they are flagged."""

    settings: DetectionSettings
    problem: Problem
    inputs: Standardisation
    outputs: Standardisation | None
    prior: BoundGenerators | None = None
    thresholds: dict[str, float] = field(default_factory=dict)

    def scores(self, functions: Array, x: Array, mean: Array, epistemic_std: Array) -> dict[str, Array]:
        """All scores ``[R]`` of functions ``[R, S]`` from what the operator makes of them at ``x[N, D]``.

        - ``std``: mean over the points of the epistemic standard deviation, standardised;
        - ``residual``: how far the mean is from fulfilling the equation, where the problem knows it;
        - ``gan_mse``: relative squared misfit of the best fit by the generator;
        - ``gan_nll``: negative log-density of the generator's input in that fit.
        """
        scale = 1.0 if self.outputs is None else self.outputs.at(x)[1]
        if self.outputs is not None and self.outputs.log:
            scale = scale * mean
        found = {"std": (epistemic_std / scale).mean(0)}
        imbalance = self.problem.imbalance(functions, x, mean)
        if imbalance is not None:
            found["residual"] = imbalance
        if self.prior is not None:
            found["gan_mse"], found["gan_nll"] = self.fit(functions)
        return found

    def fit(self, functions: Array) -> tuple[Array, Array]:
        """Fit functions by the generator, all at once: their misfits, and how unlikely the inputs are."""
        assert self.prior is not None
        settings, name = self.settings, next(iter(self.prior.problem.fields))
        wanted = torch.tensor(self.inputs.apply(functions.T, self.inputs.x).T).float()
        x = torch.tensor(self.inputs.x).float()
        prior = self.prior

        def misfit(z: Tensor) -> Tensor:
            return (prior.observe(z, name, x)[..., 0] - wanted).square()

        def loss(z: Tensor) -> Tensor:
            return 0.5 * misfit(z).sum(1) / settings.misfit**2 + 0.5 * z.square().sum(1)

        start = 0.1 * torch.randn(len(wanted), prior.n_params, generator=torch_stream(0, "detection"))
        zeros = torch.zeros_like(start)
        rate = cosine_cycles(settings.n_steps, 1, settings.learning_rate, 0.01 * settings.learning_rate)
        rates = start.new_tensor([rate(step) for step in range(settings.n_steps)])
        z = adam(loss, AdamState(start, zeros, zeros, start.new_zeros(())), rates)[0].theta
        with torch.no_grad():
            mse = misfit(z).sum(1) / wanted.square().sum(1)
        nll = 0.5 * z.square().sum(1) + 0.5 * z.shape[1] * np.log(2 * np.pi)
        return mse.double().numpy(), nll.double().numpy()

    def learn(self, scores: Mapping[str, Array]) -> None:
        """Set thresholds by the scores of functions like those of training."""
        self.thresholds = {name: float(np.quantile(item, self.settings.level)) for name, item in scores.items()}

    def flag(self, scores: Mapping[str, Array]) -> Array:
        """Which functions are unlike those of training."""
        found: Array = scores[self.settings.score] > self.thresholds[self.settings.score]
        return found


def make_prior(settings: DetectionSettings, problem: Problem, inputs: Standardisation) -> BoundGenerators | None:
    """The generator that scores inputs, to be trained or loaded."""
    if settings.prior is None or problem.operator is None:
        return None
    return BoundGenerators(settings.prior, InputFunction(problem, problem.operator, inputs), {}, None)


def make_detector(settings: DetectionSettings, problem: Problem, target: Target, dataset: Dataset) -> Detector | None:
    """What scores inputs, where an operator is applied to them."""
    operator = target.operator
    if operator is None or operator.output not in dataset:
        return None
    if not isinstance(dataset[operator.output].test, OperatorPairs):
        return None
    inputs, outputs = target.transforms[operator.input], target.transforms.get(operator.output)
    return Detector(settings, problem, inputs, outputs, make_prior(settings, problem, inputs))


def auroc(low: Array, high: Array) -> float:
    """The probability that a score of the second kind is above one of the first; ties count half."""
    pairs = (high[:, None] > low).mean() + 0.5 * (high[:, None] == low).mean()
    return float(pairs)


def summarise(
    detector: Detector, scores: Mapping[str, Array], errors: Array, columns: Mapping[str, Array]
) -> dict[str, dict[str, float]]:
    """By score: the mean of every split, its rise over the first and AUROC against it, the threshold and how many are
    flagged; beside these the mean error of every split."""
    first = next(iter(columns))
    found: dict[str, dict[str, float]] = {}
    for name, values in {**scores, "rl2e": errors}.items():
        parts = {split: values[mask] for split, mask in columns.items()}
        found[name] = {f"mean_{split}": float(part.mean()) for split, part in parts.items()}
        for split, part in parts.items():
            if split != first:
                found[name][f"rise_{split}"] = float(part.mean() / parts[first].mean() - 1)
                found[name][f"auroc_{split}"] = auroc(parts[first], part)
        if name in detector.thresholds:
            threshold = detector.thresholds[name]
            found[name]["threshold"] = threshold
            found[name] |= {f"flagged_{split}": float((part > threshold).mean()) for split, part in parts.items()}
    return found


def read_detection(folder: Path) -> dict[str, Array]:
    """Scores of the test functions of a run; empty where there are none."""
    path = folder / layout.DETECTION
    return files.read_npz(path) if path.is_file() else {}
