"""What the person at the terminal sees."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from sciuq_runner.config.environment import beside_others
from sciuq_runner.evaluation.metrics import KNOWN_METRICS
from sciuq_runner.evaluation.metrics_file import NOT_QUANTITIES
from sciuq_runner.training.loop import BarDisplay, Display, LogDisplay

SCORES = ("rise", "auroc", "flagged")  # what is printed of scores
VALUE = "value_"  # begins the names of numbers of splits in the file of scores


class ConsoleHandler(logging.StreamHandler[TextIO]):
    """Log lines on standard output; warnings say so."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return f"{record.levelname.capitalize()}: {text}" if record.levelno >= logging.WARNING else text


def make_display() -> Display:
    """A bar on a terminal, plain lines otherwise, and where several jobs share the terminal."""
    return BarDisplay() if sys.stdout.isatty() and not beside_others() else LogDisplay()


def print_summary(metrics: Mapping[str, Any], folder: Path, ui_command: str | None) -> None:
    """The headline metrics, where everything is, and how to look at it."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    table = Table(title="Metrics", title_justify="left")
    table.add_column("quantity")
    table.add_column("split", no_wrap=True)
    rows = {
        (quantity, split): values
        for quantity, splits in metrics.items()
        if quantity not in NOT_QUANTITIES
        for split, values in splits.items()
    }
    found = dict.fromkeys(name for values in rows.values() for name in values)
    names = {name: heading for name in found if (heading := _heading(name)) is not None}
    for heading in names.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for (quantity, split), values in rows.items():
        table.add_row(quantity, split, *[_number(values.get(name)) for name in names])
    if rows:
        console.print(table)
    else:
        print("There are no metrics: the problem names no truth to compare with (problem.exact or problem.test).")
    if splits := _splits(folder):
        print(splits)
    if metrics["diagnostics"]:
        print("diagnostics: " + ", ".join(f"{key} {_number(value)}" for key, value in metrics["diagnostics"].items()))
    for name, values in metrics["noise"].items():
        print(f"learned scale of {name}: {_number(values['mean'])} ± {_number(values['std'])}")
    for name, values in metrics["parameters"].items():
        interval = f"95 % between {_number(values['lower'])} and {_number(values['upper'])}"
        truth = f", truth {_number(values['reference'])}" if "reference" in values else ""
        print(f"{name}: {_number(values['mean'])} ± {_number(values['std'])}, {interval}{truth}")
    for split, values in metrics.get("baselines", {}).items():
        print(f"rl2e of simpler methods, {split}: " + ", ".join(f"{key} {_number(v)}" for key, v in values.items()))
    for name, values in metrics.get("detection", {}).items():
        told = [f"{key.replace('_', ' ')} {_number(v)}" for key, v in values.items() if key.startswith(SCORES)]
        if told and name != "rl2e":
            print(f"out-of-distribution score {name}: " + ", ".join(told))
    print(f"results: {folder}")
    if ui_command:
        print(f"compare runs: {ui_command}")


def _splits(folder: Path) -> str:
    """The numbers that tell the splits of test functions apart, where there are any."""
    from sciuq_runner.predict.out_of_distribution import (
        read_detection,
    )  # brings torch, which other commands need not wait for

    known = read_detection(folder)
    found = [f"{key.removeprefix(VALUE)} {_number(float(v))}" for key, v in known.items() if key.startswith(VALUE)]
    return f"splits by {known['label']}: {', '.join(found)}" if found else ""


def _heading(name: str) -> str | None:
    """The heading of a metric; None for one that is not shown."""
    return KNOWN_METRICS[name].heading if name in KNOWN_METRICS else name


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
