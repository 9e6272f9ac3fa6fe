"""Reference, mean, error and standard deviations over two coordinates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sciuq_runner.evaluation.plots.registry import Draw, Drawing, figure_kind
from sciuq_runner.evaluation.plots.style import EXACT, SPLIT_NAMES, canvas
from sciuq_runner.evaluation.results import Result
from sciuq_runner.evaluation.sections import sections, typical_function
from sciuq_runner.physics.problem import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IN_UNITS_OF_STD = "error / total std"


@figure_kind()
def maps(drawing: Drawing) -> Iterator[tuple[str, Draw]]:
    """Of every field and plane of a field; of an operator the typical function."""
    for name, result in drawing.results.items():
        if result.statistic_of:
            continue
        if result.inputs is not None:
            for split in result.splits if len(result.coordinates) == 2 else ():
                heading = f"{drawing.title}, {SPLIT_NAMES.get(split, split)}"
                yield f"{name}_{split}_maps", partial(draw_maps, name, typical_function(result, split), heading)
            continue
        for suffix, label, plane in sections(result, 2):
            if min(len(np.unique(column)) for column in plane.x.T) > 2:
                yield f"{name}{suffix}_maps", partial(draw_maps, name, plane, f"{drawing.title}{label}")


@dataclass(frozen=True)
class Panel:
    """Values at points, with the colours and limits that they are drawn in."""

    label: str
    x: Array
    values: Array
    limits: Mapping[str, Any]


def draw_maps(name: str, found: Result, title: str) -> Figure:
    """One panel each, in rows of three."""
    panels = [*input_panels(found), *field_panels(found)]
    n_rows = math.ceil(len(panels) / 3)
    figure = canvas(6.8, 2.4 * n_rows)
    grid = figure.subplots(n_rows, 3, squeeze=False).ravel()
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid, panels, strict=False):
        figure.colorbar(paint(axes, panel), ax=axes, shrink=0.9)
        if panel.label == "mean":
            axes.plot(found.train.x[:, 0], found.train.x[:, 1], ".", color="white", ms=4, mec=EXACT, mew=0.4)
        axes.set(xlabel=found.coordinates[0], ylabel=found.coordinates[1])
        axes.set_title(panel.label, fontsize=9)
    figure.suptitle(f"{title}: {name}", fontsize=9)
    return figure


def input_panels(found: Result) -> list[Panel]:
    """The function that an operator was applied to, if it can be drawn over the same coordinates."""
    if found.inputs is None or found.sensors is None or found.sensors.shape[1] != 2:
        return []
    return [Panel("input", found.sensors, found.inputs[0], {"cmap": "viridis"})]


def field_panels(found: Result) -> list[Panel]:
    """Reference and mean, which share their colours, error and deviations, which do too; without a reference, the mean
    and the deviations."""
    error = np.abs(found.mean - found.reference)
    spreads = {"absolute error": error, "epistemic std": found.epistemic_std}
    if np.any(found.aleatoric_std):
        spreads["total std"] = found.std
    lowest = float(np.nanmin([*found.mean, *found.reference]))
    groups: list[tuple[dict[str, Array], str, float]] = [
        ({"reference": found.reference, "mean": found.mean}, "viridis", lowest),
        (spreads, "magma", 0.0),
        ({IN_UNITS_OF_STD: error / found.std}, "cividis", 0.0),
    ]
    panels = []
    for group, colours, low in groups:
        known = {label: part[:, 0] for label, part in group.items() if np.isfinite(part).any()}
        high = max((float(np.nanmax(part)) for part in known.values()), default=1.0)
        limits = {"vmin": low, "vmax": 3.0 if IN_UNITS_OF_STD in known else high, "cmap": colours}
        panels += [Panel(label, found.x, part, limits) for label, part in known.items()]
    return panels


def paint(axes: Any, panel: Panel) -> Any:
    """Colours over a rectangular grid, or dots where the points are none."""
    across, row = np.unique(panel.x[:, 0], return_inverse=True)
    along, column = np.unique(panel.x[:, 1], return_inverse=True)
    if len(across) * len(along) != len(panel.x):
        return axes.scatter(panel.x[:, 0], panel.x[:, 1], c=panel.values, s=8, **panel.limits)
    field = np.full((len(along), len(across)), np.nan)
    field[column, row] = panel.values
    return axes.pcolormesh(across, along, field, shading="gouraud", rasterized=True, **panel.limits)
