"""``metrics.json``: what it holds beside the metrics of quantities, and how it is read back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sciuq_runner import files, layout

DEFAULT_MODEL = "bnn"  # goes without saying in titles and names

STOPPED_EARLY = "interrupted"
"""The key that says whether the run was stopped early: its results are not those of all steps."""

CHANGED_TERMS = "changed_terms"
"""The key of the settings of the problem that have other values for this method or model than for others."""

NOT_QUANTITIES = (
    *("noise", "parameters", "diagnostics", "pretraining", "baselines", "detection", "cost", "config"),
    "calibration_size",
    STOPPED_EARLY,
    CHANGED_TERMS,
)
"""What the file holds beside the quantities."""


def read_metrics(folder: Path) -> dict[str, Any]:
    """The metrics of a finished run, with all of its settings that calibration and figures need."""
    path = folder / layout.METRICS
    known = files.read_json(path)
    files.require(known, {"config": dict}, path)
    files.require(known["config"], {"seed": int, **dict.fromkeys(("calibration", "choices", "problem"), dict)}, path)
    files.require(known["config"]["choices"], {"problem": str, "method": str}, path)
    return known


def title_of(metrics: Mapping[str, Any]) -> str:
    """The title of a run's figures."""
    config = metrics["config"]
    names = config["choices"]
    case, model = config["problem"].get("case"), names.get("model", DEFAULT_MODEL)
    problem = f"{names['problem']} ({case})" if case else names["problem"]
    return ", ".join([problem, *([] if model == DEFAULT_MODEL else [model]), names["method"]])
