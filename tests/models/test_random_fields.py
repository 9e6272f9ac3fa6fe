"""From samples to predictions of random fields: pooled realisations, statistics, calibration by realisations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sciuq_runner.problems.spde import SPDE

from sciuq_runner.calibration.cdf import CDF
from sciuq_runner.calibration.var import Var
from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.quantity_results import result_of, statistic_results
from sciuq_runner.evaluation.recalibration import calibrate_result
from sciuq_runner.evaluation.result_files import read_results, write_results
from sciuq_runner.evaluation.results import PredictedObservations, collect
from sciuq_runner.evaluation.split_metrics import evaluate_splits
from sciuq_runner.methods.posterior import LinearisedPosterior, Posterior
from sciuq_runner.models.nnpc import NNPC
from sciuq_runner.physics.observations import Realisations
from sciuq_runner.predict.predictive import N_STATISTIC_EIGENVALUES, Predictive, predict, predict_statistics, statistics
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.target.density import Target

PROBLEM = SPDE(case="noisy", n_realisations=60, n_test_realisations=15, n_test=21)


@pytest.fixture(scope="module")
def dataset():
    return PROBLEM.dataset(stream(0, "data"))


@pytest.fixture(scope="module")
def target(dataset):
    readings = {name: data.train for name, data in dataset.items()}
    model = NNPC(width=8, share=0.9, warm_start=20).bind(PROBLEM, PROBLEM.noise, readings)
    return Target(model, PROBLEM.noise, readings, dtype=torch.float64)


@pytest.fixture(scope="module")
def posterior(target):
    return Posterior(target.init(5, torch_stream(0, "test")))


def sensed(dataset):
    return {name: data.sensed.y for name, data in dataset.items() if data.sensed is not None}


def test_statistics_are_those_of_numpy():
    values = np.random.default_rng(0).standard_normal((3, 30, 12)).cumsum(1)
    found = statistics(torch.tensor(values))
    np.testing.assert_allclose(found["mean"][..., 0], values.mean(-1), atol=1e-12)
    np.testing.assert_allclose(found["std"][..., 0], values.std(-1), rtol=1e-12)
    for member, eigenvalues in zip(values, found["eigenvalues"][..., 0], strict=True):
        singular = np.linalg.svd(member - member.mean(1, keepdims=True), compute_uv=False)
        np.testing.assert_allclose(eigenvalues, singular[:N_STATISTIC_EIGENVALUES] ** 2 / 12, rtol=1e-8)


def test_the_total_variance_is_that_of_all_realisations_of_all_members(target, posterior, monkeypatch):
    x = np.linspace(-1, 1, 6)[:, None]
    with torch.no_grad():
        every = target.model.observe(posterior.theta, "u", target.tensor(x)).numpy()
    pooled = every.transpose(1, 0, 2).reshape(6, -1)
    monkeypatch.setattr("sciuq_runner.predict.predictive.REALISED", 2 * 6 * 60)  # two members at a time
    clean = predict(target, posterior, "u", x, clean=True)
    np.testing.assert_allclose(clean.mean[:, 0], pooled.mean(1), atol=1e-12)
    np.testing.assert_allclose(clean.std[:, 0], pooled.std(1), rtol=1e-10)
    np.testing.assert_allclose(clean.epistemic_std[:, 0], every.mean(2).std(0), rtol=1e-10)
    noisy = predict(target, posterior, "u", x)
    np.testing.assert_allclose(noisy.std**2, clean.std**2 + 0.01**2)


def test_statistics_of_every_member_are_predicted(target, posterior, dataset, monkeypatch):
    x = dataset["u"].test.x
    with torch.no_grad():
        every = target.model.realise(posterior.theta, "u", target.tensor(x), sensed(dataset)).numpy()
    monkeypatch.setattr("sciuq_runner.predict.predictive.REALISED", 1)
    found = predict_statistics(target, posterior, "u", x, sensed(dataset))
    np.testing.assert_allclose(found["std"].members[..., 0], every.std(2), rtol=1e-8)
    np.testing.assert_allclose(found["mean"].mean[:, 0], every.mean((0, 2)), atol=1e-10)
    assert not found["mean"].aleatoric_var.any()
    assert found["eigenvalues"].mean.shape == (N_STATISTIC_EIGENVALUES, 1)


def test_statistics_are_taken_after_linearising(target, posterior, dataset):
    centre = posterior.theta[0]
    linear = LinearisedPosterior(centre + 0.1 * (posterior.theta - centre), centre=centre)
    x = target.tensor(dataset["u"].test.x)

    def value(theta):
        return target.model.realise(theta, "u", x, sensed(dataset))

    expected = linear.evaluate(value).numpy().std(2)
    found = predict_statistics(target, linear, "u", dataset["u"].test.x, sensed(dataset))["std"].members[..., 0]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_a_realisation_is_what_calibration_counts(target, posterior, dataset):
    test = predict(target, posterior, "u", dataset["u"].test.x, clean=True)
    result = result_of(target, posterior, "u", dataset["u"], test)
    held = result.calibration
    assert held.residuals.shape == (50, 9)
    order = stream(7, "calibration").permutation(50)[:2]
    rows = ((held.y - held.mean) / held.std)[:, order]
    found = calibrate_result("u", result, {"var": Var()}, 7, n=2)
    assert found.standards["var"] == Var().fit(rows)
    with pytest.raises(ValueError, match="51 is more than the 50"):
        calibrate_result("u", result, {"var": Var()}, 7, n=51)
    assert evaluate_splits(result)["id"]["rmsce"] < 0.6


def test_places_where_a_random_field_is_known_spoil_no_calibration():
    """All realisations are zero at both ends: of nine sensors, two would give one and the same residual 50 times."""
    data = SPDE().dataset(stream(0, "data"))["u"]

    def prediction(x):
        """The true moments, but for a mean and a spread at the ends that are small, as networks give them."""
        y = np.stack([np.interp(x[:, 0], data.test.x[:, 0], column) for column in data.reference.T])
        y = y * (1 + 1e-3) + 2e-3
        return Predictive.of_members(y.mean(0)[None, :, None], y.var(0)[:, None] + 1e-6)

    result = collect(data, *(prediction(part.x) for part in (data.test, data.train, data.calibration)))
    assert result.calibration.residuals.shape == (50, 7)
    found = evaluate_splits(calibrate_result("u", result, {"cdf": CDF()}, 0))
    assert found["id"]["rmsce"] < 0.05
    assert found["cal_id"]["rmsce"] < 0.5 / 50**0.5  # of the median of 50; with both ends it is 0.1


def test_residuals_of_few_or_damaged_realisations_are_left_as_they_are():
    x, ones = np.zeros((3, 1)), np.ones((3, 1))
    for y in (np.ones((3, 0)), np.arange(3.0)[:, None], np.full((3, 2), np.nan), np.zeros((3, 2))):
        assert PredictedObservations(Realisations(x, y), 0 * ones, ones).residuals.shape == y.T.shape
    nothing = Realisations(x[:0], np.empty((0, 1)))
    assert PredictedObservations(nothing, ones[:0], ones[:0]).residuals.shape == (1, 0)


def test_statistics_come_back_from_files(target, posterior, dataset, tmp_path):
    found = statistic_results(target, posterior, dataset, ["u"])
    assert list(found) == ["u_mean", "u_std", "u_eigenvalues"]
    assert found["u_eigenvalues"].x[:, 0].tolist() == list(range(1, N_STATISTIC_EIGENVALUES + 1))
    reference = dataset["u"].reference
    np.testing.assert_allclose(found["u_std"].reference[:, 0], reference.std(1))
    expected = np.linalg.norm(found["u_mean"].mean[:, 0] - reference.mean(1)) / np.linalg.norm(reference.mean(1))
    assert evaluate_splits(found["u_mean"])["id"]["rl2e"] == pytest.approx(expected)
    write_results(tmp_path, found)
    again = read_results(tmp_path)
    assert {name: item.statistic_of for name, item in again.items()} == dict.fromkeys(found, "u")
    np.testing.assert_array_equal(again["u_std"].epistemic_std, found["u_std"].epistemic_std)


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [(["problem=spde", "model=bnn"], "use model=nnpc"), (["problem=function", "model=nnpc"], "use model=bnn")],
)
def test_models_of_the_wrong_kind_of_field_are_refused(choices, sentence):
    register_resolvers()
    with pytest.raises(ConfigError, match=sentence):
        prepare(assemble(plain(compose(choices, None))))
