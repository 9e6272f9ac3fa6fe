"""From samples to results: the predictions of every quantity at all points where something is known of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch

from sciuq_runner.evaluation import metrics
from sciuq_runner.evaluation.results import Result, collect
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.physics.observations import no_observations
from sciuq_runner.physics.problem import Array, Dataset, PointObservations, QuantityData
from sciuq_runner.predict.predictive import NOWHERE, Predictive, predict_observed, predict_statistics, statistics
from sciuq_runner.target.density import Target

N_KEPT_FUNCTIONS = 20  # training functions whose predictions are kept: a thousand more tell no more


def predict_tests(target: Target, posterior: Posterior, dataset: Dataset) -> dict[str, Predictive]:
    """The predictions of all quantities on their test grids."""
    return {name: predict_observed(target, posterior, name, data.test) for name, data in dataset.items()}


def result_of(target: Target, posterior: Posterior, name: str, data: QuantityData, test: Predictive) -> Result:
    """The predictions of one quantity at all points where something is known of it."""
    data = replace(data, train=data.train.reduced(N_KEPT_FUNCTIONS))
    train, held_out = (predict_observed(target, posterior, name, part) for part in (data.train, data.calibration))
    sensors = None if target.operator is None else target.transforms[target.operator.input].x
    return collect(data, test, train, held_out, target.transforms.get(name), sensors)


def statistic_results(
    target: Target, posterior: Posterior, dataset: Dataset, fields: Iterable[str]
) -> dict[str, Result]:
    """Statistics of random fields over the unseen realisations, each a quantity of its own."""
    sensed = {name: data.sensed.y for name, data in dataset.items() if data.sensed is not None}
    found = {}
    for name in fields if sensed else ():
        data = dataset[name]
        reference = statistics(torch.tensor(data.reference)[None])
        for kind, predictive in predict_statistics(target, posterior, name, data.test.x, sensed).items():
            own = statistic_data(name, data, reference[kind][0].numpy())
            found[f"{name}_{kind}"] = collect(own, predictive, NOWHERE, NOWHERE)
    return found


def statistic_data(name: str, data: QuantityData, reference: Array) -> QuantityData:
    """A statistic as a quantity: a function of the same points as its field, or numbers in a row."""
    is_function = len(reference) == len(data.test.x)
    x = data.test.x if is_function else np.arange(1.0, len(reference) + 1)[:, None]
    nothing = no_observations(x.shape[1])
    return QuantityData(
        train=nothing,
        test=PointObservations(x, reference),
        reference=reference,
        splits=data.splits if is_function else {"id": np.ones(len(x), dtype=bool)},
        calibration=nothing,
        validation=nothing,
        coordinates=data.coordinates if is_function else ("number",),
        clean_rl2e=True,
        statistic_of=name,
    )


def validation_nll(target: Target, posterior: Posterior, dataset: Dataset) -> float | None:
    """Mean negative log-likelihood of the validation observations, over quantities; None without any."""
    held = {name: data.validation for name, data in dataset.items() if len(data.validation)}
    found = {name: predict_observed(target, posterior, name, part) for name, part in held.items()}
    scores = [metrics.nll(item.mean, item.std, held[name].y) for name, item in found.items()]
    return float(np.mean(scores)) if scores else None
