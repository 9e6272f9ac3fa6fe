"""Scores of functions unlike those of training, against direct computations."""

from __future__ import annotations

import types
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sciuq_runner.problems.darcy import HEAD, LOG_CONDUCTIVITY, Darcy
from sklearn.metrics import roc_auc_score

from sciuq_runner.models.gan_fp import GANFP, BoundGenerators
from sciuq_runner.physics.problem import FieldSpec
from sciuq_runner.physics.standardisation import Standardisation
from sciuq_runner.predict.out_of_distribution import DetectionSettings, Detector, auroc, make_prior, summarise
from sciuq_runner.seeds import stream

PROBLEM = Darcy(n_grid=6, n_terms=20, n_pairs=30, mirror=False, n_test=8, n_calibration=6, n_validation=2)
SPREAD = 0.2


def detector(settings: DetectionSettings | None = None, problem: Darcy = PROBLEM, prior: Any = None) -> Detector:
    units = problem.transforms()
    return Detector(settings or DetectionSettings(), problem, units[LOG_CONDUCTIVITY], units[HEAD], prior)


# How well scores tell two kinds apart


@pytest.mark.parametrize("levels", [1000, 5, 1], ids=["few ties", "many ties", "only ties"])
def test_auroc_is_that_of_scikit_learn(levels):
    rng = np.random.default_rng(0)
    low, high = (rng.integers(levels, size=n) + shift for n, shift in ((40, 0), (25, levels // 4)))
    labels = np.repeat([0, 1], [40, 25])
    assert auroc(low, high) == pytest.approx(roc_auc_score(labels, np.concatenate([low, high])), abs=1e-12)


def test_auroc_of_what_can_and_cannot_be_told_apart():
    assert auroc(np.arange(3), np.arange(3, 7)) == 1
    assert auroc(np.arange(3, 7), np.arange(3)) == 0
    assert auroc(np.arange(5), np.arange(5)) == 0.5


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_threshold_is_the_quantile_of_functions_like_those_of_training(level):
    made, scores = detector(DetectionSettings(level=level)), np.random.default_rng(0).random(101)
    made.learn({"std": scores, "residual": 10 * scores})
    assert made.thresholds == {
        "std": pytest.approx(np.sort(scores)[round(100 * level)]),
        "residual": pytest.approx(10 * np.sort(scores)[round(100 * level)]),
    }
    flags = made.flag({"std": scores, "residual": np.full(101, 99.0)})
    assert flags.dtype == bool
    assert flags.sum() == 100 - round(100 * level)
    assert replace(made, settings=DetectionSettings("residual", level)).flag({"residual": 10 * scores}).sum() == (
        100 - round(100 * level)
    )


def test_the_summary_has_every_score_beside_the_error():
    made = detector()
    made.thresholds = {"std": 2.5}
    columns = {"id": np.array([1, 1, 0, 0, 0]) == 1, "ood": np.array([0, 0, 1, 1, 1]) == 1}
    scores = {"std": np.array([1.0, 3.0, 2.0, 4.0, 6.0]), "residual": np.arange(5.0)}
    found = summarise(made, scores, np.array([0.1, 0.1, 0.3, 0.3, 0.3]), columns)
    assert found["std"] == pytest.approx(
        {
            "mean_id": 2.0,
            "mean_ood": 4.0,
            "rise_ood": 1.0,
            "auroc_ood": 5 / 6,
            "threshold": 2.5,
            "flagged_id": 0.5,
            "flagged_ood": 2 / 3,
        }
    )
    assert set(found["residual"]) == {"mean_id", "mean_ood", "rise_ood", "auroc_ood"}
    assert found["rl2e"]["rise_ood"] == pytest.approx(2.0)
    assert found["rl2e"]["auroc_ood"] == 1


# Scores


def functions(problem: Darcy = PROBLEM) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eight inputs with their places and exact outputs."""
    inputs, u = problem.fields_of(problem.length, 8, "test")
    return inputs.T, problem.grid.points, u


@pytest.mark.parametrize("target", ["u", "log_u"])
def test_the_spread_is_in_standardised_units(target):
    """Of the logarithm where that is standardised: a deviation over the mean, to first order."""
    problem = replace(PROBLEM, target=target)
    made, (inputs, x, u) = detector(problem=problem), functions(problem)
    _, scale = problem.transforms()[HEAD].at(x)
    unit = scale * u if target == "log_u" else scale
    spreads = np.linspace(0.1, 0.8, 8)
    found = made.scores(inputs, x, u, spreads * unit)
    np.testing.assert_allclose(found["std"], spreads, rtol=1e-12)
    assert set(found) == {"std", "residual"}


def test_the_residual_is_that_of_the_equation_and_only_where_it_can_be_taken():
    made, (inputs, x, u) = detector(), functions()
    excess = np.linspace(0, 1, 8)
    found = made.scores(inputs, x, u * (1 + excess), np.ones_like(u))["residual"]
    np.testing.assert_allclose(found, excess * PROBLEM.imbalance(inputs, x, 2 * u), rtol=1e-9, atol=1e-9)
    assert "residual" not in made.scores(inputs, x[:5], u[:5], np.ones((5, 8)))


def linear_prior(n_params: int = 4) -> tuple[Any, np.ndarray]:
    """A generator that is a matrix ``[S, n_params]`` of functions at the sensors, with condition three."""
    n = len(PROBLEM.grid.points)
    left = np.linalg.qr(stream(0, "generator").standard_normal((n, n_params)))[0]
    matrix = left * np.linspace(1, 3, n_params)

    def observe(z: torch.Tensor, name: str, x: torch.Tensor) -> torch.Tensor:
        assert (name, len(x)) == (LOG_CONDUCTIVITY, n)
        return (z @ torch.tensor(matrix.T).to(z))[..., None]

    fields = {LOG_CONDUCTIVITY: FieldSpec(("x", "y"))}
    prior = types.SimpleNamespace(problem=types.SimpleNamespace(fields=fields), n_params=n_params, observe=observe)
    return prior, matrix


def original(standardised: np.ndarray, units: Standardisation) -> np.ndarray:
    """Functions ``[R, S]`` in the units of the person."""
    centre, scale = units.at(units.x)
    return (centre + scale * standardised.T).T


@pytest.mark.parametrize("misfit", [0.1, 1.0])
def test_the_fit_by_a_linear_generator_is_ridge_regression(misfit):
    """z = (G'G + misfit^2)^-1 G' w, in single precision and by gradient steps: a thousandth of its length."""
    prior, matrix = linear_prior()
    made = detector(DetectionSettings(prior=None, n_steps=1000, learning_rate=0.05, misfit=misfit), prior=prior)
    rng = np.random.default_rng(1)
    wanted = np.concatenate([rng.standard_normal((6, 4)) @ matrix.T, rng.standard_normal((6, len(matrix)))])
    mse, nll = made.fit(original(wanted, made.inputs))
    z = np.linalg.solve(matrix.T @ matrix + misfit**2 * np.eye(4), matrix.T @ wanted.T).T
    missed = np.square(z @ matrix.T - wanted).sum(1)
    np.testing.assert_allclose(mse, missed / np.square(wanted).sum(1), rtol=2e-3, atol=1e-5)
    np.testing.assert_allclose(nll, 0.5 * np.square(z).sum(1) + 2 * np.log(2 * np.pi), rtol=2e-3)


def test_functions_of_another_kind_have_higher_scores():
    """Not of the span of the generator: a misfit. Of it but far out: unlikely."""
    prior, matrix = linear_prior()
    made = detector(DetectionSettings(n_steps=400), prior=prior)
    rng = np.random.default_rng(1)
    z = rng.standard_normal((8, 4))
    kinds = {"like": z @ matrix.T, "far": 30 * z @ matrix.T, "rough": rng.standard_normal((8, len(matrix)))}
    found = {kind: made.fit(original(part, made.inputs)) for kind, part in kinds.items()}
    assert auroc(found["like"][0], found["rough"][0]) == 1
    assert auroc(found["like"][1], found["far"][1]) == 1
    again = made.fit(original(kinds["like"], made.inputs))
    for first, second in zip(found["like"], again, strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_function_has_its_score_whatever_it_is_scored_with():
    """All are fitted at once, each on its own."""
    prior, matrix = linear_prior()
    made = detector(DetectionSettings(n_steps=800), prior=prior)
    rng = np.random.default_rng(1)
    wanted = original(rng.standard_normal((5, 4)) @ matrix.T + 0.3 * rng.standard_normal((5, len(matrix))), made.inputs)
    for whole, alone in zip(made.fit(wanted), made.fit(wanted[3:4]), strict=True):
        assert alone[0] == pytest.approx(whole[3], rel=2e-3)


def test_a_prior_is_made_where_one_is_asked_for():
    units = PROBLEM.transforms()[LOG_CONDUCTIVITY]
    assert make_prior(DetectionSettings(), PROBLEM, units) is None
    settings = DetectionSettings(prior=GANFP(latent=3, width=8, n_realisations=20))
    prior = make_prior(settings, PROBLEM, units)
    assert isinstance(prior, BoundGenerators)
    past = prior.past[LOG_CONDUCTIVITY]
    expected = units.apply(PROBLEM.known[0], PROBLEM.grid.points)
    places = [np.flatnonzero((PROBLEM.grid.points == place).all(1))[0] for place in past.x]
    np.testing.assert_allclose(past.y, expected[places, :20])
