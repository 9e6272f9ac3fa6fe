"""The study of how many observations calibration needs."""

from __future__ import annotations

import numpy as np
import pytest

from sciuq_runner.calibration.crude import Crude
from sciuq_runner.calibration.var import Var
from sciuq_runner.evaluation import metrics
from sciuq_runner.evaluation.calibration_size import study_calibration, study_calibrations
from sciuq_runner.evaluation.results import PredictedObservations, Result
from sciuq_runner.physics.observations import PointObservations, Realisations, RepeatedObservations
from sciuq_runner.predict.scaled_residual import UNCALIBRATED, Standard


def test_readings_too_few_or_without_a_finite_residual_are_not_studied():
    x = np.linspace(0, 1, 6)[:, None]
    parts = (np.zeros_like(x), *(np.ones_like(x),) * 4, x, x)
    splits = {"id": np.ones(6, dtype=bool)}

    def studied(calibration: PredictedObservations) -> dict[str, dict[str, dict[str, float]]]:
        result = Result(("x",), x, *parts, False, None, splits, calibration, calibration, {})
        return study_calibrations({"u": result}, {"var": Var()}, 0)

    ones = np.ones_like(x)
    assert list(studied(PredictedObservations(PointObservations(x, x), 0 * x, ones))) == ["u"]
    assert studied(PredictedObservations(Realisations(x, x), 0 * x, ones)) == {}  # one realisation at six places
    once = RepeatedObservations(x[:2], x[:2], copies=2)  # one observation at two points
    assert studied(PredictedObservations(once, x[:2], ones[:2])) == {}
    with np.errstate(divide="ignore", invalid="ignore"):
        assert studied(PredictedObservations(PointObservations(x, x), 0 * x, 0 * ones)) == {}
    assert studied(PredictedObservations(PointObservations(x[:0], x[:0]), x[:0], x[:0])) == {}


def test_the_study_of_sizes_agrees_with_calibration_itself():
    """With all readings there is one draw; before calibration and with the readings of training it is plain RMSCE."""
    rng = np.random.default_rng(0)

    def held(n: int) -> PredictedObservations:
        x = np.linspace(0, 1, n)[:, None]
        seen = PointObservations(x, rng.standard_normal((n, 1)))
        return PredictedObservations(seen, np.zeros((n, 1)), np.full((n, 1), 4.0))

    test, train, calibration = held(500), held(30), held(20)
    empty = np.zeros_like(test.x)
    splits = {"id": np.ones(500, dtype=bool)}
    values = (test.mean, test.std, empty, empty, empty, test.y, test.y)
    result = Result(("x",), test.x, *values, False, None, splits, train, calibration, {})
    found = study_calibration(result, {"var": Var(), "crude": Crude()}, 1)

    def error(standard: Standard = UNCALIBRATED) -> float:
        return metrics.rmsce(test.mean, test.std, test.y, standard)

    assert found["none"] == {"0": error()}
    assert found["train"] == {"30": error(Var().fit(train.residuals))}
    assert list(found["var"]) == list(found["crude"]) == ["2", "5", "10", "20"]
    for name, calibrator in (("var", Var()), ("crude", Crude())):
        assert found[name]["20"] == pytest.approx(error(calibrator.fit(calibration.residuals)), rel=1e-9)
        assert found[name]["20"] < found["none"]["0"]  # 0.19; that of an empirical distribution is 0.09 on average
