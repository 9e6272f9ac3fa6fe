"""``sciuq-report``: one page that compares runs, from MLflow or from their folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sciuq_runner.cli.common import Parser, conclude
from sciuq_runner.errors import ConfigError

if TYPE_CHECKING:  # reading and writing are imported when they are needed: --help answers at once
    from sciuq_runner.report.recorded_runs import RecordedRun
    from sciuq_runner.report.run_tables import Report
    from sciuq_runner.reproduction.paper_comparison import Paper

PAGE, TABLES = "report.html", "report.md"
PAPER_PAGE, PAPER_TABLES, FIGURES = "paper.html", "paper.md", "figures"
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
        "--paper",
        action="store_true",
        help=f"compare with the numbers and findings of the paper instead: writes {PAPER_PAGE}, {PAPER_TABLES} and "
        f"{FIGURES}/",
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
    """Read the runs, make both pages, and write them when all went well."""
    from sciuq_runner.report import page, runs, tables

    experiment = EXPERIMENT if options.experiment is None else options.experiment
    if options.runs:
        found, title = runs.named(options.runs, options.uri), "Runs in " + ", ".join(options.runs)
    else:
        found, title = runs.of_experiment(experiment, options.uri), f"Experiment {experiment}"
    if options.paper:
        beside_the_paper(found, options)
        return
    report = tables.build(found, title)
    if not report.sections:
        named = "--runs" if options.runs else f"--experiment {experiment}"
        states = ", ".join(sorted({item.status for item in report.left_out})) or "there are none"
        raise ConfigError(f"{named} has no finished run with metrics ({states}): finish one with sciuq-run first.")
    write(options.output, {PAGE: page.html(report), TABLES: page.markdown(report)})
    print_summary(report)
    for name in (PAGE, TABLES):
        print(f"report: {options.output.absolute() / name}")


def beside_the_paper(found: Sequence[RecordedRun], options: argparse.Namespace) -> None:
    """Compare runs with the paper, and write what came of it."""
    from sciuq_runner.reproduction import comparison, page

    paper = comparison.build(found, options.fidelity)
    pages: dict[str, str | bytes] = {PAPER_PAGE: page.html(paper), PAPER_TABLES: page.markdown(paper, FIGURES)}
    pages |= {f"{FIGURES}/{name}.png": png for name, (_, png) in paper.figures.items()}
    write(options.output, pages)
    print_paper(paper)
    for name in (PAPER_PAGE, PAPER_TABLES):
        print(f"report: {options.output.absolute() / name}")


def write(folder: Path, pages: Mapping[str, str | bytes]) -> None:
    """All files or none: each takes its name after those behind it are complete."""
    from sciuq_runner.files import write_atomically

    def write_from(names: Sequence[str]) -> None:
        content = pages[names[0]]
        data = content if isinstance(content, bytes) else content.encode("utf-8", errors="replace")

        def write_these(target: Path) -> None:
            target.write_bytes(data)
            if names[1:]:
                write_from(names[1:])

        write_atomically(folder / names[0], write_these)

    try:
        for path in (folder / name for name in pages):
            if path.is_dir():
                raise IsADirectoryError(0, f"{path.name} is a folder")
        write_from(list(pages))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"--output {folder} cannot be written ({reason}): name a folder that you can write to."
        ) from error


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

    from sciuq_runner.report.report_page import counted
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
