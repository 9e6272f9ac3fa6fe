"""Calibrated distributions of the scaled residual in ``calibration.json``: plain values, never code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from sciuq_runner import files
from sciuq_runner.errors import ConfigError, first_line, nearest
from sciuq_runner.predict.piecewise import Piecewise
from sciuq_runner.predict.scaled_residual import Normal, Standard

DISTRIBUTION_KINDS: Mapping[str, type[Standard]] = {cls.kind: cls for cls in (Normal, Piecewise)}


def read_standard(values: Mapping[str, Any]) -> Standard:
    """The distribution that :meth:`Standard.to_dict` wrote; nothing in ``values`` is executed."""
    settings = dict(values)
    kind = str(settings.pop("kind", ""))
    if kind not in DISTRIBUTION_KINDS:
        raise ValueError(f"{kind!r} is not a kind of calibrated distribution: {nearest(kind, DISTRIBUTION_KINDS)}")
    cls = DISTRIBUTION_KINDS[kind]
    if set(settings) != {field.name for field in fields(cls)}:  # type: ignore[arg-type]
        raise ValueError(f"A calibrated distribution of kind {kind!r} cannot have the values {sorted(settings)}.")
    return cls(**settings)


def read_calibrations(path: Path) -> dict[str, dict[str, Standard]]:
    """Calibrated distributions of a run; empty where it has none."""
    if not path.is_file():
        return {}
    try:
        return {
            name: {kind: read_standard(values) for kind, values in kinds.items()}
            for name, kinds in files.read_json(path).items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} holds no calibrated distributions ({first_line(error)}).") from error
