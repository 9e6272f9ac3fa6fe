"""Densities before and after learning: parameters, learned scales, and probed values (Sections 6.1.2 and 6.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sciuq_runner.evaluation.inference import Inference
from sciuq_runner.evaluation.plots.registry import Draw, Drawing, figure_kind
from sciuq_runner.evaluation.plots.style import DATA, EXACT, MEAN, canvas
from sciuq_runner.evaluation.prior_posterior import before_and_after
from sciuq_runner.physics.problem import Array
from sciuq_runner.seeds import stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DISTRIBUTIONS = "distributions.npz"

Panels = Mapping[str, Mapping[str, Array]]
"""Samples of distributions before and after learning, by panel and label."""


def panel_arrays(inference: Inference) -> dict[str, Array]:
    """Samples for all panels, as ``panel/label``."""
    rng = stream(inference.seed, "figures")
    panels = before_and_after(inference.target, inference.posterior, rng, inference.problem.probes)
    flat = {f"{panel}/{label}": part for panel, parts in panels.items() for label, part in parts.items()}
    return {name: part.astype(np.float32) for name, part in flat.items()}


def panels_of(arrays: Mapping[str, Array]) -> Panels:
    """The samples that :func:`panel_arrays` gave, panel by panel."""
    panels: dict[str, dict[str, Array]] = {}
    for name, part in arrays.items():
        panel, _, label = name.rpartition("/")
        panels.setdefault(panel, {})[label] = part
    return panels


@figure_kind(file=DISTRIBUTIONS, arrays=panel_arrays)
def distributions(drawing: Drawing) -> Iterator[tuple[str, Draw]]:
    """One figure, where anything beside the fields was learned."""
    if panels := panels_of(drawing.arrays(DISTRIBUTIONS)):
        yield "distributions", partial(draw_distributions, panels, drawing.title)


def draw_distributions(panels: Panels, title: str) -> Figure:
    """Densities of samples, one panel per quantity: what was assumed before, and what was learned."""
    figure = canvas(max(3.0 * len(panels), 3.6), 3.0)
    for axes, (name, samples) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        low, high = visible_range(samples)
        draw_densities(axes, samples, low, high)
        axes.set(xlabel=name, ylim=(0, 1.05), xlim=(low, high))
        axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, 1.28))
    figure.axes[0].set_ylabel("density / peak")
    figure.suptitle(title, fontsize=9)
    return figure


def visible_range(samples: Mapping[str, Array]) -> tuple[float, float]:
    """Where most of all samples are; a prior that is wider by orders of magnitude must not hide what was learned."""
    low, high = np.quantile([np.quantile(values, [0.1, 0.9]) for values in samples.values()], [0, 1])
    centre, width = np.median(after := list(samples.values())[-1]), np.ptp(np.quantile(after, [0.1, 0.9]))
    if width > 1e-6 * abs(centre):
        low, high = max(low, centre - 25 * width), min(high, centre + 25 * width)
    margin = 0.15 * (high - low)
    return low - margin, high + margin


def draw_densities(axes: Any, samples: Mapping[str, Array], low: float, high: float) -> None:
    """Curves scaled to their own peaks: a prior and what is left of it after the data differ by orders of magnitude.

    A scale that the method takes as a number, not a distribution, is a vertical line.
    """
    from scipy.stats import gaussian_kde  # a second to import, and most runs have no such figure

    grid = np.linspace(low, high, 400)
    styles = [(EXACT, "--"), *[(DATA, "-.")] * (len(samples) - 2), (MEAN, "-")]
    for (label, values), (color, style) in zip(samples.items(), styles, strict=True):
        if np.ptp(values) <= 1e-6 * np.abs(values).max():
            axes.axvline(values[0], color=color, ls=style, lw=1.5, label=f"{label} (point estimate)")
            continue
        near = values[(values >= 2 * low - high) & (values <= 2 * high - low)]
        if not len(near) or np.ptp(near) == 0:
            continue  # nothing of it is in sight
        density = gaussian_kde(near)(grid)
        axes.plot(grid, density / density.max(), color=color, ls=style, lw=1.3, label=label)
