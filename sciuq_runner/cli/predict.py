"""``sciuq-predict``: a finished run at points, or for functions, of one's own."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciuq_runner import layout
from sciuq_runner.cli.common import conclude, run_parser
from sciuq_runner.errors import ConfigError, first_line

if TYPE_CHECKING:
    from sciuq_runner.predict.emulator import Emulator


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-predict``."""
    conclude("sciuq-predict", lambda: predict(sys.argv[1:] if argv is None else argv))


def predict(arguments: Sequence[str]) -> None:
    """Predict what the arguments ask for, into a file or to standard output."""
    parser = run_parser("sciuq-predict", "Mean, uncertainty and 95 % bounds of a finished run at points of your own.")
    parser.add_argument(
        "points",
        metavar="POINTS.csv",
        type=Path,
        help="a table with a column for every coordinate; for operators functions (.csv, .npz, .mat), one in each row",
    )
    parser.add_argument("-o", "--output", metavar="OUT.csv", type=Path, help="where to write (standard output)")
    parser.add_argument("--quantity", metavar="NAME", help="what to predict (the first quantity of the problem)")
    options = parser.parse_args(arguments)

    from sciuq_runner.runs.finding import find_run

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


if __name__ == "__main__":
    main()
