"""Where configuration ends: plain nested dictionaries become objects, or a sentence that says why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge

from sciuq_runner import layout, memory
from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.gold_standard import gold_standard
from sciuq_runner.evaluation.metrics_file import NOT_QUANTITIES
from sciuq_runner.memory import Need
from sciuq_runner.methods.base import Method
from sciuq_runner.methods.compatibility import refuse_combination, refuse_target
from sciuq_runner.models.base import Model
from sciuq_runner.physics.problem import Dataset, Problem
from sciuq_runner.predict.out_of_distribution import DetectionSettings
from sciuq_runner.schema import Dtype, Positive, build, construct
from sciuq_runner.seeds import stream
from sciuq_runner.target.density import Target

TAKEN = {"noise", "train", "calibration", "cal", "split", "test", "aleatoric", "epistemic"}
"""How the names of arrays go on behind the name of a quantity."""


@dataclass(frozen=True)
class CalibrationSettings:
    """``calibration.*``: how the predictions are recalibrated after training."""

    n: Annotated[int, Ge(1)] | None = None
    data: Literal["calibration", "train"] = "calibration"
    by: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrackingSettings:
    """``tracking.*``: where MLflow keeps the run."""

    kind: Literal["mlflow", "none"] = "mlflow"
    uri: str | None = None
    experiment: str = "sciuq"
    artifacts: str | None = None


@dataclass(frozen=True)
class Fidelity:
    """``fidelity.*``: the name that step counts are chosen by."""

    name: Literal["smoke", "quick", "paper"] = "quick"


@dataclass(frozen=True)
class Settings:
    """The whole configuration, checked one level deep."""

    problem: dict[str, Any]
    model: dict[str, Any]
    method: dict[str, Any]
    calibration: dict[str, Any]
    fidelity: dict[str, Any]
    tracking: dict[str, Any]
    detection: dict[str, Any] = field(default_factory=dict)
    seed: Annotated[int, Ge(0)] = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    dtype: Dtype = "float32"
    threads: Annotated[int, Ge(1)] | None = None
    temperature: Positive = 1.0
    gold: str | None = "auto"
    checkpoint_interval: Positive = 60.0
    figures: bool = True
    trust: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RunSetup:
    """Everything a run needs, built and checked."""

    problem: Problem
    model: Model
    method: Method
    calibration: CalibrationSettings
    calibrators: Mapping[str, Calibrator]
    tracking: TrackingSettings
    detection: DetectionSettings
    settings: Settings
    config: Mapping[str, Any]
    changed_terms: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict
    )  # by tuned files, beside model and method


def assemble(config: Mapping[str, Any]) -> RunSetup:
    """Build a run from a resolved configuration; every mistake is a :class:`ConfigError`."""
    settings = construct(Settings, config, "")
    construct(Fidelity, settings.fidelity, "fidelity")
    problem = build(settings.problem, "problem", Problem, settings.trust)  # type: ignore[type-abstract]
    model = build(settings.model, "model", Model, settings.trust)  # type: ignore[type-abstract]
    method = build(settings.method, "method", Method, settings.trust)  # type: ignore[type-abstract]
    calibration = construct(CalibrationSettings, settings.calibration, "calibration")
    calibrators = build_calibrators(calibration.by, settings.trust)
    tracking = construct(TrackingSettings, settings.tracking, "tracking")
    detection = construct(DetectionSettings, settings.detection, "detection", settings.trust)
    if detection.score.startswith("gan") and detection.prior is None:
        raise ConfigError(f"detection.score={detection.score} needs a generator: use detection=gan.")
    if detection.score == "residual" and problem.operator and type(problem).imbalance is Problem.imbalance:
        raise ConfigError("detection.score=residual needs a problem that knows its equation, as darcy does: use std.")
    if calibrators and calibration.data == "calibration" and not problem.n_calibration_points:
        raise ConfigError(
            f"calibration={','.join(calibrators)} needs calibration readings, and the problem has none: "
            f"set {problem.calibration_setting}, or calibration=none."
        )
    if calibration.data == "calibration" and calibration.n is not None and calibration.n > problem.n_calibration_points:
        raise ConfigError(
            f"calibration.n={calibration.n} is more than the {problem.n_calibration_points} calibration points "
            f"that the problem has: choose fewer, or more {problem.calibration_setting}."
        )
    require_device(settings.device)
    if settings.device == "mps" and settings.dtype == "float64":
        raise ConfigError("device=mps has no float64: use dtype=float32.")
    reserved = set(NOT_QUANTITIES) & set(problem.noise)
    if reserved:
        raise ConfigError(f"problem: a quantity cannot be called {reserved.pop()}, which metrics.json uses otherwise.")
    for name in problem.noise:
        for other in problem.noise:
            if other.startswith(f"{name}_") and other.removeprefix(f"{name}_").split("_")[0] in TAKEN:
                raise ConfigError(
                    f"problem: the quantity {other} has a name that {layout.PREDICTIONS} uses for {name}: rename it."
                )
    return RunSetup(problem, model, method, calibration, calibrators, tracking, detection, settings, config)


def build_calibrators(by: Mapping[str, Any], trust: Sequence[str] = ()) -> dict[str, Calibrator]:
    """The calibrators of ``calibration.by``."""
    return {
        name: build(values, f"calibration.by.{name}", Calibrator, list(trust))  # type: ignore[type-abstract]
        for name, values in by.items()
    }


def prepare(run: RunSetup, share: memory.Share | None = None) -> tuple[Dataset, Target]:
    """Make the data and the target; refuse a method that cannot serve it, or not in its share of the memory."""
    settings = run.settings
    refuse_combination(run.problem, run.model, run.method)
    dataset = run.problem.dataset(stream(settings.seed, "data"))
    readings = {name: data.train for name, data in dataset.items()}
    model = run.model.bind(run.problem, run.problem.noise, readings)
    target = Target(
        model,
        run.problem.noise,
        {} if model.inference == "prior" else readings,
        {name: data.validation for name, data in dataset.items()},
        temperature=settings.temperature,
        dtype=getattr(torch, settings.dtype),
        device=choose_device(settings.device),
        transforms=run.problem.transforms(),
        operator=run.problem.operator,
    )
    if run.calibrators and run.calibration.data == "train":
        for name, data in dataset.items():
            if 0 < data.train.n_residuals < (run.calibration.n or 1):
                raise ConfigError(
                    f"calibration.n={run.calibration.n} is more than the {data.train.n_residuals} that train {name}."
                )
    if settings.gold not in (None, "auto"):
        gold_standard(settings.gold, target, dataset, settings.seed)
    refuse_target(run.method, target)
    memory.refuse([*run.method.needs(target), *predicted(run.method, dataset)], share)
    return dataset, target


def predicted(method: Method, dataset: Dataset) -> list[Need]:
    """Member functions on the test grids: those of all quantities are kept, and some copies of one while it is made.

    Of operators and random fields moments are kept.
    """
    key, count = method.kept
    sizes = [data.test.y.size for data in dataset.values() if not data.test.columns_are_functions]
    numbers = count * (sum(sizes) + 4 * max(sizes, default=0))
    return [Need(f"{key}={count}", f"predictions of {count} samples at {sum(sizes)} test points", 8.0 * numbers)]


def require_device(name: str) -> None:
    """Refuse a device that is not there."""
    present = {
        "auto": True,
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if not present[name]:
        there = ", ".join(device for device, found in present.items() if found)
        raise ConfigError(f"device={name} is not available on this machine: choose one of {there}.")


def choose_device(name: str) -> str:
    """The device that ``auto`` stands for: the networks of this field are small, but a GPU helps big batches."""
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"
