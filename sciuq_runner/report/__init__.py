"""``sciuq-report``: one page that compares runs, from MLflow or from their folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sciuq_runner.commands import Parser, conclude
from sciuq_runner.errors import ConfigError

if TYPE_CHECKING:  # reading and writing are imported when they are needed: --help answers at once
    from sciuq_runner.report.tables import Report

PAGE, TABLES = "report.html", "report.md"
EXPERIMENT = "sciuq"


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-report``."""
    conclude("sciuq-report", lambda: run(parse(sys.argv[1:] if argv is None else argv)))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = Parser(
        prog="sciuq-report",
        allow_abbrev=False,
        description="Compare runs: one row per configuration, mean and standard deviation over its seeds. "
        f"Writes {PAGE}, a page that needs nothing but itself, and {TABLES}.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--experiment", metavar="NAME", help=f"all runs of an experiment ({EXPERIMENT})")
    which.add_argument("--runs", metavar="RUN", nargs="+", help="run folders, folders of them, or ids of MLflow runs")
    parser.add_argument(
        "--uri", help="the MLflow store (MLFLOW_TRACKING_URI, or mlflow.db in the current folder)", metavar="URI"
    )
    parser.add_argument(
        "--output", metavar="FOLDER", type=Path, default=Path(), help="where to write (the current folder)"
    )
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> None:
    """Read the runs, make both pages, and write them when all went well."""
    from sciuq_runner.report import page, runs, tables

    experiment = EXPERIMENT if options.experiment is None else options.experiment
    if options.runs:
        found, title = runs.named(options.runs, options.uri), "Runs in " + ", ".join(options.runs)
    else:
        found, title = runs.of_experiment(experiment, options.uri), f"Experiment {experiment}"
    report = tables.build(found, title)
    if not report.sections:
        named = "--runs" if options.runs else f"--experiment {experiment}"
        states = ", ".join(sorted({item.status for item in report.left_out})) or "there are none"
        raise ConfigError(f"{named} has no finished run with metrics ({states}): finish one with sciuq-run first.")
    write(options.output, page.html(report), page.markdown(report))
    print_summary(report)
    for name in (PAGE, TABLES):
        print(f"report: {options.output.absolute() / name}")


def write(folder: Path, html: str, markdown: str) -> None:
    """Both files or none: the first takes its name after the second is complete."""
    from sciuq_runner.files import write_atomically

    def write_both(target: Path) -> None:
        target.write_text(html, encoding="utf-8", errors="replace")
        write_atomically(folder / TABLES, lambda other: other.write_text(markdown, encoding="utf-8", errors="replace"))

    try:
        for path in (folder / PAGE, folder / TABLES):
            if path.is_dir():
                raise IsADirectoryError(0, f"{path.name} is a folder")
        write_atomically(folder / PAGE, write_both)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"--output {folder} cannot be written ({reason}): name a folder that you can write to."
        ) from error


def print_summary(report: Report) -> None:
    """The headline metric of every row, the best in bold."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from sciuq_runner.report.page import counted
    from sciuq_runner.report.tables import COST, best, spelled

    table = Table(title=Text(report.title), title_justify="left")
    for name in ("problem", "configuration", "seeds", "metric", "mean ± std", "train_s"):
        table.add_column(name, justify="right" if name in ("seeds", "mean ± std", "train_s") else "left")
    for section in report.sections:
        column, cost = section.column(section.headline), section.column(COST)
        bold = best(column, section.headline)
        for index, (row, value, seconds) in enumerate(zip(section.rows, spelled(column), spelled(cost), strict=True)):
            style = "bold" if index in bold else ""
            cells = (section.title, row.name, str(len(row.runs)), section.headline, value, seconds)
            table.add_row(*[Text(cell, style) for cell in cells], end_section=row is section.rows[-1])
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    if report.left_out:
        print(f"not in the tables: {counted(len(report.left_out), 'run')}, listed at the end of the report")
