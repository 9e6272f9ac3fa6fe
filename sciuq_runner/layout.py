"""The files that a run leaves in its folder, every name in one place."""

from __future__ import annotations

METRICS = "metrics.json"  # the last file: a folder that has it is complete
PREDICTIONS = "predictions.npz"
CALIBRATION = "calibration.json"
PRIOR = "prior.npz"
DETECTION = "detection.npz"
SAMPLES = "samples.safetensors"
FIGURES = "figures"
LOG = "run.log"
HYDRA = ".hydra"

MODEL = "model"  # the folder of what predictions at new points need:
MODEL_CONFIG = "config.json"
STATE = "state.safetensors"
THRESHOLDS = "thresholds.json"
INPUT_PRIOR = "inputs.safetensors"

RESUME = "resume.json"  # how the run was started, and how it ended
TRACKING = "tracking.json"  # what MLflow should know of it
CHECKPOINT = "checkpoint.safetensors"
LAST_GOOD = "last_good.safetensors"
LOCK = ".lock"
RECALIBRATING = ".recalibrating"  # is there while a finished run gets another calibration
TRACEBACK = "traceback.txt"


SWEEP = "sweep.json"  # in the folder of a sweep
SWEEP_LOCK = "sweep.lock"

PRETRAINED = "pretrained"  # in the working folder: products of pre-training, shared by runs

ARTIFACTS = (PREDICTIONS, CALIBRATION, PRIOR, DETECTION, SAMPLES, LOG, FIGURES, HYDRA)
"""What MLflow keeps of a run folder, beside the data of figures; then METRICS: where that is, all others are."""
