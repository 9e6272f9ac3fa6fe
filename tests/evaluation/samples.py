"""Small results of quantities of every kind, made without a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sciuq_runner.evaluation.results import PredictedObservations, Result
from sciuq_runner.physics.observations import read_stored

SPREAD = 0.3


def observed(x: np.ndarray, seed: int, n_columns: int = 1, **kind: Any) -> PredictedObservations:
    """Observations of zero, with noise, and a prediction that is right."""
    y = SPREAD * np.random.default_rng(seed).standard_normal((len(x), n_columns))
    observations = read_stored({"x": x, "y": y, **kind})
    return PredictedObservations(observations, np.zeros((len(x), 1)), np.full((len(x), 1), SPREAD))


def result(x: np.ndarray, coordinates: tuple[str, ...], **others: Any) -> Result:
    """A prediction with known deviations of a function that is known too; splits by the first coordinate."""
    reference = np.sin(x.sum(1, keepdims=True))
    rng = np.random.default_rng(0)
    ones = np.ones_like(reference)
    found = Result(
        coordinates=coordinates,
        x=x,
        mean=reference + 0.1,
        aleatoric_std=SPREAD * ones,
        epistemic_std=0.2 * ones,
        noise_mean=SPREAD * ones,
        noise_spread=0 * ones,
        reference=reference,
        test_y=reference + SPREAD * rng.standard_normal(reference.shape),
        clean_rl2e=True,
        noise_reference=None,
        splits={"id": x[:, 0] < 0.5, "ood": x[:, 0] >= 0.5},
        train=observed(x[::5], 1),
        calibration=observed(x[1::2], 2),
        standards={},
    )
    return replace(found, **others)


def line(n: int = 60, **others: Any) -> Result:
    """A function of x."""
    return result(np.linspace(0, 1, n)[:, None], ("x",), **others)


def plane(n: int = 8, **others: Any) -> Result:
    """A function of t and x on a grid."""
    grid = np.stack(np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 2, n), indexing="ij"), -1).reshape(-1, 2)
    return result(grid, ("t", "x"), **others)


def operator(found: Result, n_functions: int = 5) -> Result:
    """What an operator makes of functions whose errors grow with their number; the last two are of another kind."""
    errors = 0.1 * np.arange(1, n_functions + 1)
    names = ("aleatoric_std", "epistemic_std", "noise_mean", "noise_spread", "reference", "test_y")
    wide = {name: np.repeat(getattr(found, name), n_functions, 1) for name in names}
    columns = np.arange(n_functions) < n_functions - 2
    every = np.ones((len(found.x), n_functions), dtype=bool)
    return replace(
        found,
        **wide,
        mean=found.reference * (1 + errors),
        splits={"id": every & columns, "ood": every & ~columns},
        inputs=np.random.default_rng(0).standard_normal((n_functions, len(found.x))),
        sensors=found.x,
    )
