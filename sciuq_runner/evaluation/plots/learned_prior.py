"""What a generator makes beside historical realisations: mean and spread, covariance, values at one point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sciuq_runner import layout
from sciuq_runner.evaluation.plots.registry import Draw, Drawing, figure_kind
from sciuq_runner.evaluation.plots.style import DATA, EXACT, MEAN, canvas
from sciuq_runner.physics.problem import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SET_COLORS = {"history": EXACT, "generated": DATA}


@figure_kind()
def learned_prior(drawing: Drawing) -> Iterator[tuple[str, Draw]]:
    """One figure, where a prior was learned."""
    if arrays := drawing.arrays(layout.PRIOR):
        yield "prior", partial(draw_learned_prior, arrays, drawing.title)


def draw_learned_prior(arrays: Mapping[str, Array], title: str) -> Figure:
    """A row for every field."""
    names = [name.removesuffix("_made") for name in arrays if name.endswith("_made")]
    figure = canvas(7.5, 2.4 * len(names) + 0.3)
    rows = figure.subplots(len(names), 3, squeeze=False)
    for (left, middle, right), name in zip(rows, names, strict=True):
        x, sets = arrays[f"{name}_x"], {"history": arrays[f"{name}_real"], "generated": arrays[f"{name}_made"]}
        if x.shape[1] == 1:
            draw_moments(left, name, x[:, 0], sets)
        else:
            draw_against(left, name, sets)
        left.legend(fontsize=7)
        draw_eigenvalues(middle, sets)
        draw_values(right, name, x, sets)
    figure.suptitle(f"{title}: learned prior", fontsize=9)
    return figure


def draw_moments(axes: Any, name: str, x: Array, sets: Mapping[str, Array]) -> None:
    """Mean and spread along a coordinate."""
    for label, part in sets.items():
        mean, spread = part.mean(1), 2 * part.std(1)
        axes.plot(x, mean, color=SET_COLORS[label], label=label)
        axes.fill_between(x, mean - spread, mean + spread, color=SET_COLORS[label], alpha=0.2, lw=0)
    axes.set(xlabel="place", ylabel=f"{name}: mean ± 2 std")


def draw_against(axes: Any, name: str, sets: Mapping[str, Array]) -> None:
    """Mean and spread of one set against the other: points in several dimensions have no order."""
    real, made = sets["history"], sets["generated"]
    axes.plot(real.mean(1), made.mean(1), ".", color=MEAN, ms=3, label="mean")
    axes.plot(real.std(1), made.std(1), "x", color=DATA, ms=3, label="std")
    axes.axline((0, 0), slope=1, color="0.7", lw=0.8)
    axes.set(xlabel=f"{name}, history", ylabel=f"{name}, generated")


def draw_eigenvalues(axes: Any, sets: Mapping[str, Array]) -> None:
    """Leading eigenvalues of the covariance."""
    for label, part in sets.items():
        found = np.linalg.eigvalsh(np.atleast_2d(np.cov(part)))[::-1][:10]
        axes.semilogy(range(1, len(found) + 1), np.maximum(found, 1e-12), "o-", ms=3, color=SET_COLORS[label])
    axes.set(xlabel="eigenvalue of the covariance", ylim=(1e-6 * max(sets["history"].var(1).sum(), 1e-6), None))


def draw_values(axes: Any, name: str, x: Array, sets: Mapping[str, Array]) -> None:
    """Densities at the point where history varies most."""
    point = int(np.argmax(sets["history"].std(1)))
    for label, part in sets.items():
        axes.hist(part[point], 30, density=True, histtype="step", color=SET_COLORS[label])
    where = ", ".join(f"{value:.2g}" for value in x[point])
    axes.set(xlabel=f"{name} at {where}", ylabel="density")
