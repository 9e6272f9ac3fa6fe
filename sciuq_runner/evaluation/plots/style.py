"""Colours, lines and frames that all figures share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sciuq_runner.evaluation.results import Result
from sciuq_runner.physics.problem import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette: distinguishable with any colour vision, and in print
MEAN, TOTAL, EPISTEMIC, EXACT, DATA = "#0072B2", "#56B4E9", "#0072B2", "#000000", "#D55E00"
COLORS = (MEAN, DATA, "#009E73", "#CC79A7", "#E69F00")
LINE_STYLES = ("-", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
FIGURE_STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
SPLIT_NAMES = {"id": "in distribution", "ood": "out of distribution"}


def canvas(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def lines(start: int = 0) -> Iterator[tuple[Any, Any]]:
    """Colours and line styles, one pair after another, from the one at ``start`` on."""
    return itertools.cycle(zip(COLORS[start:], LINE_STYLES[start:], strict=True))


def padded(values: Array) -> tuple[float, float]:
    """Limits around some values."""
    low, high = float(values.min()), float(values.max())
    margin = 0.3 * (high - low) or 0.5
    return low - margin, high + margin


def frame(found: Result) -> tuple[float, float]:
    """Limits that depend on the problem alone, so that figures of different methods can be laid side by side."""
    known = np.concatenate([found.reference.ravel(), found.train.y.ravel()])
    if not np.isfinite(known).any():
        known = found.mean
    low, high = float(np.nanmin(known)), float(np.nanmax(known))
    if high <= low:
        low, high = low - 0.5, high + 0.5
    return low - 0.6 * (high - low), high + 0.6 * (high - low)
