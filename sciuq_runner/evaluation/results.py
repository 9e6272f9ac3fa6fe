"""What a run leaves behind about every quantity, in memory and in its folder: enough for metrics and figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sciuq_runner import files, layout
from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.calibration.var import Var
from sciuq_runner.errors import ConfigError, first_line
from sciuq_runner.evaluation import metrics
from sciuq_runner.physics.problem import Array, QuantityData, Readings
from sciuq_runner.physics.standardisation import Standardisation, mean_rl2e
from sciuq_runner.predict.predictive import Predictive
from sciuq_runner.predict.scaled_residual import UNCALIBRATED, Standard, read_calibrations
from sciuq_runner.seeds import stream

DEFAULT_MODEL = "bnn"  # goes without saying in titles and names

INTERRUPTED, CHANGED_TERMS = "interrupted", "changed_terms"
NOT_QUANTITIES = (
    *("noise", "parameters", "diagnostics", "pretraining", "baselines", "detection", "cost", "config"),
    "calibration_size",
    INTERRUPTED,  # whether the run was stopped early: its results are not those of all steps
    CHANGED_TERMS,  # settings of the problem that are others for this method or model
)
"""What ``metrics.json`` holds beside the quantities."""

SIZES, N_DRAWS = (2, 5, 10, 20, 30, 40, 50), 20  # of the figure on the number of calibration readings

ROUNDING = 1e-9  # spread of residuals, over that at other places, which is none

OPTIONAL = ("noise_reference", "inputs", "sensors", "units")
"""Arrays that not every quantity has."""

KINDS = {"copies": 1, "random": 0}
"""What readings are unless a file says otherwise: those of earlier versions do not."""

Panels = Mapping[str, Mapping[str, Array]]
"""Samples of distributions before and after learning, by panel and label of a figure."""


@dataclass(frozen=True)
class Held:
    """Readings ``y[N, D_q]`` at ``x[N, D]`` with the prediction there."""

    x: Array
    y: Array
    mean: Array
    std: Array
    copies: int = 1  # rows of every reading
    random: bool = False  # whether columns are realisations

    @classmethod
    def of(cls, readings: Readings, found: Predictive) -> Held:
        return cls(readings.x, readings.y, found.mean, found.std, readings.copies, readings.random)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def residuals(self) -> Array:
        """Scaled residuals, one row for every reading, the mean over its copies, or for every realisation.

        Where a random field is known, as at a boundary, all realisations have the same: one number over and over, which
        calibrators would take for a part of the distribution. Such places are left out.
        """
        rows = (self.y - self.mean) / self.std
        if self.random:
            return rows[varies(rows)].T
        return rows.reshape(self.copies, -1, rows.shape[1]).mean(0)


def varies(rows: Array) -> Array:
    """Which of the rows ``[N, R]`` differ between columns, beyond rounding; all where there are none to compare."""
    if rows.shape[1] < 2:
        return np.ones(len(rows), dtype=bool)
    spread = np.ptp(rows, axis=1)
    return ~(spread < ROUNDING * spread.max(initial=0.0))  # what is not a number stays, and is complained of


@dataclass(frozen=True)
class Result:
    """One quantity on its test grid, with the readings that trained and those that calibrate it.

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
    train: Held
    calibration: Held
    standards: Mapping[str, Standard]
    statistic_of: str = ""  # the random field that this is a statistic of
    inputs: Array | None = None  # the functions that an operator was applied to, [R, S]
    sensors: Array | None = None  # and where they are given, [S, D]
    units: Array | None = None  # mean and standard deviation of training values at the points, [N, 2], if standardised

    @property
    def std(self) -> Array:
        """Total standard deviation before calibration."""
        return np.hypot(self.aleatoric_std, self.epistemic_std)

    @property
    def calibrated(self) -> dict[str, Standard]:
        """Distributions after calibration by the prefix of what they give: ``cal_``; ``cal_var_`` too if several."""
        if not self.standards:
            return {}
        every = {f"cal_{name}_": standard for name, standard in self.standards.items()}
        return {"cal_": next(iter(every.values())), **(every if len(every) > 1 else {})}

    def calibrate(self, calibrators: Mapping[str, Calibrator], z: Array) -> Result:
        """Fit calibrators to scaled residuals; without any, predictions stay as they are."""
        fitted = {name: calibrator.fit(z) for name, calibrator in calibrators.items()} if len(z) else {}
        return replace(self, standards=fitted)

    def evaluate(self) -> dict[str, dict[str, float]]:
        """Metrics of every split before calibration (``id``) and after (``cal_id``; ``cal_var_id`` if by several)."""
        found = {}
        for prefix, standard in {"": UNCALIBRATED, **self.calibrated}.items():
            for split, mask in self.known_splits.items():
                reference = self.reference[mask] if np.isfinite(self.reference[mask]).all() else None
                parts = self.mean[mask], self.std[mask], self.test_y[mask], reference
                values = metrics.evaluate(*parts, standard, self.clean_rl2e)
                found[f"{prefix}{split}"] = (
                    values | self.relative_errors(mask, standard) | self.likelihood(mask, standard)
                )
        for split, mask in self.known_splits.items():
            mean, std, reference = self.mean[mask], self.epistemic_std[mask], self.reference[mask]
            found[split]["epistemic_std"] = float(np.sqrt(np.mean(np.square(std))))
            if reference.shape == mean.shape and np.isfinite(reference).all():
                found[split]["epistemic_coverage"] = metrics.coverage(mean, std, reference)
        return found

    def relative_errors(self, mask: Array, standard: Standard) -> dict[str, float]:
        """What RL2E is for functions: the mean over them of that of each, and the same of standardised values."""
        truth = self.reference if self.clean_rl2e else self.test_y
        mean, found = self.mean + self.std * standard.mean, {}
        if mask.ndim == 2:
            columns = mask.any(0)
            found["rl2e"] = mean_rl2e(mean[:, columns], truth[:, columns])
        if self.units is not None and np.isfinite(truth).all():
            centre, scale = self.units[:, :1], self.units[:, 1:]
            columns = mask.any(0) if mask.ndim == 2 else np.ones(truth.shape[1], dtype=bool)
            parts = ((part[:, columns] - centre) / scale for part in (mean, truth))
            found["rl2e_standardised"] = mean_rl2e(*parts)
        return found

    def likelihood(self, mask: Array, standard: Standard) -> dict[str, float]:
        """MPL of standardised values: a density depends on the units, unlike relative and calibration errors."""
        if self.units is None:
            return {}
        scale = np.broadcast_to(self.units[:, 1:], self.mean.shape)[mask]
        mean, std, y = (part[mask] / scale for part in (self.mean, self.std, self.test_y))
        return {"mpl_standardised": metrics.mpl(mean, std, y, standard)}

    @property
    def known_splits(self) -> dict[str, Array]:
        """Where predictions can be compared with something: splits without points of which nothing is known."""
        known = np.isfinite(self.test_y).all(1)
        masks = {split: (mask.T & known).T for split, mask in self.splits.items()}
        return {split: mask for split, mask in masks.items() if mask.any()}

    def function(self, column: int) -> Result:
        """One of the functions that an operator was applied to, as a result of its own."""
        kept = slice(column, column + 1)
        names = ("mean", "aleatoric_std", "epistemic_std", "noise_mean", "noise_spread", "reference", "test_y")
        empty = np.empty((0, 1))
        nothing = Held(np.empty((0, self.x.shape[1])), empty, empty, empty)
        return replace(
            self,
            **{name: getattr(self, name)[:, kept] for name in names},
            splits={"id": np.ones(len(self.x), dtype=bool)},
            train=nothing,
            calibration=nothing,
            inputs=None if self.inputs is None else self.inputs[kept],
        )

    def typical(self, split: str) -> int:
        """The function of a split whose relative error is the median."""
        columns = np.flatnonzero(self.splits[split].any(0))
        truth = self.reference[:, columns]
        errors = np.linalg.norm(self.mean[:, columns] - truth, axis=0) / np.linalg.norm(truth, axis=0)
        return int(columns[np.argsort(errors)[len(columns) // 2]])

    def section(self, mask: Array, dimensions: int) -> Result | None:
        """The part of the test grid under a mask as a result over the coordinates that vary there, if so many do: a
        line along one, a plane along two."""
        if mask.ndim == 2 or not mask.any():
            return None
        along = [i for i in range(len(self.coordinates)) if np.ptp(self.x[mask][:, i]) > 0]
        if len(along) != dimensions:
            return None
        fixed = [i for i in range(len(self.coordinates)) if i not in along]
        place = self.x[mask][0, fixed]

        def held(part: Held) -> Held:
            here = (np.abs(part.x[:, fixed] - place) <= 1e-9 * np.ptp(self.x[:, fixed], axis=0)).all(1)
            return Held(part.x[here][:, along], part.y[here], part.mean[here], part.std[here])

        return replace(
            self,
            coordinates=tuple(self.coordinates[i] for i in along),
            x=self.x[mask][:, along],
            mean=self.mean[mask],
            aleatoric_std=self.aleatoric_std[mask],
            epistemic_std=self.epistemic_std[mask],
            noise_mean=self.noise_mean[mask],
            noise_spread=self.noise_spread[mask],
            reference=self.reference[mask],
            test_y=self.test_y[mask],
            noise_reference=None if self.noise_reference is None else self.noise_reference[mask],
            splits={"id": np.ones(int(mask.sum()), dtype=bool)},
            train=held(self.train),
            calibration=held(self.calibration),
        )

    def rmsce_by_size(
        self, calibrators: Mapping[str, Calibrator], rng: np.random.Generator
    ) -> tuple[list[int], dict[str, Array]]:
        """RMSCE on the first split after calibration with few readings: sizes, and ``[size, draw]`` by calibrator.

        Each size is tried with several draws of readings from those that were held out.
        """
        z, mask = self.calibration.residuals, next(iter(self.known_splits.values()))
        sizes = [n for n in SIZES if n <= len(z)]
        chosen = [[rng.permutation(len(z))[:n] for _ in range(N_DRAWS)] for n in sizes]
        test = self.mean[mask], self.std[mask], self.test_y[mask]
        found = {
            name: np.array([[metrics.rmsce(*test, calibrator.fit(z[part])) for part in parts] for parts in chosen])
            for name, calibrator in calibrators.items()
        }
        return sizes, found

    @property
    def can_be_studied(self) -> bool:
        """Whether calibrators can be fitted to fewer of the held-out readings, and judged."""
        z = self.calibration.residuals if len(self.calibration) else np.empty(0)
        return bool(self.known_splits) and len(z) > 1 and bool(np.isfinite(z).all())

    def study_calibration(
        self, calibrators: Mapping[str, Calibrator], rng: np.random.Generator
    ) -> dict[str, dict[str, float]]:
        """RMSCE on the first split by calibrator and number of readings that it was fitted to, mean over draws of them.

        ``none`` is before calibration, ``train`` one factor fitted to the readings of training, as none should be.
        """
        mask = next(iter(self.known_splits.values()))
        test = self.mean[mask], self.std[mask], self.test_y[mask]
        sizes, errors = self.rmsce_by_size(calibrators, rng)
        names = [str(n) for n in sizes]
        found = {"none": {"0": metrics.rmsce(*test)}}
        found |= {kind: dict(zip(names, values.mean(1).tolist(), strict=True)) for kind, values in errors.items()}
        z = self.train.residuals
        fits = len(z) > 1 and np.isfinite(z).all()
        return found | ({"train": {str(len(z)): metrics.rmsce(*test, Var().fit(z))}} if fits else {})

    def arrays(self) -> dict[str, Array]:
        """Everything but the calibrated distributions, by name."""
        found = {
            "coordinates": np.array(self.coordinates),
            "x": self.x,
            "mean": self.mean,
            "aleatoric_std": self.aleatoric_std,
            "epistemic_std": self.epistemic_std,
            "noise_mean": self.noise_mean,
            "noise_spread": self.noise_spread,
            "reference": self.reference,
            "test_y": self.test_y,
            "clean_rl2e": np.array(self.clean_rl2e),
            "statistic_of": np.array(self.statistic_of),
        }
        optional = {name: getattr(self, name) for name in OPTIONAL}
        found |= {name: values for name, values in optional.items() if values is not None}
        for name, held in (("train", self.train), ("calibration", self.calibration)):
            found |= {f"{name}_x": held.x, f"{name}_y": held.y, f"{name}_mean": held.mean, f"{name}_std": held.std}
            found |= {f"{name}_copies": np.array(held.copies), f"{name}_random": np.array(held.random)}
        found |= {f"split_{split}": mask for split, mask in self.splits.items()}
        for prefix, standard in self.calibrated.items():
            found[f"{prefix}mean"] = self.mean + self.std * standard.mean
            found[f"{prefix}std"] = self.std * standard.std
        return found


def collect(
    data: QuantityData,
    test: Predictive,
    train: Predictive,
    calibration: Predictive,
    transform: Standardisation | None = None,
    sensors: Array | None = None,
) -> Result:
    """Join the data of a quantity and the predictions at its points."""
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
        Held.of(data.train, train),
        Held.of(data.calibration, calibration),
        {},
        data.statistic_of,
        data.test.inputs,
        None if data.test.inputs is None else sensors,
        None if transform is None or transform.log else np.hstack(transform.at(data.test.x)),
    )


def write_results(folder: Path, results: Mapping[str, Result]) -> None:
    """Predictions and calibrated distributions of a run."""
    files.write_npz(folder / layout.PREDICTIONS, prediction_arrays(results))
    files.write_json(folder / layout.CALIBRATION, calibrations(results))


def prediction_arrays(results: Mapping[str, Result]) -> dict[str, Array]:
    """What ``predictions.npz`` holds, by name."""
    arrays = {
        f"{name}_{key}": np.asarray(array) for name, item in results.items() for key, array in item.arrays().items()
    }
    return {"quantities": np.array(list(results)), **arrays}


def study_calibrations(
    results: Mapping[str, Result], calibrators: Mapping[str, Calibrator], seed: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Calibration error by quantity, calibrator and number of readings, where there is anything to calibrate with."""
    return {
        name: item.study_calibration(calibrators, stream(seed, "calibration size"))
        for name, item in results.items()
        if calibrators and item.can_be_studied
    }


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


def calibrations(results: Mapping[str, Result]) -> dict[str, dict[str, object]]:
    """Calibrated distributions as plain values: by quantity, then by calibrator."""
    return {
        name: {kind: standard.to_dict() for kind, standard in item.standards.items()} for name, item in results.items()
    }


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
        found = {name: _read(arrays, f"{name}_", standards.get(name, {})) for name in names}
    except KeyError as error:
        raise ConfigError(
            f"{path} lacks the array {error.args[0]}: it is of another version of sciuq_runner."
        ) from error
    except (TypeError, ValueError) as error:  # an array in place of a number, or the other way round
        raise ConfigError(f"{path} holds no predictions ({first_line(error)}): is the file complete?") from error
    for name, item in found.items():
        for part in (name, *item.splits, *item.standards):
            if not re.fullmatch(r"\w[\w.+-]*", part):  # figures are named by them
                raise ConfigError(f"{path} names {part!r}, which is no name: it is damaged.")
    return found


def _read(arrays: Mapping[str, Array], prefix: str, standards: Mapping[str, Standard]) -> Result:
    def held(name: str) -> Held:
        x, y, mean, std = (arrays[f"{prefix}{name}_{part}"] for part in ("x", "y", "mean", "std"))
        copies, random = (arrays.get(f"{prefix}{name}_{part}", default) for part, default in KINDS.items())
        return Held(x, y, mean, std, int(copies), bool(random))

    masks = f"{prefix}split_"
    return Result(
        coordinates=tuple(str(name) for name in arrays[f"{prefix}coordinates"]),
        x=arrays[f"{prefix}x"],
        mean=arrays[f"{prefix}mean"],
        aleatoric_std=arrays[f"{prefix}aleatoric_std"],
        epistemic_std=arrays[f"{prefix}epistemic_std"],
        noise_mean=arrays[f"{prefix}noise_mean"],
        noise_spread=arrays[f"{prefix}noise_spread"],
        reference=arrays[f"{prefix}reference"],
        test_y=arrays[f"{prefix}test_y"],
        clean_rl2e=bool(arrays[f"{prefix}clean_rl2e"]),
        splits={name.removeprefix(masks): mask for name, mask in arrays.items() if name.startswith(masks)},
        train=held("train"),
        calibration=held("calibration"),
        standards=standards,
        statistic_of=str(arrays.get(f"{prefix}statistic_of", "")),
        **{name: arrays.get(f"{prefix}{name}") for name in OPTIONAL},
    )


def write_panels(folder: Path, panels: Panels) -> None:
    """Samples for the figure of learned scales, where any were learned."""
    if panels:
        flat = {f"{panel}/{label}": part for panel, parts in panels.items() for label, part in parts.items()}
        files.write_npz(folder / layout.DISTRIBUTIONS, {name: part.astype(np.float32) for name, part in flat.items()})


def read_panels(folder: Path) -> Panels:
    """What :func:`write_panels` left; empty where nothing was learned."""
    panels: dict[str, dict[str, Array]] = {}
    if (folder / layout.DISTRIBUTIONS).is_file():
        for name, part in files.read_npz(folder / layout.DISTRIBUTIONS).items():
            panel, _, label = name.rpartition("/")
            panels.setdefault(panel, {})[label] = part
    return panels


def read_metrics(folder: Path) -> dict[str, Any]:
    """The metrics of a finished run, with all of its settings that calibration and figures need."""
    path = folder / layout.METRICS
    known = files.read_json(path)
    files.require(known, {"config": dict}, path)
    files.require(known["config"], {"seed": int, **dict.fromkeys(("calibration", "choices", "problem"), dict)}, path)
    files.require(known["config"]["choices"], {"problem": str, "method": str}, path)
    return known


def title_of(metrics: Mapping[str, Any]) -> str:
    """The title of a run's figures, from its ``metrics.json``."""
    config = metrics["config"]
    names = config["choices"]
    case, model = config["problem"].get("case"), names.get("model", DEFAULT_MODEL)
    problem = f"{names['problem']} ({case})" if case else names["problem"]
    return ", ".join([problem, *([] if model == DEFAULT_MODEL else [model]), names["method"]])
