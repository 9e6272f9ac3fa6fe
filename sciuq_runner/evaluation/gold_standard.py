"""The gold standard that other methods are measured against: the analogous GP, or a run that is trusted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sciuq_runner import files, layout
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.metrics_file import STOPPED_EARLY
from sciuq_runner.evaluation.result_files import refuse_half_calibrated
from sciuq_runner.evaluation.split_metrics import Gold
from sciuq_runner.methods.gp import GP
from sciuq_runner.physics.problem import Dataset
from sciuq_runner.predict.predictive import predict
from sciuq_runner.seeds import torch_stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop


def gold_standard(choice: str | None, target: Target, dataset: Dataset, seed: int) -> dict[str, Gold]:
    """What ``gold`` names; empty where there is none."""
    if choice is None:
        return {}
    if choice == "auto":
        method = GP(n_samples=1000, n_prior=1000)
        if method.objection(target):
            return {}
        posterior = method.run(target, torch_stream(seed, "gold"), Loop())
        found = {name: predict(target, posterior, name, data.test.x) for name, data in dataset.items()}
        return {name: (item.mean, item.std) for name, item in found.items()}
    return read_run(Path(choice), dataset)


def read_run(folder: Path, dataset: Dataset) -> dict[str, Gold]:
    """The predictions of a finished run, which must be of the same test grid."""
    path = folder / layout.PREDICTIONS
    for name in (layout.PREDICTIONS, layout.METRICS):
        if not (folder / name).is_file():
            raise ConfigError(f"gold={folder} has no {name}: name the folder of a finished run, auto or null.")
    refuse_half_calibrated(folder)
    if files.read_json(folder / layout.METRICS).get(STOPPED_EARLY):
        raise ConfigError(f"gold={folder} was stopped early: go on with sciuq-run resume={folder}, or name another.")
    gold: dict[str, Gold] = {}
    arrays = files.read_npz(path)
    for name, data in dataset.items():
        if f"{name}_x" not in arrays or not np.array_equal(arrays[f"{name}_x"], data.test.x):
            raise ConfigError(f"gold={folder} does not predict {name} on the test grid of this problem.")
        parts = [arrays.get(f"{name}_{part}", np.empty(0)) for part in ("mean", "aleatoric_std", "epistemic_std")]
        if any(part.shape[:1] != data.test.x.shape[:1] or part.dtype.kind != "f" for part in parts):
            raise ConfigError(f"gold={folder} does not predict {name} as runs do: name the folder of a finished run.")
        gold[name] = (parts[0], np.hypot(*parts[1:]))
    return gold
