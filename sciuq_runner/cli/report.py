"""``sciuq-report``: one page that compares runs, from MLflow or from their folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sciuq_runner.cli.common import Parser, conclude
from sciuq_runner.errors import ConfigError
from sciuq_runner.report.report_files import REPORT_PAGE, REPORT_TABLES, write_report
from sciuq_runner.reproduction.paper_files import PAPER_FIGURES, PAPER_PAGE, PAPER_TABLES, write_paper
from sciuq_runner.tracking.experiment import DEFAULT_EXPERIMENT

if TYPE_CHECKING:  # reading and writing are imported when they are needed: --help answers at once
    from sciuq_runner.report.recorded_runs import RecordedRun
    from sciuq_runner.report.run_tables import Report
    from sciuq_runner.reproduction.paper_comparison import Paper


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-report``."""
    conclude("sciuq-report", lambda: run(parse(sys.argv[1:] if argv is None else argv)))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = Parser(
        prog="sciuq-report",
        allow_abbrev=False,
        description="Compare runs: one row per configuration, mean and standard deviation over its seeds. "
        f"Writes {REPORT_PAGE}, a page that needs nothing but itself, and {REPORT_TABLES}.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--experiment", metavar="NAME", help=f"all runs of an experiment ({DEFAULT_EXPERIMENT})")
    which.add_argument("--runs", metavar="RUN", nargs="+", help="run folders, folders of them, or ids of MLflow runs")
    parser.add_argument(
        "--paper",
        action="store_true",
        help=f"compare with the numbers and findings of the paper instead: writes {PAPER_PAGE}, {PAPER_TABLES} and "
        f"{PAPER_FIGURES}/",
    )
    parser.add_argument(
        "--fidelity", choices=("smoke", "quick", "paper"), help="of the runs to compare with the paper (the highest)"
    )
    parser.add_argument(
        "--uri", help="the MLflow store (MLFLOW_TRACKING_URI, or mlflow.db in the current folder)", metavar="URI"
    )
    parser.add_argument(
        "--output", metavar="FOLDER", type=Path, default=Path(), help="where to write (the current folder)"
    )
    options = parser.parse_args(arguments)
    if options.fidelity and not options.paper:
        raise ConfigError("--fidelity chooses runs to compare with the paper: add --paper, or leave it out.")
    return options


def run(options: argparse.Namespace) -> None:
    """Read the runs, and compare them with each other or with the paper."""
    from sciuq_runner.report.recorded_runs import named, of_experiment
    from sciuq_runner.report.run_tables import build, require_rows

    experiment = DEFAULT_EXPERIMENT if options.experiment is None else options.experiment
    found = named(options.runs, options.uri) if options.runs else of_experiment(experiment, options.uri)
    if options.paper:
        beside_the_paper(found, options)
        return
    report = build(found, "Runs in " + ", ".join(options.runs) if options.runs else f"Experiment {experiment}")
    require_rows(report, "--runs" if options.runs else f"--experiment {experiment}")
    written = write_report(report, options.output)
    print_summary(report)
    print_places(written)


def beside_the_paper(found: Sequence[RecordedRun], options: argparse.Namespace) -> None:
    """Compare runs with the paper."""
    from sciuq_runner.reproduction import paper_comparison

    paper = paper_comparison.build(found, options.fidelity)
    written = write_paper(paper, options.output)
    print_paper(paper)
    print_places(written)


def print_places(written: Sequence[Path]) -> None:
    """Where the report is."""
    for path in written:
        print(f"report: {path}")


def print_paper(paper: Paper) -> None:
    """A line for every table and finding, and what they come to."""
    from sciuq_runner.reproduction.evidence import Tally

    for name, found in paper.comparisons.items():
        print(f"{paper.tables[name].title}: {Tally.of(found)}")
    for item in paper.outcomes:
        print(f"{item.answer}: {item.finding.statement}")
    print("\n".join(paper.summary()))


def print_summary(report: Report) -> None:
    """The headline metric of every row, the best in bold."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from sciuq_runner.report.report_texts import counted
    from sciuq_runner.report.run_tables import TRAINING_SECONDS, best, spelled

    table = Table(title=Text(report.title), title_justify="left")
    for name in ("problem", "configuration", "seeds", "metric", "mean ± std", "train_s"):
        table.add_column(name, justify="right" if name in ("seeds", "mean ± std", "train_s") else "left")
    for section in report.sections:
        column, cost = section.column(section.headline), section.column(TRAINING_SECONDS)
        bold = best(column, section.headline)
        for index, (row, value, seconds) in enumerate(zip(section.rows, spelled(column), spelled(cost), strict=True)):
            style = "bold" if index in bold else ""
            cells = (section.title, row.name, str(len(row.runs)), section.headline, value, seconds)
            table.add_row(*[Text(cell, style) for cell in cells], end_section=row is section.rows[-1])
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    if report.left_out:
        print(f"not in the tables: {counted(len(report.left_out), 'run')}, listed at the end of the report")


if __name__ == "__main__":
    main()
