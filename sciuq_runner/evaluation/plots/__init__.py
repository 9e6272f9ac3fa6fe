"""Figures of a run, as in Section 6 of the paper, drawn from the files of its folder. One kind of figure, one module.

Every module of this package is imported, and registers its kind of figure by :func:`figure_kind`. A kind that needs
arrays beside the results says in its own module which, and how they follow from the samples. Matplotlib is imported
when a figure is drawn, not before.
"""

from __future__ import annotations

import importlib
import pkgutil

from sciuq_runner.evaluation.plots.registry import (
    Drawing,
    data_files,
    draw_all,
    figure_kind,
    figures,
    pick_figure,
    write_data,
)

__all__ = [
    "Drawing",
    "data_files",
    "draw_all",
    "figure_kind",
    "figures",
    "pick_figure",
    "write_data",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
