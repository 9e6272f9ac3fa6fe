"""The MLflow flavour: loads an emulator from its data; the artifact holds no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sciuq_runner.config.environment import trusted
from sciuq_runner.errors import ConfigError
from sciuq_runner.predict.emulator import Emulator


class PyFunc:
    """``predict(points)`` with a table of coordinates gives mean, standard deviations and 95 % bounds.

    Of an operator, ``predict(functions)`` with one function per row gives the same for each at all points, and whether
    it is out of distribution.
    """

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        import pandas as pd

        quantity = (params or {}).get("quantity")
        self.emulator.quantity(quantity)
        if self.emulator.takes_functions:
            try:
                values = np.asarray(model_input, dtype=float)
            except (TypeError, ValueError) as error:
                raise ConfigError("The functions should be a table of finite numbers, one function per row.") from error
            return pd.DataFrame(self.emulator.operate(self.emulator.functions(values)))
        names = self.emulator.coordinates_of(quantity)
        if isinstance(model_input, pd.DataFrame):
            missing = [name for name in names if name not in model_input.columns]
            if missing:
                raise ConfigError(f"The points lack the column {missing[0]}: they need {', '.join(names)}.")
            model_input = model_input[list(names)].to_numpy()
        try:
            x = np.array(model_input, dtype=float, order="C")  # torch takes no reversed columns
        except (TypeError, ValueError) as error:
            raise ConfigError("The points should be a table of finite numbers, one row per point.") from error
        if x.ndim == 1 and len(names) == 1:
            x = x[:, None]
        return pd.DataFrame(self.emulator.predict(x, quantity))


def signature(folder: Path) -> Any:
    """What the model takes and can be asked for, in MLflow's words."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec

    emulator = Emulator(folder, trusted())
    if emulator.takes_functions:
        return ModelSignature(Schema([TensorSpec(np.dtype(np.float64), (-1, len(emulator.sensors)))]))
    needs = [emulator.coordinates_of(quantity) for quantity in emulator.quantities]
    names = list(dict.fromkeys(name for need in needs for name in need))
    columns = Schema([ColSpec("double", name, required=all(name in need for need in needs)) for name in names])
    return ModelSignature(columns, params=ParamSchema([ParamSpec("quantity", "string", emulator.quantities[0])]))


def _load_pyfunc(path: str) -> PyFunc:
    """Entry point that MLflow calls."""
    return PyFunc(Emulator(Path(path), trusted()))
