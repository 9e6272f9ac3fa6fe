"""One run in its stages: infer, predict, evaluate, write, draw. Knows neither Hydra nor MLflow."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from sciuq_runner import files, layout
from sciuq_runner.config.build import RunSetup
from sciuq_runner.config.equal_terms import describe_changes
from sciuq_runner.evaluation import plots
from sciuq_runner.evaluation.baselines import compare_operator
from sciuq_runner.evaluation.calibration_size import study_calibrations
from sciuq_runner.evaluation.cost import Clock, peak_memory
from sciuq_runner.evaluation.detection import detect
from sciuq_runner.evaluation.diagnostics import judge
from sciuq_runner.evaluation.gold_standard import gold_standard
from sciuq_runner.evaluation.inference import Inference
from sciuq_runner.evaluation.metrics_file import CHANGED_TERMS, STOPPED_EARLY
from sciuq_runner.evaluation.posterior_summaries import learned_noise, learned_parameters
from sciuq_runner.evaluation.quantity_results import predict_tests, result_of, statistic_results, validation_nll
from sciuq_runner.evaluation.recalibration import calibrate_result
from sciuq_runner.evaluation.result_files import calibrations, write_results
from sciuq_runner.evaluation.results import Result
from sciuq_runner.evaluation.split_metrics import evaluate_splits
from sciuq_runner.methods.compatibility import unit_advice
from sciuq_runner.methods.gp import GP
from sciuq_runner.models.pretraining import Store, pretrain
from sciuq_runner.physics.problem import Dataset
from sciuq_runner.predict.emulator import save_emulator
from sciuq_runner.predict.out_of_distribution import make_detector
from sciuq_runner.predict.predictive import Predictive
from sciuq_runner.seeds import torch_stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import workers
from sciuq_runner.training.loop import Loop

log = logging.getLogger(__name__)

ALL_THREADS = torch.get_num_threads()  # before any run has changed it; respects OMP_NUM_THREADS


@dataclass
class RunOutcome:
    """What a run found."""

    metrics: dict[str, Any]
    interrupted: bool = False
    headline: float | None = None  # what a search for settings minimises: never of test observations


@dataclass(frozen=True)
class Predictions:
    """What the samples predict: quantities on their test grids, results at all points where something is known, and how
    the scores of an operator's test functions turned out."""

    tests: Mapping[str, Predictive]
    results: Mapping[str, Result]
    detection: dict[str, dict[str, float]]


def execute(
    run: RunSetup,
    dataset: Dataset,
    target: Target,
    folder: Path,
    loop: Loop,
    choices: Mapping[str, str],
    store: Store | None = None,
) -> RunOutcome:
    """Run the whole pipeline and leave its results in ``folder``; what is pre-trained is kept in ``store``."""
    clock = Clock(loop.earlier)
    inference = infer(run, dataset, target, folder, loop, store or Store(folder / layout.PRETRAINED), clock)
    predictions = predict(run, inference, folder)
    metrics, warnings = evaluate(run, inference, predictions, choices)
    write_results(folder, predictions.results)
    metrics["cost"]["total_s"] = clock.seconds
    draw(run, inference, predictions.results, metrics, folder)
    metrics[STOPPED_EARLY] = loop.interrupted
    files.write_json(folder / layout.METRICS, metrics)  # the last file: a folder that has it is complete
    for warning in warnings:
        log.warning(warning)
    return RunOutcome(metrics, loop.interrupted, validation_nll(target, inference.posterior, dataset))


def infer(
    run: RunSetup, dataset: Dataset, target: Target, folder: Path, loop: Loop, store: Store, clock: Clock
) -> Inference:
    """Train what is trained before inference, sample, and keep the samples."""
    share_threads(target, run.settings.threads)
    log.info("%d unknowns, %d readings, on %s.", target.size, target.n_observations, target.device)
    for sentence in unit_advice(run.problem, run.model, dataset):
        log.warning(sentence)
    if run.changed_terms:
        log.warning("%s", describe_changes(run.changed_terms))
    pretrained = pretrain(target.model, store, folder, loop)
    detector = make_detector(run.detection, run.problem, target, dataset)
    if detector is not None and detector.prior is not None:
        pretrained |= pretrain(detector.prior, store, folder, loop)
    posterior = run.method.run(target, torch_stream(run.settings.seed, "method"), loop)
    seconds = clock.seconds
    files.write_tensors(folder / layout.SAMPLES, *posterior.tensors())
    return Inference(run.problem, dataset, target, posterior, run.settings.seed, detector, pretrained, seconds)


def predict(run: RunSetup, inference: Inference, folder: Path) -> Predictions:
    """Predict all quantities, calibrate them, score an operator's inputs; leaves the scores and the emulator."""
    parts = inference.target, inference.posterior
    tests = predict_tests(*parts, inference.dataset)
    results = {name: result_of(*parts, name, data, tests[name]) for name, data in inference.dataset.items()}
    results |= statistic_results(*parts, inference.dataset, run.problem.fields)
    results = {name: calibrate(run, name, item) for name, item in results.items()}
    detection: dict[str, dict[str, float]] = {}
    if inference.detector is not None:
        detection, scores = detect(inference.detector, *parts, inference.dataset, tests)
        files.write_npz(folder / layout.DETECTION, scores)
    samples, by = folder / layout.SAMPLES, calibrations(results)
    save_emulator(folder / layout.MODEL, run.config, inference.target, samples, by, inference.detector)
    return Predictions(tests, results, detection)


def calibrate(run: RunSetup, name: str, result: Result) -> Result:
    """A result with its calibrations; as it is where they cannot be had, since what was trained must not be lost."""
    settings = run.calibration
    try:
        return calibrate_result(name, result, run.calibrators, run.settings.seed, settings.data, settings.n)
    except ValueError as error:
        log.warning("%s is not calibrated: %s", name, error)
        return result


def evaluate(
    run: RunSetup, inference: Inference, predictions: Predictions, choices: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """What ``metrics.json`` holds, but for the time in all and whether the run came to its end; and warnings."""
    settings, target, posterior = run.settings, inference.target, inference.posterior
    is_gold = isinstance(run.method, GP)
    gold = {} if is_gold else gold_standard(settings.gold, target, inference.dataset, settings.seed)
    diagnostics, warnings = judge(target, posterior, predictions.tests)
    metrics: dict[str, Any] = {
        **{name: evaluate_splits(item, gold.get(name)) for name, item in predictions.results.items()},
        "noise": learned_noise(target, posterior),
        "parameters": learned_parameters(target, posterior, run.problem.scalars),
        "diagnostics": diagnostics,
    }
    if inference.pretrained:
        metrics["pretraining"] = inference.pretrained
    metrics["calibration_size"] = study_calibrations(predictions.results, run.calibrators, settings.seed)
    if inference.detector is not None:
        metrics["baselines"] = compare_operator(target, inference.dataset, predictions.tests)
        metrics["detection"] = predictions.detection
    metrics["cost"] = {
        "train_s": inference.seconds,
        "total_s": 0.0,
        "grad_evals": posterior.gradient_evaluations,
        "peak_rss_mb": peak_memory(),
    }
    if run.changed_terms:
        metrics[CHANGED_TERMS] = run.changed_terms
    metrics["config"] = {"choices": dict(choices), **{k: v for k, v in run.config.items() if k != "tracking"}}
    return metrics, warnings


def draw(
    run: RunSetup, inference: Inference, results: Mapping[str, Result], metrics: Mapping[str, Any], folder: Path
) -> None:
    """Leave the data of figures in the run folder, and the figures themselves if they are wanted."""
    try:
        plots.write_data(folder, inference)
        if run.settings.figures:
            plots.draw_all(folder / layout.FIGURES, plots.Drawing.of(folder, results, metrics, run.calibrators))
    except Exception as error:  # a figure that cannot be drawn must not cost the results
        log.warning("A figure could not be drawn: %s", error)


def share_threads(target: Target, threads: int | None) -> None:
    """Threads inside the kernels of large targets; those of small ones are too short to share, but not their chains."""
    available = threads or ALL_THREADS
    small = target.size * target.n_observations < 2_000_000
    if threads is not None:
        threadpool_limits(threads)  # of numpy and scipy: jobs side by side must not fight
    torch.set_num_threads(1 if small else available)  # the last word: the limit above counts for torch too
    workers.set(available if small else 1)
