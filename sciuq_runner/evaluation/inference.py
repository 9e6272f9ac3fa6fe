"""What inference leaves: samples of theta, and the problem, data and target that give them meaning."""

from __future__ import annotations

from dataclasses import dataclass, field

from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.physics.problem import Dataset, Problem
from sciuq_runner.predict.out_of_distribution import Detector
from sciuq_runner.target.density import Target


@dataclass(frozen=True)
class Inference:
    """All that predictions, metrics and figures of a run follow from."""

    problem: Problem
    dataset: Dataset
    target: Target
    posterior: Posterior
    seed: int
    detector: Detector | None = None  # of an operator
    pretrained: dict[str, float] = field(default_factory=dict)  # how good what was trained before inference is
    seconds: float = 0.0  # of pre-training and inference
