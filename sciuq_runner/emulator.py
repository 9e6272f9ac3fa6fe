"""A trained model one can use afterwards: posterior samples and the settings that give them meaning.

The folder holds ``config.json``, ``calibration.json``, ``samples.safetensors`` and, for models that have one, the state
beside the samples in ``state.safetensors``: data only. Loading it builds the
model from our own classes; a class from elsewhere is imported only if the environment variable ``SCIUQ_TRUST`` names
its module.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sciuq_runner import files
from sciuq_runner.calibration.base import LEVEL, UNCALIBRATED
from sciuq_runner.errors import ConfigError, nearest
from sciuq_runner.methods.base import Posterior, read_posterior
from sciuq_runner.models.base import BoundModel, Model
from sciuq_runner.predictive import predict
from sciuq_runner.problem import Array, Problem
from sciuq_runner.results import CALIBRATION, read_calibrations
from sciuq_runner.schema import Dtype, build, check
from sciuq_runner.target import Target

SAMPLES, STATE = "samples.safetensors", "state.safetensors"
KEPT = {"problem": dict, "model": dict, "dtype": str}  # the settings that give samples their meaning


def save_emulator(
    folder: Path,
    config: Mapping[str, Any],
    model: BoundModel,
    posterior: Posterior,
    calibrations: Mapping[str, Any],
) -> None:
    """Write everything that predictions at new points need."""
    files.write_json(folder / "config.json", {key: config[key] for key in KEPT})
    files.write_json(folder / CALIBRATION, calibrations)
    files.write_tensors(folder / SAMPLES, *posterior.tensors())
    if state := model.state():
        files.write_tensors(folder / STATE, state)


def trusted() -> list[str]:
    """Modules outside the package that the person allows, beside the command line of ``sciuq-run``."""
    return [module for module in os.environ.get("SCIUQ_TRUST", "").split(",") if module]


class Emulator:
    """Predictions with uncertainty at any points, from a saved model."""

    def __init__(self, folder: Path) -> None:
        config = files.read_json(folder / "config.json")
        files.require(config, KEPT, folder / "config.json")
        dtype, trust = getattr(torch, check(config["dtype"], Dtype, "dtype")), trusted()
        self.problem = build(config["problem"], "problem", Problem, trust)  # type: ignore[type-abstract]
        model = build(config["model"], "model", Model, trust)  # type: ignore[type-abstract]
        self.posterior = read_posterior(*files.read_tensors(folder / SAMPLES))
        noise = self.problem.noise
        bound = model.bind(self.problem, noise)
        if (folder / STATE).is_file():
            bound.load_state(files.read_tensors(folder / STATE)[0])
        self.target = Target(bound, noise, {}, dtype=dtype)
        self.quantities = list(noise)
        self.calibrations = read_calibrations(folder / CALIBRATION)

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
        found = predict(self.target, self.posterior, quantity, x, clean=bool(self.problem.random_inputs))
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
        width = found.mean.shape[1]
        if width == 1:
            return {name: value[:, 0] for name, value in columns.items()}
        return {f"{name}_{i + 1}": value[:, i] for name, value in columns.items() for i in range(width)}
