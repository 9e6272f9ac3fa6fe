"""Results in a run folder: predictions as arrays, calibrated distributions as plain values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sciuq_runner import files, layout
from sciuq_runner.errors import ConfigError, first_line
from sciuq_runner.evaluation.results import PredictedObservations, Result
from sciuq_runner.physics.observations import Array, read_stored
from sciuq_runner.predict.calibrated_distributions import read_calibrations
from sciuq_runner.predict.scaled_residual import Standard

QUANTITY_ARRAYS = ("x", "mean", "aleatoric_std", "epistemic_std", "noise_mean", "noise_spread", "reference", "test_y")
"""Arrays that every quantity has."""

OPTIONAL_ARRAYS = ("noise_reference", "inputs", "sensors", "units")
"""Arrays that not every quantity has."""


def write_results(folder: Path, results: Mapping[str, Result]) -> None:
    """Predictions and calibrated distributions of a run."""
    files.write_npz(folder / layout.PREDICTIONS, prediction_arrays(results))
    files.write_json(folder / layout.CALIBRATION, calibrations(results))


def prediction_arrays(results: Mapping[str, Result]) -> dict[str, Array]:
    """What ``predictions.npz`` holds, by name."""
    arrays = {
        f"{name}_{key}": np.asarray(part) for name, item in results.items() for key, part in to_arrays(item).items()
    }
    return {"quantities": np.array(list(results)), **arrays}


def calibrations(results: Mapping[str, Result]) -> dict[str, dict[str, object]]:
    """Calibrated distributions as plain values: by quantity, then by calibrator."""
    return {
        name: {kind: standard.to_dict() for kind, standard in item.standards.items()} for name, item in results.items()
    }


def to_arrays(result: Result) -> dict[str, Array]:
    """Everything of a result but its calibrated distributions, by name."""
    found = {
        "coordinates": np.array(result.coordinates),
        **{name: getattr(result, name) for name in QUANTITY_ARRAYS},
        "clean_rl2e": np.array(result.clean_rl2e),
        "statistic_of": np.array(result.statistic_of),
    }
    optional = {name: getattr(result, name) for name in OPTIONAL_ARRAYS}
    found |= {name: values for name, values in optional.items() if values is not None}
    for name, part in (("train", result.train), ("calibration", result.calibration)):
        parts = {**part.observations.stored(), "mean": part.mean, "std": part.std}
        found |= {f"{name}_{key}": values for key, values in parts.items()}
    found |= {f"split_{split}": mask for split, mask in result.splits.items()}
    for prefix, standard in result.calibrated.items():
        found[f"{prefix}mean"] = result.mean + result.std * standard.mean
        found[f"{prefix}std"] = result.std * standard.std
    return found


def from_arrays(arrays: Mapping[str, Array], prefix: str, standards: Mapping[str, Standard]) -> Result:
    """The result of the quantity whose arrays begin with ``prefix``."""

    def observations(name: str) -> PredictedObservations:
        own = f"{prefix}{name}_"
        return PredictedObservations(read_stored(arrays, own), arrays[f"{own}mean"], arrays[f"{own}std"])

    masks = f"{prefix}split_"
    required: dict[str, Any] = {name: arrays[f"{prefix}{name}"] for name in QUANTITY_ARRAYS}
    optional: dict[str, Any] = {name: arrays.get(f"{prefix}{name}") for name in OPTIONAL_ARRAYS}
    return Result(
        coordinates=tuple(str(name) for name in arrays[f"{prefix}coordinates"]),
        **required,
        clean_rl2e=bool(arrays[f"{prefix}clean_rl2e"]),
        splits={name.removeprefix(masks): mask for name, mask in arrays.items() if name.startswith(masks)},
        train=observations("train"),
        calibration=observations("calibration"),
        standards=standards,
        statistic_of=str(arrays.get(f"{prefix}statistic_of", "")),
        **optional,
    )


def read_results(folder: Path) -> dict[str, Result]:
    """What :func:`write_results` left in the folder of a finished run."""
    path = folder / layout.PREDICTIONS
    if not path.is_file():
        raise ConfigError(
            f"{folder} has no {layout.PREDICTIONS}: name the folder of a finished run, or its id in MLflow."
        )
    arrays = files.read_npz(path)
    standards = read_calibrations(folder / layout.CALIBRATION)
    try:
        names = [str(name) for name in arrays["quantities"]]
        found = {name: from_arrays(arrays, f"{name}_", standards.get(name, {})) for name in names}
    except KeyError as error:
        raise ConfigError(
            f"{path} lacks the array {error.args[0]}: it is of another version of sciuq_runner."
        ) from error
    except (TypeError, ValueError) as error:  # an array in place of a number, or the other way round
        raise ConfigError(f"{path} holds no predictions ({first_line(error)}): is the file complete?") from error
    refuse_odd_names(found, path)
    return found


def refuse_odd_names(results: Mapping[str, Result], path: Path) -> None:
    """Figures are named by quantities, splits and calibrators: none of these may lead elsewhere."""
    for name, item in results.items():
        for part in (name, *item.splits, *item.standards):
            if not re.fullmatch(r"\w[\w.+-]*", part):
                raise ConfigError(f"{path} names {part!r}, which is no name: it is damaged.")


@contextmanager
def recalibrating(folder: Path) -> Iterator[None]:
    """Mark a finished run while several of its files change; the mark stays if that does not come to its end."""
    (folder / layout.RECALIBRATING).touch()
    yield
    (folder / layout.RECALIBRATING).unlink(missing_ok=True)


def refuse_half_calibrated(folder: Path) -> None:
    """Files of two calibrations side by side are no result."""
    if (folder / layout.RECALIBRATING).exists():
        raise ConfigError(f"{folder} was left in the middle of a new calibration: run sciuq-calibrate on it again.")
