"""An operator of your own: pairs of functions from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge
from torch import Tensor

from sciuq_runner.errors import ConfigError
from sciuq_runner.physics.data_files import read_arrays
from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.problem import (
    Array,
    Dataset,
    FieldSpec,
    History,
    Noise,
    Operator,
    OperatorPairs,
    Problem,
    QuantityData,
)
from sciuq_runner.physics.standardisation import Standardisation
from sciuq_runner.schema import NonNegative, Positive

INPUT, OUTPUT = "input", "u"
LABEL = "problem.data"


@dataclass(frozen=True)
class UserOperator(Problem):
    """The operator between functions and what they lead to, from an NPZ or MAT file of yours with the arrays

    - ``inputs[R, S]``: the values of R functions at S sensors, the same for all;
    - ``sensors[S, D]``: the places of the sensors (one column if they lie on a line);
    - ``points[N, D']``: where what follows from them was read;
    - ``values[R, N]``: these observations;
    - and, if you have functions of another kind to test with, ``ood_inputs[R', S]`` and ``ood_values[R', N]``.

    ``coordinates`` names the columns of the points. Functions are set aside at random for test, calibration and
    validation. All values have noise of scale ``noise_scale`` in units of their standard deviation at each place, and
    so have predictions of new ones; or none, and the model may be off by ``tolerance``. Positive functions can be
    learned by their logarithm.
    """

    data: str = ""
    coordinates: list[str] = field(default_factory=list)
    log_input: bool = False
    log_output: bool = False
    noise_scale: NonNegative = 0.0
    tolerance: Positive = 0.05
    n_test: Annotated[int, Ge(1)] = 100
    n_calibration: Annotated[int, Ge(0)] = 50
    n_validation: Annotated[int, Ge(0)] = 50

    fields: ClassVar[Mapping[str, FieldSpec]] = {}  # type: ignore[misc]

    def __post_init__(self) -> None:
        if not self.data:
            raise ValueError("data should name an NPZ or MAT file with inputs, sensors, points and values.")
        if len(set(self.coordinates)) != len(self.coordinates) or not self.coordinates:
            raise ValueError("coordinates should name every column of the points once, for example [x, y].")

    @property
    def operator(self) -> Operator:
        return Operator(INPUT, OUTPUT, self.is_noisy)

    @property
    def is_noisy(self) -> bool:
        return self.noise_scale > 0

    @property
    def data_files(self) -> Sequence[Path]:
        return (Path(self.data).expanduser(),)

    @property
    def n_calibration_points(self) -> int:
        return self.n_calibration

    @property
    def noise(self) -> Mapping[str, Noise]:
        return {OUTPUT: Noise("known", self.noise_scale) if self.is_noisy else Noise("exact", self.tolerance)}

    def coordinates_of(self, quantity: str) -> tuple[str, ...]:
        return tuple(self.coordinates)

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        raise AssertionError("what follows from a function is the operator's")

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """The content of the file, checked."""
        path = self.data_files[0]
        names = ["inputs", "sensors", "points", "values"]
        found = read_arrays(path, names, ["ood_inputs", "ood_values"], LABEL)
        if found["points"].shape == (len(self.coordinates),):  # one point: readers take a row for a vector
            found["points"] = found["points"][None]
        for name in ("sensors", "points"):
            found[name] = found[name].reshape(len(found[name]), -1)
        for name, width in (("inputs", len(found["sensors"])), ("values", len(found["points"]))):
            for key in (name, f"ood_{name}"):
                if key in found and found[key].ndim == 1 and found[key].size % width == 0:
                    found[key] = found[key].reshape(-1, width)  # one value each, or one function
        if ("ood_inputs" in found) != ("ood_values" in found):
            raise ConfigError(f"{LABEL}: {path} should have both of ood_inputs and ood_values, or neither.")
        for prefix in ("", "ood_") if "ood_inputs" in found else ("",):
            count = found[f"{prefix}inputs"].shape[0]
            shapes = {"inputs": (count, len(found["sensors"])), "values": (count, len(found["points"]))}
            for name, wanted in shapes.items():
                shape = found[f"{prefix}{name}"].shape
                if shape != wanted:
                    raise ConfigError(
                        f"{LABEL}: {path} has {prefix}{name} of the shape {' x '.join(map(str, shape))}: with this "
                        f"many functions, sensors and points it should be {' x '.join(map(str, wanted))}."
                    )
            for name, log in (("inputs", self.log_input), ("values", self.log_output)):
                if log and found[f"{prefix}{name}"].min() <= 0:
                    setting = "log_input" if name == "inputs" else "log_output"
                    raise ConfigError(
                        f"problem.{setting}=true needs positive numbers, and {prefix}{name} of {path} has "
                        f"{found[f'{prefix}{name}'].min():.4g}: use false."
                    )
        if len(self.coordinates) != found["points"].shape[1]:
            raise ConfigError(
                f"problem.coordinates={self.coordinates} should have one name for each of the "
                f"{found['points'].shape[1]} columns of points in {path}."
            )
        left = len(found["inputs"]) - self.n_test - self.n_calibration - self.n_validation
        if left < 2:
            raise ConfigError(
                f"{LABEL}: {path} has {len(found['inputs'])} functions, and problem.n_test, n_calibration and "
                f"n_validation leave {max(left, 0)} to learn from: set aside fewer."
            )
        return found

    def transforms(self) -> Mapping[str, Standardisation]:
        arrays, n = self.arrays, len(self.arrays["inputs"])
        seen = self.parts(n)[0]
        return {
            INPUT: Standardisation.fit(arrays["sensors"], arrays["inputs"][seen].T, self.log_input),
            OUTPUT: Standardisation.fit(arrays["points"], arrays["values"][seen].T, self.log_output),
        }

    def parts(self, n: int) -> list[Array]:
        """Which functions train, test, calibrate and validate: the same for all seeds."""
        order = np.random.default_rng(0).permutation(n)
        ends = np.cumsum([self.n_test, self.n_calibration, self.n_validation])
        test, calibration, validation, train = np.split(order, ends)
        return [train, test, calibration, validation]

    def history(self, rng: np.random.Generator, n: int) -> Mapping[str, History]:
        seen = self.parts(len(self.arrays["inputs"]))[0][:n]
        return {INPUT: History(self.arrays["sensors"], self.arrays["inputs"][seen].T)}

    def pairs(self) -> OperatorPairs:
        return self.functions(self.parts(len(self.arrays["inputs"]))[0])

    def functions(self, chosen: Array) -> OperatorPairs:
        points, arrays = self.arrays["points"], self.arrays
        if not len(chosen):
            return OperatorPairs.none(points.shape[1])
        values, inputs = arrays["values"][chosen].T, arrays["inputs"][chosen]
        return OperatorPairs(points, values, inputs, noisy=self.is_noisy)

    def dataset(self, rng: np.random.Generator) -> Dataset:
        arrays = self.arrays
        train, test, calibration, validation = (self.functions(part) for part in self.parts(len(arrays["inputs"])))
        inputs, values = test.inputs, test.y
        kinds = np.zeros(len(inputs))
        if "ood_inputs" in arrays:
            inputs = np.concatenate([inputs, arrays["ood_inputs"]])
            values = np.concatenate([values, arrays["ood_values"].T], axis=1)
            kinds = np.repeat([0, 1], [len(kinds), len(arrays["ood_inputs"])])
        splits = {name: np.broadcast_to(kinds == i, values.shape) for i, name in enumerate(("id", "ood"))}
        return {
            OUTPUT: QuantityData(
                train=train,
                test=replace(test, y=values, inputs=inputs),
                reference=values,
                splits={name: mask for name, mask in splits.items() if mask.any()},
                calibration=calibration,
                validation=validation,
                coordinates=tuple(self.coordinates),
                clean_rl2e=True,
            )
        }
