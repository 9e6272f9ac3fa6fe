"""What a run found of one quantity: predictions on its test grid, and its observations with the predictions there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.physics.observations import no_observations
from sciuq_runner.physics.problem import Array, Observations, OperatorPairs, QuantityData
from sciuq_runner.physics.standardisation import Standardisation
from sciuq_runner.predict.predictive import Predictive
from sciuq_runner.predict.scaled_residual import Standard


@dataclass(frozen=True)
class PredictedObservations:
    """Observations with the prediction of them, both ``[N, D_q]``."""

    observations: Observations
    mean: Array
    std: Array

    @classmethod
    def of(cls, observations: Observations, found: Predictive) -> PredictedObservations:
        return cls(observations, found.mean, found.std)

    @classmethod
    def none(cls, dimensions: int) -> PredictedObservations:
        """No observations of a quantity that depends on so many coordinates."""
        return cls(no_observations(dimensions), np.empty((0, 1)), np.empty((0, 1)))

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def x(self) -> Array:
        return self.observations.x

    @property
    def y(self) -> Array:
        return self.observations.y

    @property
    def random(self) -> bool:
        """Whether columns are realisations."""
        return self.observations.columns_are_functions

    @property
    def residuals(self) -> Array:
        """Scaled residuals, one row for every observation or realisation."""
        return self.observations.scaled_residuals(self.mean, self.std)


@dataclass(frozen=True)
class Result:
    """One quantity on its test grid, with the observations that trained and those that calibrate it.

    ``standards`` are the distributions of the scaled residual after calibration, by the name of the calibrator.
    """

    coordinates: tuple[str, ...]
    x: Array
    mean: Array
    aleatoric_std: Array
    epistemic_std: Array
    noise_mean: Array
    noise_spread: Array
    reference: Array
    test_y: Array
    clean_rl2e: bool
    noise_reference: Array | None
    splits: Mapping[str, Array]
    train: PredictedObservations
    calibration: PredictedObservations
    standards: Mapping[str, Standard]
    statistic_of: str = ""  # the random field that this is a statistic of
    inputs: Array | None = None  # the functions that an operator was applied to, [R, S]
    sensors: Array | None = None  # and where they are given, [S, D]
    units: Array | None = None  # mean and standard deviation of training values at the points, [N, 2], if standardised

    @property
    def std(self) -> Array:
        """Total standard deviation before calibration."""
        found: Array = np.hypot(self.aleatoric_std, self.epistemic_std)
        return found

    @property
    def calibrated(self) -> dict[str, Standard]:
        """Distributions after calibration by the prefix of what they give: ``cal_``; ``cal_var_`` too if several."""
        if not self.standards:
            return {}
        every = {f"cal_{name}_": standard for name, standard in self.standards.items()}
        return {"cal_": next(iter(every.values())), **(every if len(every) > 1 else {})}

    @property
    def known_splits(self) -> dict[str, Array]:
        """Where predictions can be compared with something: splits without the points at which nothing is known."""
        known = np.isfinite(self.test_y).all(1)
        masks = {split: (mask.T & known).T for split, mask in self.splits.items()}
        return {split: mask for split, mask in masks.items() if mask.any()}

    def calibrate(self, calibrators: Mapping[str, Calibrator], z: Array) -> Result:
        """Fit calibrators to scaled residuals; without any, predictions stay as they are."""
        fitted = {name: calibrator.fit(z) for name, calibrator in calibrators.items()} if len(z) else {}
        return replace(self, standards=fitted)


def collect(
    data: QuantityData,
    test: Predictive,
    train: Predictive,
    calibration: Predictive,
    transform: Standardisation | None = None,
    sensors: Array | None = None,
) -> Result:
    """Join the data of a quantity and the predictions at its points."""
    inputs = data.test.inputs if isinstance(data.test, OperatorPairs) else None
    return Result(
        data.coordinates,
        data.test.x,
        test.mean,
        test.aleatoric_std,
        test.epistemic_std,
        *test.noise_std,
        data.reference,
        data.test.y,
        data.clean_rl2e,
        data.noise_reference,
        data.splits,
        PredictedObservations.of(data.train, train),
        PredictedObservations.of(data.calibration, calibration),
        {},
        data.statistic_of,
        inputs,
        None if inputs is None else sensors,
        None if transform is None or transform.log else np.hstack(transform.at(data.test.x)),
    )
