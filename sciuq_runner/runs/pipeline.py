"""One run, from data to figures. Knows no Hydra and no MLflow; what it computed is in the run folder."""

from __future__ import annotations
from sciuq_runner import layout

import logging
import resource
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from sciuq_runner import files
from sciuq_runner.evaluation import metrics
from sciuq_runner.config.build import CalibrationSettings, Run, prepare
from sciuq_runner.config.equal_terms import describe_changes
from sciuq_runner.training.autodiff import workers
from sciuq_runner.evaluation.baselines import baselines
from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.predict.scaled_residual import LEVEL
from sciuq_runner.calibration.conformal import points_needed
from sciuq_runner.predict.out_of_distribution import Detector, make_prior, read_detection, summarise
from sciuq_runner.evaluation.diagnostics import convergence, convergence_warnings
from sciuq_runner.predict.emulator import save_emulator
from sciuq_runner.evaluation.gold_standard import gold_standard
from sciuq_runner.evaluation.prior_posterior import before_and_after, parameter_draws
from sciuq_runner.training.loop import Loop
from sciuq_runner.methods.base import Posterior
from sciuq_runner.methods.gp import GP
from sciuq_runner.predict.predictive import NOWHERE, Predictive, predict, predict_statistics, statistics
from sciuq_runner.models.pretraining import Store, pretrain, read_prior
from sciuq_runner.physics.problem import Array, Dataset, Parameter, QuantityData, Readings
from sciuq_runner.evaluation.results import CHANGED_TERMS, INTERRUPTED, Result, calibrations, collect, study_calibrations, title_of, write_panels, write_results
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.target.density import Target

log = logging.getLogger(__name__)

ALL_THREADS = torch.get_num_threads()  # before any run has changed it; respects OMP_NUM_THREADS
N_SHOWN = 20  # training functions whose predictions are kept


@dataclass
class Outcome:
    """What a run found."""

    metrics: dict[str, Any]
    interrupted: bool = False
    headline: float | None = None  # what a search for settings minimises: never of test readings


def execute(run: Run, folder: Path, loop: Loop, choices: Mapping[str, str], store: Store | None = None) -> Outcome:
    """Run the whole pipeline and leave its results in ``folder``; what is pre-trained is kept in ``store``."""
    started = time.perf_counter()
    settings = run.settings
    dataset, target = prepare(run)
    share_threads(target, settings.threads)
    log.info("%d unknowns, %d readings, on %s.", target.size, target.n_readings, target.device)
    for sentence in run.problem.advice(dataset) if run.model.knows_units else ():
        log.warning(sentence)
    if run.changed_terms:
        log.warning("%s", describe_changes(run.changed_terms))

    store = store or Store(folder / layout.PRETRAINED)
    pretrained = pretrain(target.model, store, folder, loop)
    detector = make_detector(run, target, dataset)
    if detector is not None and detector.prior is not None:
        pretrained |= pretrain(detector.prior, store, folder, loop)
    posterior = run.method.run(target, torch_stream(settings.seed, "method"), loop)
    trained = time.perf_counter()
    files.write_tensors(folder / layout.SAMPLES, *posterior.tensors())

    tests = {name: data.test for name, data in dataset.items()}
    predictives = {
        name: predict(target, posterior, name, part.x, part.random and not part.noisy, part.inputs)
        for name, part in tests.items()
    }
    found = {name: result_of(target, posterior, name, data, predictives[name]) for name, data in dataset.items()}
    found |= statistic_results(target, posterior, dataset, run.problem.fields)
    for name, item in found.items():
        try:
            found[name] = calibrated(name, item, run.calibration, run.calibrators, settings.seed)
        except ValueError as error:  # what was trained must not be lost
            log.warning("%s is not calibrated: %s", name, error)
    detection = {} if detector is None else detect(detector, target, posterior, dataset, predictives, folder)
    save_emulator(folder / layout.MODEL, run.config, target, posterior, calibrations(found), detector)
    gold = {} if isinstance(run.method, GP) else gold_standard(settings.gold, target, dataset, settings.seed)
    diagnostics, warnings = judge(target, posterior, predictives)
    cost = {
        "train_s": loop.earlier + trained - started,
        "total_s": 0.0,
        "grad_evals": posterior.gradient_evaluations,
        "peak_rss_mb": peak_memory(),
    }
    results: dict[str, Any] = {
        **{name: item.evaluate() for name, item in found.items()},
        "noise": learned_noise(target, posterior),
        "parameters": learned_parameters(target, posterior, run.problem.scalars),
        "diagnostics": diagnostics,
        **({"pretraining": pretrained} if pretrained else {}),
        "calibration_size": study_calibrations(found, run.calibrators, settings.seed),
        **({"baselines": compare(target, dataset, predictives), "detection": detection} if detector else {}),
        "cost": cost,
        **({CHANGED_TERMS: run.changed_terms} if run.changed_terms else {}),
        "config": {"choices": dict(choices), **{k: v for k, v in run.config.items() if k != "tracking"}},
    }
    for name, (mean, std) in gold.items():
        add_gold(results[name], found[name], mean, std)
    write_results(folder, found)
    cost["total_s"] = loop.earlier + time.perf_counter() - started
    try:
        panels = before_and_after(target, posterior, stream(settings.seed, "figures"), run.problem.probes)
        write_panels(folder, panels)
        if settings.figures:
            from sciuq_runner.evaluation import plots  # matplotlib takes a second to import: not before it is needed

            extras = read_prior(folder), read_detection(folder)
            parts = found, panels, run.calibrators, settings.seed, title_of(results), *extras
            plots.draw_all(folder / layout.FIGURES, *parts)
    except Exception as error:  # a figure that cannot be drawn must not cost the results
        log.warning("A figure could not be drawn: %s", error)
    results[INTERRUPTED] = loop.interrupted
    files.write_json(folder / layout.METRICS, results)  # the last file: a folder that has it is complete
    for warning in warnings:
        log.warning(warning)
    return Outcome(results, results[INTERRUPTED], validation_nll(target, posterior, dataset))


def make_detector(run: Run, target: Target, dataset: Dataset) -> Detector | None:
    """What scores inputs, where an operator is applied to them."""
    operator = target.operator
    if operator is None or operator.output not in dataset or dataset[operator.output].test.inputs is None:
        return None
    transforms = target.transforms
    prior = make_prior(run.detection, run.problem, transforms[operator.input])
    return Detector(run.detection, run.problem, transforms[operator.input], transforms.get(operator.output), prior)


def detect(
    detector: Detector,
    target: Target,
    posterior: Posterior,
    dataset: Dataset,
    predictives: Mapping[str, Predictive],
    folder: Path,
) -> dict[str, dict[str, float]]:
    """Score the test functions, with thresholds from those held out for calibration; leaves the scores in a file."""
    assert target.operator is not None
    name = target.operator.output
    data, test = dataset[name], predictives[name]
    assert data.test.inputs is not None
    held = data.calibration
    if held.inputs is not None and len(held):
        seen = predict(target, posterior, name, held.x, held.is_clean_output, held.inputs)
        detector.learn(detector.scores(held.inputs, held.x, seen.mean, seen.epistemic_std))
    else:
        log.warning("Without functions held out for calibration, none can be flagged as unlike those of training.")
    scores = detector.scores(data.test.inputs, data.test.x, test.mean, test.epistemic_std)
    errors = np.linalg.norm(test.mean - data.reference, axis=0) / np.linalg.norm(data.reference, axis=0)
    columns = {split: np.asarray(mask.any(0)) for split, mask in data.splits.items()}
    values = detector.problem.split_values
    arrays = {f"score_{key}": item for key, item in {**scores, "rl2e": errors}.items()}
    arrays |= {f"split_{split}": mask for split, mask in columns.items()}
    arrays |= {f"value_{split}": np.array(value) for split, value in values.items()}
    arrays |= {f"threshold_{key}": np.array(value) for key, value in detector.thresholds.items()}
    files.write_npz(folder / layout.DETECTION, {**arrays, "label": np.array(detector.problem.split_label)})
    return summarise(detector, scores, errors, columns)


def compare(target: Target, dataset: Dataset, predictives: Mapping[str, Predictive]) -> dict[str, dict[str, float]]:
    """What simple methods and single members would have given."""
    assert target.operator is not None
    name = target.operator.output
    transforms = target.transforms
    return baselines(dataset[name], transforms[target.operator.input], predictives[name], transforms.get(name))


def validation_nll(target: Target, posterior: Posterior, dataset: Dataset) -> float | None:
    """Mean negative log-likelihood of the validation readings, over quantities; None without any."""
    held = {name: data.validation for name, data in dataset.items() if len(data.validation)}
    found = {
        name: predict(target, posterior, name, part.x, part.is_clean_output, part.inputs) for name, part in held.items()
    }
    scores = [metrics.nll(item.mean, item.std, held[name].y) for name, item in found.items()]
    return float(np.mean(scores)) if scores else None


def result_of(target: Target, posterior: Posterior, name: str, data: QuantityData, test: Predictive) -> Result:
    """The predictions of one quantity at all points where something is known of it."""
    if data.train.inputs is not None:
        data = replace(data, train=data.train.columns(slice(N_SHOWN)))  # a thousand functions more tell no more
    train, held_out = (
        predict(target, posterior, name, part.x, part.is_clean_output, part.inputs)
        if len(part) or data.test.inputs is None
        else NOWHERE
        for part in (data.train, data.calibration)
    )
    sensors = None if target.operator is None else target.transforms[target.operator.input].x
    return collect(data, test, train, held_out, target.transforms.get(name), sensors)


def statistic_results(
    target: Target, posterior: Posterior, dataset: Dataset, fields: Iterable[str]
) -> dict[str, Result]:
    """Statistics of random fields over the unseen realisations, each a quantity of its own."""
    sensed = {name: data.sensed.y for name, data in dataset.items() if data.sensed is not None}
    found = {}
    for name in fields if sensed else ():
        data = dataset[name]
        reference = statistics(torch.tensor(data.reference)[None])
        for kind, predictive in predict_statistics(target, posterior, name, data.test.x, sensed).items():
            own = statistic_data(name, data, reference[kind][0].numpy())
            found[f"{name}_{kind}"] = collect(own, predictive, NOWHERE, NOWHERE)
    return found


def statistic_data(name: str, data: QuantityData, reference: Array) -> QuantityData:
    """A statistic as a quantity: a function of the same points as its field, or numbers in a row."""
    is_function = len(reference) == len(data.test.x)
    x = data.test.x if is_function else np.arange(1.0, len(reference) + 1)[:, None]
    nothing = Readings(np.empty((0, x.shape[1])), np.empty((0, 1)))
    return QuantityData(
        train=nothing,
        test=Readings(x, reference),
        reference=reference,
        splits=data.splits if is_function else {"id": np.ones(len(x), dtype=bool)},
        calibration=nothing,
        validation=nothing,
        coordinates=data.coordinates if is_function else ("number",),
        clean_rl2e=True,
        statistic_of=name,
    )


def calibrated(
    name: str, result: Result, settings: CalibrationSettings, calibrators: Mapping[str, Calibrator], seed: int
) -> Result:
    """Fit calibrators; the readings that they see are drawn once per seed, so that fewer are a part of more.

    Raises ``ValueError`` with a sentence where that cannot be.
    """
    held = result.train if settings.data == "train" else result.calibration
    z, unit = held.residuals, "functions" if held.random else "readings"
    if not calibrators or not len(z):
        return result.calibrate({}, z)  # a quantity without readings stays as it is
    used = settings.n or len(z)
    if used > len(z):
        raise ValueError(f"calibration.n={used} is more than the {len(z)} {unit} of {name} that there are.")
    if "conformal" in calibrators and used < points_needed(LEVEL):
        log.warning("From %d %s, conformal intervals carry no guarantee at 95 %%: that takes 19.", used, unit)
    order = stream(seed, "calibration").permutation(len(z))
    return result.calibrate(calibrators, z[order[:used]])


def add_gold(splits: dict[str, dict[str, float]], result: Result, mean: Array, std: Array) -> None:
    """Compare the uncalibrated predictions with those of a gold standard."""
    for split, mask in result.known_splits.items():
        if split in splits:
            splits[split]["nip_g"] = metrics.nip_g(std[mask], result.std[mask])
            splits[split]["kl_g"] = metrics.kl_g(mean[mask], std[mask], result.mean[mask], result.std[mask])


def share_threads(target: Target, threads: int | None) -> None:
    """Threads inside the kernels of large targets; those of small ones are too short to share, but not their chains."""
    available = threads or ALL_THREADS
    small = target.size * target.n_readings < 2_000_000
    if threads is not None:
        threadpool_limits(threads)  # of numpy and scipy: jobs side by side must not fight
    torch.set_num_threads(1 if small else available)  # the last word: the limit above counts for torch too
    workers.set(available if small else 1)


def judge(
    target: Target, posterior: Posterior, predictives: Mapping[str, Predictive]
) -> tuple[dict[str, float], list[str]]:
    """Diagnostics of the method and of its chains, with what to say about them.

    Learned scales and unknown numbers count by themselves: chains that agree on all predictions may still be on their
    way with a scale.
    """
    found = dict(posterior.diagnostics)
    if posterior.n_chains:
        parts = [convergence(item.members, posterior.n_chains) for item in predictives.values()]
        if all(parts):
            found["rhat_max"] = max(part["rhat_max"] for part in parts)
            found["ess_min"] = min(part["ess_min"] for part in parts)
        settled = convergence(target.numbers(posterior.theta)[..., None].cpu().numpy(), posterior.n_chains)
        if settled:
            found["rhat_numbers"] = settled["rhat_max"]
    return found, posterior.warnings + (convergence_warnings(found) if posterior.n_chains else [])


def learned_noise(target: Target, posterior: Posterior) -> dict[str, dict[str, float]]:
    """Posterior mean and spread of every learned scale."""
    noise = posterior.evaluate_scale(lambda theta: target.log_noise_scales(theta).exp())
    scales = dict(zip(target.noise_groups, noise.unbind(1), strict=True))
    if target.learns_prior:
        scales["prior"] = posterior.evaluate_scale(target.prior_scale)
    return {name: {"mean": s.mean().item(), "std": s.std(correction=0).item()} for name, s in scales.items()}


def learned_parameters(
    target: Target, posterior: Posterior, parameters: Mapping[str, Parameter]
) -> dict[str, dict[str, float]]:
    """Posterior mean, spread and 95 % credible interval of every unknown number, beside the truth where known."""
    found = {}
    for name, item in parameter_draws(target, posterior).items():
        draws = item.cpu()  # before double precision, which not every device has
        lower, median, upper = torch.quantile(draws.double(), torch.tensor([0.025, 0.5, 0.975], dtype=torch.float64))
        found[name] = {
            "mean": draws.mean().item(),
            "std": draws.std(correction=0).item(),
            "median": median.item(),
            "lower": lower.item(),
            "upper": upper.item(),
        }
        truth = parameters[name].reference
        if truth is not None:
            found[name] |= {"reference": truth, "covered": float(lower <= truth <= upper)}
    return found


def peak_memory() -> float:
    """Largest resident memory of this process so far, in MB."""
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
