"""Nested settings and results as MLflow keeps them: parameters and metrics by one name each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sciuq_runner.evaluation.metrics_file import CHANGED_TERMS

MAX_PARAM = 500  # characters


def flatten_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """``{"u": {"id": {"rl2e": 0.2}}}`` as ``{"u/id/rl2e": 0.2}``; only finite numbers."""
    flat: dict[str, float] = {}

    def walk(prefix: str, node: Any) -> None:
        if isinstance(node, Mapping):
            for key, value in node.items():
                walk(f"{prefix}/{key}" if prefix else str(key), value)
        elif isinstance(node, int | float) and not isinstance(node, bool) and abs(node) < float("inf"):
            flat[prefix] = float(node)

    for key, value in metrics.items():
        if key not in ("config", CHANGED_TERMS):
            walk(key, value)
    return flat


def flatten_params(config: Mapping[str, Any], choices: Mapping[str, str]) -> dict[str, Any]:
    """``{"method": {"n_burn": 5}}`` as ``{"method": "hmc", "method.n_burn": 5}``: filterable by choice."""
    flat: dict[str, Any] = dict(choices)

    def walk(prefix: str, node: Any) -> None:
        if isinstance(node, Mapping):
            for key, value in node.items():
                walk(f"{prefix}.{key}" if prefix else str(key), value)
        else:
            flat[prefix] = node

    walk("", config)
    return flat
