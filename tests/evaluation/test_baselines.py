"""Linear regression between functions, beside that of scikit-learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sciuq_runner.problems.darcy import HEAD, LOG_CONDUCTIVITY, Darcy
from sklearn.linear_model import Ridge

from sciuq_runner.evaluation import baselines
from sciuq_runner.physics.problem import OperatorPairs, QuantityData
from sciuq_runner.physics.standardisation import Standardisation, mean_rl2e
from sciuq_runner.predict.predictive import Predictive
from sciuq_runner.seeds import stream

PROBLEM = Darcy(n_grid=6, n_terms=20, n_pairs=60, mirror=False, n_test=9, n_validation=8)


def parts(problem: Darcy = PROBLEM) -> tuple[QuantityData, Standardisation]:
    return problem.dataset(stream(0, "data"))[HEAD], problem.transforms()[LOG_CONDUCTIVITY]


def independent(
    data: QuantityData, inputs: Standardisation, strength: float, log: bool, asked: OperatorPairs
) -> np.ndarray:
    """Ridge regression of standardised values with the same penalty: relative to the mean square singular value."""

    def standard(part: OperatorPairs) -> np.ndarray:
        return (part.inputs - inputs.centre) / inputs.scale

    x, y = standard(data.train), np.log(data.train.y.T) if log else data.train.y.T
    penalty = strength * np.square(x).sum() / min(x.shape)
    model = Ridge(alpha=penalty, fit_intercept=False, solver="cholesky").fit(x, (y - y.mean(0)) / y.std(0))
    found = y.mean(0) + y.std(0) * model.predict(standard(asked))
    return (np.exp(found) if log else found).T


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("strength", [1e-4, 1.0, 100.0])
def test_ridge_regression_is_that_of_scikit_learn(monkeypatch, strength, log):
    monkeypatch.setattr(baselines, "STRENGTHS", np.array([strength]))
    data, inputs = parts()
    expected = independent(data, inputs, strength, log, data.test)
    np.testing.assert_allclose(baselines.ridge(data, inputs, log), expected, rtol=1e-6)


@pytest.mark.parametrize("log", [False, True])
def test_the_strength_is_chosen_on_validation_functions(log):
    data, inputs = parts()
    errors = {
        strength: mean_rl2e(independent(data, inputs, strength, log, data.validation), data.validation.y)
        for strength in baselines.STRENGTHS
    }
    best = min(errors, key=errors.__getitem__)
    assert baselines.STRENGTHS[0] < best < baselines.STRENGTHS[-1]
    expected = independent(data, inputs, best, log, data.test)
    np.testing.assert_allclose(baselines.ridge(data, inputs, log), expected, rtol=1e-6)


def test_test_functions_do_not_choose():
    data, inputs = parts()
    spoiled = replace(data, test=replace(data.test, y=np.full_like(data.test.y, 7.0)), reference=data.reference + 1)
    np.testing.assert_array_equal(baselines.ridge(spoiled, inputs, False), baselines.ridge(data, inputs, False))


def test_without_validation_functions_a_middle_strength_is_taken():
    data, inputs = parts(replace(PROBLEM, n_validation=0))
    expected = independent(data, inputs, 1.0, False, data.test)
    np.testing.assert_allclose(baselines.ridge(data, inputs, False), expected, rtol=1e-6)


def test_heads_read_at_some_cells_are_predicted_at_all():
    """Linear between those read; where both are known, the same as without the others."""
    data, inputs = parts(replace(PROBLEM, stride=3))
    found = baselines.ridge(data, inputs, False)
    assert found.shape == data.reference.shape == (36, 18)
    read = [np.flatnonzero((data.test.x == place).all(1))[0] for place in data.train.x]
    at_read = replace(data.test, x=data.train.x, y=data.test.y[read])
    expected = baselines.ridge(replace(data, test=at_read, validation=OperatorPairs.none(2)), inputs, False)
    without = baselines.ridge(replace(data, validation=OperatorPairs.none(2)), inputs, False)
    np.testing.assert_allclose(without[read], expected, rtol=1e-9)


def test_errors_are_those_of_every_split_and_of_the_average_member():
    data, inputs = parts()
    members = data.reference * np.array([1.1, 0.7])[:, None, None]
    found = baselines.baselines(data, inputs, Predictive.of_members(members, np.array(0.0)))
    assert set(found) == {"id", "ood"}
    for split, errors in found.items():
        columns = data.splits[split].any(0)
        assert set(errors) == {"linear", "linear_log", "member"}
        assert errors["member"] == pytest.approx((0.1 + 0.3) / 2)
        for name, log in (("linear", False), ("linear_log", True)):
            made = baselines.ridge(data, inputs, log)
            assert errors[name] == pytest.approx(mean_rl2e(made[:, columns], data.reference[:, columns]))
    assert found["id"]["linear_log"] < found["id"]["linear"]  # heads are positive and far from Gaussian
    shifted = Standardisation(data.test.x, np.ones(len(data.test.x)), np.ones(len(data.test.x)))
    both = baselines.baselines(data, inputs, Predictive.of_members(members, np.array(0.0)), shifted)["id"]
    truth = data.reference[:, data.splits["id"].any(0)]
    sizes = np.linalg.norm(truth, axis=0) / np.linalg.norm(truth - 1, axis=0)  # the same errors, of other values
    assert both["member_standardised"] == pytest.approx(np.mean(sizes) * (0.1 + 0.3) / 2)
    kept = Predictive.of_members(members[:, :, :1], np.array(0.0))  # of many members some functions only are kept
    assert "member" not in baselines.baselines(data, inputs, kept)["id"]


def test_there_is_no_logarithm_of_values_that_are_not_positive():
    data, inputs = parts()
    shifted = replace(
        data,
        train=replace(data.train, y=data.train.y - 1),
        validation=replace(data.validation, y=data.validation.y - 1),
    )
    assert set(baselines.baselines(shifted, inputs)["id"]) == {"linear"}
