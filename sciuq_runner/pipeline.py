"""One run, from data to figures. Knows no Hydra and no MLflow; what it computed is in the run folder."""

from __future__ import annotations

import logging
import os
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sciuq_runner import files, metrics
from sciuq_runner.assembly import Run, prepare
from sciuq_runner.diagnostics import convergence, convergence_warnings
from sciuq_runner.emulator import SAMPLES, save_emulator
from sciuq_runner.gold import gold_standard
from sciuq_runner.learned import before_and_after
from sciuq_runner.loop import Loop
from sciuq_runner.methods.base import Posterior
from sciuq_runner.methods.gp import GP
from sciuq_runner.predictive import Predictive, predict
from sciuq_runner.problem import Array, Dataset, QuantityData
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.target import Target

log = logging.getLogger(__name__)

CHECKPOINT = "checkpoint.safetensors"


@dataclass
class Outcome:
    """What a run found."""

    metrics: dict[str, Any]
    interrupted: bool = False

    @property
    def headline(self) -> float | None:
        """The relative error of the first quantity and split: what a search for settings minimises."""
        for value in self.metrics.values():
            for split in value.values():
                return split.get("rl2e")
        return None


def execute(run: Run, folder: Path, loop: Loop, choices: Mapping[str, str] | None = None) -> Outcome:
    """Run the whole pipeline and leave its results in ``folder``."""
    started = time.perf_counter()
    settings = run.settings
    dataset, target = prepare(run)
    torch.set_num_threads(settings.threads or choose_threads(target))
    log.info("%d unknowns, %d readings, on %s.", target.size, target.n_readings, target.device)

    posterior = run.method.run(target, torch_stream(settings.seed, "method"), loop)
    trained = time.perf_counter()
    save_emulator(folder / "model", run.config, posterior)
    files.write_tensors(folder / SAMPLES, *posterior.tensors())

    predictives = {name: predict(target, posterior, name, data.test.x) for name, data in dataset.items()}
    gold = {} if isinstance(run.method, GP) else gold_standard(settings.gold, target, dataset, settings.seed)
    diagnostics, warnings = judge(posterior, predictives)
    cost = {
        "train_s": trained - started,
        "total_s": 0.0,
        "grad_evals": posterior.gradient_evaluations,
        "peak_rss_mb": peak_memory(),
    }
    results: dict[str, Any] = {
        **{name: evaluate(predictives[name], data, gold.get(name)) for name, data in dataset.items()},
        "noise": learned_noise(target, posterior),
        "diagnostics": diagnostics,
        "cost": cost,
        "config": {"choices": dict(choices or {}), **{k: v for k, v in run.config.items() if k != "tracking"}},
    }
    files.write_npz(folder / "predictions.npz", prediction_arrays(target, posterior, dataset, predictives))
    cost["total_s"] = time.perf_counter() - started
    files.write_json(folder / "metrics.json", results)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    try:
        draw(run, folder / "figures", choices or {}, dataset, target, posterior, predictives)
    except Exception as error:  # a figure that cannot be drawn must not cost the results
        log.warning("A figure could not be drawn: %s", error)
    for warning in warnings:
        log.warning(warning)
    return Outcome(results, loop.interrupted)


def draw(
    run: Run,
    folder: Path,
    choices: Mapping[str, str],
    dataset: Dataset,
    target: Target,
    posterior: Posterior,
    predictives: Mapping[str, Predictive],
) -> None:
    """All figures of the run."""
    from sciuq_runner import plots  # matplotlib takes a second to import: not before it is needed

    names = {"problem": type(run.problem).__name__, "method": type(run.method).__name__, **choices}
    case = f" ({run.config['problem']['case']})" if "case" in run.config["problem"] else ""
    title = f"{names['problem']}{case}, {names['method']}"
    plots.draw_all(folder, dataset, predictives, title)
    panels = before_and_after(target, posterior, stream(run.settings.seed, "figures"))
    if panels:
        plots.save(plots.distributions(panels, title), folder / "distributions.png")


def choose_threads(target: Target) -> int:
    """One thread for small targets: their kernels are too short to share, and jobs side by side do not fight."""
    small = target.size * target.n_readings < 2_000_000
    return 1 if small else (os.cpu_count() or 1)


def judge(posterior: Posterior, predictives: Mapping[str, Predictive]) -> tuple[dict[str, float], list[str]]:
    """Diagnostics of the method and of its chains, with what to say about them."""
    found = dict(posterior.diagnostics)
    if posterior.n_chains:
        parts = [convergence(item.members, posterior.n_chains) for item in predictives.values()]
        if all(parts):
            found["rhat_max"] = max(part["rhat_max"] for part in parts)
            found["ess_min"] = min(part["ess_min"] for part in parts)
    return found, posterior.warnings + (convergence_warnings(found) if posterior.n_chains else [])


def evaluate(
    predictive: Predictive, data: QuantityData, gold: tuple[Array, Array] | None
) -> dict[str, dict[str, float]]:
    """Metrics of every split of one quantity."""
    found = {}
    for split, mask in data.splits.items():
        if not mask.any():
            continue
        mean, std = predictive.mean[mask], predictive.std[mask]
        reference = data.reference[mask] if data.clean_rl2e else None
        found[split] = metrics.evaluate(mean, std, data.test.y[mask], reference)
        if gold is not None:
            found[split]["nip_g"] = metrics.nip_g(gold[1][mask], std)
            found[split]["kl_g"] = metrics.kl_g(gold[0][mask], gold[1][mask], mean, std)
    return found


def learned_noise(target: Target, posterior: Posterior) -> dict[str, dict[str, float]]:
    """Posterior mean and spread of every learned scale."""
    noise = posterior.evaluate_scale(lambda theta: target.log_noise_scales(theta).exp())
    scales = dict(zip(target.noise_groups, noise.unbind(1), strict=True))
    if target.learns_prior:
        scales["prior"] = posterior.evaluate_scale(target.prior_scale)
    return {name: {"mean": s.mean().item(), "std": s.std(correction=0).item()} for name, s in scales.items()}


def prediction_arrays(
    target: Target, posterior: Posterior, dataset: Dataset, predictives: Mapping[str, Predictive]
) -> dict[str, Array]:
    """What calibration, figures and other people need, by name."""
    arrays: dict[str, Array] = {}
    for name, data in dataset.items():
        found = predictives[name]
        held_out = predict(target, posterior, name, data.calibration.x) if len(data.calibration) else None
        arrays |= {
            f"{name}_x": data.test.x,
            f"{name}_mean": found.mean,
            f"{name}_aleatoric_std": found.aleatoric_std,
            f"{name}_epistemic_std": found.epistemic_std,
            f"{name}_reference": data.reference,
            f"{name}_test_y": data.test.y,
            f"{name}_train_x": data.train.x,
            f"{name}_train_y": data.train.y,
            f"{name}_calibration_x": data.calibration.x,
            f"{name}_calibration_y": data.calibration.y,
        }
        arrays |= {f"{name}_split_{split}": mask for split, mask in data.splits.items()}
        if held_out is not None:
            arrays[f"{name}_calibration_mean"] = held_out.mean
            arrays[f"{name}_calibration_std"] = held_out.std
    return {key: np.asarray(value) for key, value in arrays.items()}


def peak_memory() -> float:
    """Largest resident memory of this process so far, in MB."""
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
