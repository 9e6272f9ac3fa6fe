"""What a simple method would have given, beside what was learned: linear regression between functions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sciuq_runner.physics.problem import Array, Dataset, OperatorPairs, QuantityData
from sciuq_runner.physics.standardisation import Standardisation, mean_rl2e
from sciuq_runner.predict.predictive import Predictive
from sciuq_runner.target.density import Target

STRENGTHS = np.logspace(-4, 4, 17)
"""Of the ridge, relative to the mean square of the inputs; the best on validation functions is taken."""


def compare_operator(
    target: Target, dataset: Dataset, predictives: Mapping[str, Predictive]
) -> dict[str, dict[str, float]]:
    """What simple methods and single members would have given in place of an operator."""
    assert target.operator is not None
    name = target.operator.output
    transforms = target.transforms
    return baselines(dataset[name], transforms[target.operator.input], predictives[name], transforms.get(name))


def baselines(
    data: QuantityData,
    inputs: Standardisation,
    found: Predictive | None = None,
    outputs: Standardisation | None = None,
) -> dict[str, dict[str, float]]:
    """RL2E in original units of ridge regression (``linear``), of the same for the logarithm (``linear_log``) and of
    the average single member, by split; the mean over the functions of each. That of a member also in the units of
    ``outputs``."""
    test, predictions = data.test, {}
    predictions["linear"] = ridge(data, inputs, log=False)
    if min(part.y.min() for part in (data.train, data.validation) if part.y.size) > 0:
        predictions["linear_log"] = ridge(data, inputs, log=True)
    result: dict[str, dict[str, float]] = {}
    for split, mask in data.splits.items():
        columns = np.asarray(mask.any(0))
        truth = data.reference[:, columns]
        result[split] = {name: mean_rl2e(made[:, columns], truth) for name, made in predictions.items()}
        if found is not None and found.members.shape[2] == len(columns):
            members = found.members[:, :, columns]
            result[split]["member"] = mean_over_members(members, truth)
            if outputs is not None:
                standard = np.stack([outputs.apply(member, test.x) for member in members])
                result[split]["member_standardised"] = mean_over_members(standard, outputs.apply(truth, test.x))
    return result


def mean_over_members(members: Array, truth: Array) -> float:
    return float(np.mean([mean_rl2e(member, truth) for member in members]))


def ridge(data: QuantityData, inputs: Standardisation, log: bool) -> Array:
    """Linear regression of all values at the training points on all values of the inputs, ``[N, R]`` at the test
    points: standardised, by singular values of the inputs, the strength of the ridge chosen on validation functions."""
    train, validation, test = data.train, data.validation, data.test
    assert isinstance(train, OperatorPairs)
    assert isinstance(validation, OperatorPairs)
    assert isinstance(test, OperatorPairs)
    outputs = Standardisation.fit(train.x, train.y, log)

    def standard(part: Array) -> Array:
        return inputs.apply(part.T, inputs.x).T

    left, values, right = np.linalg.svd(standard(train.inputs), full_matrices=False)
    projected = left.T @ outputs.apply(train.y, train.x).T
    unit = float(np.mean(values**2))

    def predict(functions: Array, strength: float, x: Array) -> Array:
        weights = values / (values**2 + strength * unit)
        made = (functions @ right.T) @ (weights[:, None] * projected)
        raw = outputs.scale[:, None] * made.T + outputs.centre[:, None]
        if x.shape != train.x.shape:
            raw = outputs.interpolated(raw, x)
        found: Array = np.exp(raw) if log else raw
        return found

    chosen = 1.0
    if len(validation):
        errors = {
            strength: mean_rl2e(predict(standard(validation.inputs), strength, validation.x), validation.y)
            for strength in STRENGTHS
        }
        chosen = min(errors, key=errors.__getitem__)
    return predict(standard(test.inputs), chosen, test.x)
