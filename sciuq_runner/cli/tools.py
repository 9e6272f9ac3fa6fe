"""What one does with a finished run: calibrate it anew, draw its figures again, predict at points of one's own."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciuq_runner import layout
from sciuq_runner.cli.common import Parser, conclude, find_run
from sciuq_runner.errors import ConfigError, first_line

if TYPE_CHECKING:
    from sciuq_runner.predict.emulator import Emulator


def calibrate(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-calibrate``."""
    conclude("sciuq-calibrate", lambda: _calibrate(sys.argv[1:] if argv is None else argv))


def plot(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-plot``."""
    conclude("sciuq-plot", lambda: _plot(sys.argv[1:] if argv is None else argv))


def predict(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-predict``."""
    conclude("sciuq-predict", lambda: _predict(sys.argv[1:] if argv is None else argv))


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = Parser(prog=name, description=description, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help="folder of a finished run, or its id in MLflow")
    return parser


def _calibrate(arguments: Sequence[str]) -> None:
    parser = _parser(
        "sciuq-calibrate", "Recalibrate a finished run from its saved predictions; nothing is trained anew."
    )
    parser.add_argument("settings", metavar="KEY=VALUE", nargs="+", help="calibration=[var,cdf] calibration.n=20 ...")
    options = parser.parse_args(arguments)
    folder = find_run(options.run, half_calibrated=True)

    from sciuq_runner import files
    from sciuq_runner.config.build import CalibrationSettings, build_calibrators
    from sciuq_runner.config.compose import compose, plain
    from sciuq_runner.config.environment import trusted
    from sciuq_runner.evaluation.results import (
        calibrations,
        read_metrics,
        read_results,
        recalibrating,
        study_calibrations,
        write_results,
    )
    from sciuq_runner.runs.console import print_summary
    from sciuq_runner.runs.pipeline import calibrated
    from sciuq_runner.runs.resume import read_origin
    from sciuq_runner.schema import construct
    from sciuq_runner.tracking.existing import log_recalibration

    wrong = [item for item in options.settings if not item.startswith(("calibration=", "calibration."))]
    if wrong:
        raise ConfigError(
            f"{wrong[0]} is not a setting of the calibration: give calibration=NAME or calibration.KEY=VALUE."
        )
    known = read_metrics(folder)
    if not any(item.startswith("calibration=") for item in options.settings):
        raise ConfigError(
            f"{options.settings[0]} needs a calibrator too: give calibration=var, cdf, crude or conformal."
        )
    chosen = plain(compose([*options.settings], None))["calibration"]
    settings, saved = construct(CalibrationSettings, chosen, "calibration"), read_results(folder)
    files.require(known, dict.fromkeys(saved, dict), folder / layout.METRICS)
    calibrators = build_calibrators(settings.by, trusted())
    seed = known["config"]["seed"]
    try:
        results = {name: calibrated(name, item, settings, calibrators, seed) for name, item in saved.items()}
    except ValueError as error:
        raise ConfigError(f"{options.run}: {error}") from error
    for name, item in results.items():
        kept = {split: values for split, values in known[name].items() if not split.startswith("cal_")}
        fresh = item.evaluate()  # of a run of an earlier version, also metrics that it did not know
        known[name] = fresh | {split: fresh.get(split, {}) | values for split, values in kept.items()}
    known["calibration_size"] = study_calibrations(results, calibrators, seed)
    known["config"]["calibration"] = chosen
    known["config"]["choices"]["calibration"] = ",".join(calibrators) or "none"
    with recalibrating(folder):
        write_results(folder, results)
        files.write_json(folder / layout.MODEL / layout.CALIBRATION, calibrations(results))
        files.write_json(folder / layout.METRICS, known)
        _redraw(folder)
    origin = read_origin(folder)
    if origin is not None and origin.mlflow_run is not None:
        log_recalibration(origin.mlflow_run, known, folder)
    print_summary(known, folder, None)


def _plot(arguments: Sequence[str]) -> None:
    parser = _parser("sciuq-plot", "Draw the figures of a finished run again, from its saved predictions alone.")
    folder = find_run(parser.parse_args(arguments).run)
    for path in _redraw(folder):
        print(path)


def _redraw(folder: Path) -> list[Path]:
    """All figures of a run, from what is in its folder."""
    from sciuq_runner.config.build import build_calibrators
    from sciuq_runner.config.environment import trusted
    from sciuq_runner.evaluation import plots
    from sciuq_runner.evaluation.results import read_metrics, read_panels, read_results, title_of
    from sciuq_runner.models.pretraining import read_prior
    from sciuq_runner.predict.out_of_distribution import read_detection

    results, panels = read_results(folder), read_panels(folder)
    known = read_metrics(folder)
    calibrators = build_calibrators(known["config"]["calibration"].get("by", {}), trusted())
    figures = folder / layout.FIGURES
    before = {path for name in results for kind in plots.CALIBRATED for path in figures.glob(f"{name}_{kind}.png")}
    parts = results, panels, calibrators, known["config"]["seed"], title_of(known), read_prior(folder)
    drawn = plots.draw_all(figures, *parts, read_detection(folder))
    for old in before - set(drawn):  # of a calibration that was replaced
        old.unlink()
    return drawn


def _predict(arguments: Sequence[str]) -> None:
    parser = _parser("sciuq-predict", "Mean, uncertainty and 95 % bounds of a finished run at points of your own.")
    parser.add_argument(
        "points",
        metavar="POINTS.csv",
        type=Path,
        help="a table with a column for every coordinate; for operators functions (.csv, .npz, .mat), one in each row",
    )
    parser.add_argument("-o", "--output", metavar="OUT.csv", type=Path, help="where to write (standard output)")
    parser.add_argument("--quantity", metavar="NAME", help="what to predict (the first quantity of the problem)")
    options = parser.parse_args(arguments)
    model = find_run(options.run) / layout.MODEL
    if not model.is_dir():
        raise ConfigError(f"{options.run} holds no model: the run did not finish.")

    import pandas as pd

    from sciuq_runner.config.environment import trusted
    from sciuq_runner.predict.emulator import Emulator
    from sciuq_runner.pyfunc import PyFunc

    if not options.points.is_file():
        raise ConfigError(f"{options.points} is not a file: name a CSV file with the points.")
    emulator = Emulator(model, trusted())
    if emulator.takes_functions:
        emulator.quantity(options.quantity)
        _write(pd.DataFrame(_operate(emulator, options.points)), options.output)
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # more fields in a row than columns
            points = pd.read_csv(options.points, skipinitialspace=True, index_col=False, compression=None)
    except (ValueError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise ConfigError(f"{options.points} cannot be read as CSV ({first_line(error)}).") from error
    if not len(points):
        raise ConfigError(f"{options.points} holds no points: one row per point is needed below the names of columns.")
    found = PyFunc(emulator).predict(points, {"quantity": options.quantity})
    table = pd.concat([points[list(emulator.coordinates_of(options.quantity))], found], axis=1)
    _write(table, options.output)


def _write(table: Any, output: Path | None) -> None:
    """A table of predictions, to a file or to standard output."""
    from sciuq_runner.files import write_atomically

    if output is None:
        print(table.to_csv(index=False), end="")
    else:
        write_atomically(output, lambda target: table.to_csv(target, index=False))
        print(f"{len(table)} predictions: {output}")


def _operate(emulator: Emulator, path: Path) -> dict[str, Any]:
    """Apply an operator to the functions of a file: ``inputs`` with ``sensors`` and ``points`` where they are others
    than those of training; of a CSV file all columns."""
    import numpy as np

    from sciuq_runner.physics.data_files import read_arrays

    n_sensors, depth = emulator.sensors.shape
    width = len(emulator.coordinates_of())
    if path.suffix.lower() == ".csv":
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # of an empty file
                values = np.loadtxt(path, delimiter=",", ndmin=2)
        except (ValueError, UserWarning) as error:
            raise ConfigError(f"{path} should hold {n_sensors} numbers in each row ({first_line(error)}).") from error
        return emulator.operate(emulator.functions(values))
    arrays = read_arrays(path, ["inputs"], ["sensors", "points"], "functions")
    for name, columns in (("points", width), ("sensors", depth)):
        if name in arrays:
            columns_found = arrays[name].shape[1] if arrays[name].ndim == 2 else 1
            if arrays[name].ndim > 2 or (columns_found != columns and arrays[name].shape != (columns,)):
                raise ConfigError(f"{path}: {name} should have {columns} columns, one for each coordinate.")
            arrays[name] = arrays[name].reshape(-1, columns)
    places, values = arrays.get("sensors", emulator.sensors), arrays["inputs"]
    if values.ndim == 1 and values.size % len(places) == 0:
        values = values.reshape(-1, len(places))
    return emulator.operate(emulator.functions(values, places), arrays.get("points"))
