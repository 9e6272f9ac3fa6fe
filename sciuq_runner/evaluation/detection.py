"""Whether the test functions of an operator are like those of training, and whether scores tell."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.physics.problem import Array, Dataset, OperatorPairs
from sciuq_runner.predict.out_of_distribution import Detector, summarise
from sciuq_runner.predict.predictive import Predictive, predict_observed
from sciuq_runner.target.density import Target

log = logging.getLogger(__name__)


def detect(
    detector: Detector,
    target: Target,
    posterior: Posterior,
    dataset: Dataset,
    predictives: Mapping[str, Predictive],
) -> tuple[dict[str, dict[str, float]], dict[str, Array]]:
    """Score the test functions, with thresholds from those held out for calibration: a summary by score, and the
    arrays of the file of scores."""
    assert target.operator is not None
    name = target.operator.output
    data, test = dataset[name], predictives[name]
    assert isinstance(data.test, OperatorPairs)
    learn_thresholds(detector, target, posterior, dataset)
    scores = detector.scores(data.test.inputs, data.test.x, test.mean, test.epistemic_std)
    errors = np.linalg.norm(test.mean - data.reference, axis=0) / np.linalg.norm(data.reference, axis=0)
    columns = {split: np.asarray(mask.any(0)) for split, mask in data.splits.items()}
    arrays = {f"score_{key}": item for key, item in {**scores, "rl2e": errors}.items()}
    arrays |= {f"split_{split}": mask for split, mask in columns.items()}
    arrays |= {f"value_{split}": np.array(value) for split, value in detector.problem.split_values.items()}
    arrays |= {f"threshold_{key}": np.array(value) for key, value in detector.thresholds.items()}
    arrays["label"] = np.array(detector.problem.split_label)
    return summarise(detector, scores, errors, columns), arrays


def learn_thresholds(detector: Detector, target: Target, posterior: Posterior, dataset: Dataset) -> None:
    """Thresholds from the functions that were held out for calibration, where there are any."""
    assert target.operator is not None
    name = target.operator.output
    held = dataset[name].calibration
    if not isinstance(held, OperatorPairs) or not len(held):
        log.warning("Without functions held out for calibration, none can be flagged as unlike those of training.")
        return
    seen = predict_observed(target, posterior, name, held)
    detector.learn(detector.scores(held.inputs, held.x, seen.mean, seen.epistemic_std))
