"""What one does with a finished run: calibrate it anew, draw its figures again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sciuq_runner import files, layout
from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.config.build import CalibrationSettings, build_calibrators
from sciuq_runner.config.compose import compose, plain
from sciuq_runner.config.environment import trusted
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation import plots
from sciuq_runner.evaluation.calibration_size import study_calibrations
from sciuq_runner.evaluation.metrics_file import read_metrics
from sciuq_runner.evaluation.plots.registry import Draw
from sciuq_runner.evaluation.recalibration import calibrate_result
from sciuq_runner.evaluation.result_files import calibrations, read_results, recalibrating, write_results
from sciuq_runner.evaluation.results import Result
from sciuq_runner.evaluation.split_metrics import evaluate_splits
from sciuq_runner.runs.resume import read_origin
from sciuq_runner.schema import construct
from sciuq_runner.tracking.existing_store import log_recalibration


def recalibrate(folder: Path, overrides: Sequence[str], trust: Sequence[str] = ()) -> dict[str, Any]:
    """Calibrate a run from its saved predictions; returns its metrics, which are written with all that changed."""
    wrong = [item for item in overrides if not item.startswith(("calibration=", "calibration."))]
    if wrong:
        raise ConfigError(
            f"{wrong[0]} is not a setting of the calibration: give calibration=NAME or calibration.KEY=VALUE."
        )
    known = read_metrics(folder)
    if not any(item.startswith("calibration=") for item in overrides):
        raise ConfigError(f"{overrides[0]} needs a calibrator too: give calibration=var, cdf, crude or conformal.")
    chosen = plain(compose([*overrides], None))["calibration"]
    settings, saved = construct(CalibrationSettings, chosen, "calibration"), read_results(folder)
    files.require(known, dict.fromkeys(saved, dict), folder / layout.METRICS)
    calibrators = build_calibrators(settings.by, [*trusted(), *trust])
    refuse_nothing_held_out(settings, calibrators, saved)
    seed = known["config"]["seed"]
    try:
        by = calibrators, seed, settings.data, settings.n
        results = {name: calibrate_result(name, item, *by) for name, item in saved.items()}
    except ValueError as error:
        raise ConfigError(f"{folder}: {error}") from error
    for name, item in results.items():
        kept = {split: values for split, values in known[name].items() if not split.startswith("cal_")}
        fresh = evaluate_splits(item)  # of a run of an earlier version, also metrics that it did not know
        known[name] = fresh | {split: fresh.get(split, {}) | values for split, values in kept.items()}
    known["calibration_size"] = study_calibrations(results, calibrators, seed)
    known["config"]["calibration"] = chosen
    known["config"]["choices"]["calibration"] = ",".join(calibrators) or "none"
    with recalibrating(folder):
        write_results(folder, results)
        files.write_json(folder / layout.MODEL / layout.CALIBRATION, calibrations(results))
        files.write_json(folder / layout.METRICS, known)
        redraw(folder, trust)
    origin = read_origin(folder)
    if origin is not None and origin.mlflow_run is not None:
        log_recalibration(origin.mlflow_run, known, folder)
    return known


def refuse_nothing_held_out(
    settings: CalibrationSettings, calibrators: Mapping[str, Calibrator], results: Mapping[str, Result]
) -> None:
    """Refuse calibrators that no observation would be left for."""
    if calibrators and settings.data == "calibration" and not any(len(item.calibration) for item in results.values()):
        raise ConfigError(
            f"calibration={','.join(calibrators)} needs observations that were held out, and this run has none: run it "
            "again with problem.hold_out.calibration (problem.n_calibration of built-in problems)."
        )


def redraw(folder: Path, trust: Sequence[str] = ()) -> list[Path]:
    """All figures of a run, from what is in its folder."""
    return plots.draw_all(folder / layout.FIGURES, drawing_of(folder, trust))


def figures_of(folder: Path, trust: Sequence[str] = ()) -> dict[str, Draw]:
    """The figures of a run by name; each is drawn when it is called."""
    return plots.figures(drawing_of(folder, trust))


def drawing_of(folder: Path, trust: Sequence[str] = ()) -> plots.Drawing:
    """What the figures of a run are drawn from."""
    results, known = read_results(folder), read_metrics(folder)
    calibrators = build_calibrators(known["config"]["calibration"].get("by", {}), [*trusted(), *trust])
    return plots.Drawing.of(folder, results, known, calibrators)
