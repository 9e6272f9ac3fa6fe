"""A trained model one can use afterwards: posterior samples and the settings that give them meaning.

The folder holds ``config.json``, ``calibration.json``, ``samples.safetensors`` and, for models that have one, the state
beside the samples in ``state.safetensors``; for operators also ``thresholds.json`` and perhaps a generator of their
inputs, ``inputs.safetensors``: data only. Loading it builds the model from our own classes; a class from elsewhere is
imported only if the environment variable ``SCIUQ_TRUST`` names its module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.interpolate import RBFInterpolator

from sciuq_runner import files, layout
from sciuq_runner.errors import ConfigError, nearest
from sciuq_runner.methods.posterior import read_posterior
from sciuq_runner.models.base import Model
from sciuq_runner.models.operators import BoundOperatorModel
from sciuq_runner.physics.problem import Array, Problem
from sciuq_runner.physics.standardisation import Transforms, pack, unpack
from sciuq_runner.predict.calibrated_distributions import read_calibrations
from sciuq_runner.predict.out_of_distribution import DetectionSettings, Detector, make_prior
from sciuq_runner.predict.predictive import Predictive, predict
from sciuq_runner.predict.scaled_residual import LEVEL, UNCALIBRATED
from sciuq_runner.schema import Dtype, build, check, construct
from sciuq_runner.target.density import Target

MODEL_SETTINGS = {"problem": dict, "model": dict, "dtype": str}  # the settings that give samples their meaning


def save_emulator(
    folder: Path,
    config: Mapping[str, Any],
    target: Target,
    samples: Path,
    calibrations: Mapping[str, Any],
    detector: Detector | None = None,
) -> None:
    """Write everything that predictions at new points, and of new functions, need; ``samples`` is the file of the
    posterior."""
    files.write_json(
        folder / layout.MODEL_CONFIG, {key: config[key] for key in (*MODEL_SETTINGS, "detection") if key in config}
    )
    files.write_json(folder / layout.CALIBRATION, calibrations)
    files.link_or_copy(samples, folder / layout.SAMPLES)
    if state := {**target.model.state(), **pack(target.transforms)}:
        files.write_tensors(folder / layout.STATE, state)
    if detector is not None and detector.thresholds:
        files.write_json(folder / layout.THRESHOLDS, detector.thresholds)
        if detector.prior is not None:
            files.write_tensors(folder / layout.INPUT_PRIOR, detector.prior.state())


class Emulator:
    """Predictions with uncertainty at any points, from a saved model."""

    def __init__(self, folder: Path, trust: Sequence[str] = ()) -> None:
        config = files.read_json(folder / layout.MODEL_CONFIG)
        files.require(config, MODEL_SETTINGS, folder / layout.MODEL_CONFIG)
        dtype = getattr(torch, check(config["dtype"], Dtype, "dtype"))
        self.problem = build(config["problem"], "problem", Problem, trust)  # type: ignore[type-abstract]
        model = build(config["model"], "model", Model, trust)  # type: ignore[type-abstract]
        self.posterior = read_posterior(*files.read_tensors(folder / layout.SAMPLES))
        noise = self.problem.noise
        bound = model.bind(self.problem, noise)
        transforms: Transforms = {}
        if (folder / layout.STATE).is_file():
            transforms, state = unpack(files.read_tensors(folder / layout.STATE)[0])
            bound.load_state(state)
        operator = self.problem.operator
        self.target = Target(bound, noise, {}, dtype=dtype, transforms=transforms, operator=operator)
        self.takes_functions = isinstance(bound, BoundOperatorModel)
        self.detector = self.read_detector(folder, config.get("detection", {}), trust)
        self.quantities = list(noise)
        self.calibrations = read_calibrations(folder / layout.CALIBRATION)

    def read_detector(self, folder: Path, settings: Mapping[str, Any], trust: Sequence[str]) -> Detector | None:
        """What scores new functions, where that was learned."""
        if not self.takes_functions or not (folder / layout.THRESHOLDS).is_file():
            return None
        chosen, transforms = construct(DetectionSettings, settings, "detection", trust), self.target.transforms
        assert self.target.operator is not None
        names = self.target.operator
        prior = make_prior(chosen, self.problem, transforms[names.input])
        if prior is not None:
            prior.load_state(files.read_tensors(folder / layout.INPUT_PRIOR)[0])
        thresholds = {name: float(value) for name, value in files.read_json(folder / layout.THRESHOLDS).items()}
        found = Detector(chosen, self.problem, transforms[names.input], transforms.get(names.output), prior)
        found.thresholds = thresholds
        return found

    @property
    def sensors(self) -> Array:
        """Where the functions that an operator takes are given, ``[S, D]``."""
        assert self.target.operator is not None
        return self.target.transforms[self.target.operator.input].x

    def functions(self, values: Array, places: Array | None = None) -> Array:
        """Functions ``[R, S]`` at the sensors, interpolated from their values ``[R, S']`` at other ``places``; by
        their logarithms where these were learned, so that they stay positive."""
        values = np.atleast_2d(values)
        if places is None:
            places = self.sensors
        assert self.target.operator is not None
        name = self.target.operator.input
        if values.ndim != 2 or values.shape[1] != len(places) or not np.isfinite(values).all():
            raise ConfigError(
                f"The functions should be a table of finite numbers, one function in each row and its values ({name}) "
                f"at the {len(places)} sensors in the columns; it has the shape {'x'.join(map(str, values.shape))}."
            )
        log = self.target.transforms[name].log
        if log and values.min() <= 0:
            raise ConfigError(
                f"The functions should be positive, since their logarithm was learned: one has {values.min():.4g}."
            )
        if places.shape == self.sensors.shape and np.allclose(places, self.sensors):
            return values
        width = self.sensors.shape[1]
        if places.ndim != 2 or places.shape[1] != width or len(places) < 4:
            raise ConfigError(f"sensors should be a table of at least four places with {width} coordinates each.")
        spread = np.linalg.svd(places - places.mean(0), compute_uv=False)
        if spread[-1] < 1e-6 * spread[0] or len(np.unique(places, axis=0)) < len(places):
            raise ConfigError("The sensors lie on a line or twice in one place: no field can be made of that.")
        known = np.log(values) if log else values
        found: Array = RBFInterpolator(places, known.T, kernel="thin_plate_spline")(self.sensors).T
        return np.exp(found) if log else found

    def operate(self, functions: Array, x: Array | None = None) -> dict[str, Array]:
        """What the operator makes of functions ``[R, S]`` at ``x[N, D]``, by default the points of training: a table of
        R N rows, with scores that tell whether a function is unlike those of training."""
        assert self.target.operator is not None
        name, clean = self.target.operator.output, not self.target.operator.noisy
        x = self.target.transforms[name].x if x is None else x
        found = predict(self.target, self.posterior, name, x, clean, functions)
        table = {"function": np.repeat(np.arange(len(functions)), len(x))}
        table |= {
            key: np.tile(column, len(functions)) for key, column in zip(self.coordinates_of(name), x.T, strict=True)
        }
        table |= {key: value.T.ravel() for key, value in self.columns(name, found).items()}
        if self.detector is not None:
            usual = self.target.transforms[name].x  # a score is of the whole function, wherever it is asked for
            if x is not usual:
                found = predict(self.target, self.posterior, name, usual, clean, functions)
            scores = self.detector.scores(functions, usual, found.mean, found.epistemic_std)
            chosen = self.detector.settings.score
            if chosen in scores:
                table["ood_score"] = np.repeat(scores[chosen], len(x))
                table["ood_flag"] = np.repeat(self.detector.flag(scores), len(x))
        return table

    def quantity(self, name: str | None) -> str:
        """The quantity of this name; the problem's first unless one is named."""
        if name is not None and name not in self.quantities:
            raise ConfigError(f"quantity={name} is not predicted: {nearest(name, self.quantities)}")
        return name or self.quantities[0]

    def coordinates_of(self, quantity: str | None = None) -> tuple[str, ...]:
        """The columns that points need."""
        return self.problem.coordinates_of(self.quantity(quantity))

    def predict(self, x: Array, quantity: str | None = None) -> dict[str, Array]:
        """Mean, standard deviations and 95 % bounds at ``x[N, D]``, and those after the first calibration if any."""
        quantity = self.quantity(quantity)
        names = self.coordinates_of(quantity)
        if x.ndim != 2 or x.shape[1] != len(names) or not np.isfinite(x).all():
            listed = ", ".join(names)
            raise ConfigError(
                f"The points should be a table of finite numbers with one row per point and columns {listed}."
            )
        if self.takes_functions:
            raise ConfigError("This model predicts what becomes of functions: give them instead of points.")
        found = predict(self.target, self.posterior, quantity, x, clean=bool(self.problem.random_inputs))
        columns = self.columns(quantity, found)
        width = found.mean.shape[1]
        if width == 1:
            return {name: value[:, 0] for name, value in columns.items()}
        return {f"{name}_{i + 1}": value[:, i] for name, value in columns.items() for i in range(width)}

    def columns(self, quantity: str, found: Predictive) -> dict[str, Array]:
        """Mean, standard deviations and bounds, ``[N, D_q]`` each."""
        lower, upper = UNCALIBRATED.interval(LEVEL)
        columns = {
            "mean": found.mean,
            "std": found.std,
            "aleatoric_std": found.aleatoric_std,
            "epistemic_std": found.epistemic_std,
            "lower": found.mean + lower * found.std,
            "upper": found.mean + upper * found.std,
        }
        for standard in list(self.calibrations.get(quantity, {}).values())[:1]:
            lower, upper = standard.interval(LEVEL)
            columns |= {
                "cal_mean": found.mean + standard.mean * found.std,
                "cal_std": standard.std * found.std,
                "cal_lower": found.mean + lower * found.std,
                "cal_upper": found.mean + upper * found.std,
            }
        return columns
