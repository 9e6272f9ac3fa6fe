"""The report as one HTML page that asks nothing of any network."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sciuq_runner.report.cost_chart import Chart, cost_chart
from sciuq_runner.report.figure_sources import data_uri
from sciuq_runner.report.html_templates import ColumnHead, EmbeddedFigure, render
from sciuq_runner.report.recorded_runs import RecordedRun
from sciuq_runner.report.report_texts import HOW_TO_READ, HOW_TO_SORT, header_of, shared, summary, title_of
from sciuq_runner.report.run_tables import MEASURES, Report, Section, SeedStatistics, best, spelled

COMPARED_HEADS = (
    ColumnHead("configuration"),
    ColumnHead("seed", number=True),
    ColumnHead("run"),
    ColumnHead("folder"),
)
LEFT_OUT_HEADS = tuple(map(ColumnHead, ("name", "status", "why", "run", "folder")))


@dataclass(frozen=True)
class ShownNumber:
    """A number as the page shows it: aligned with its column, sorted by ``value``, marked where it is the best."""

    text: str
    value: str
    best: bool


@dataclass(frozen=True)
class ShownRow:
    """A configuration in one table."""

    settings: Sequence[str]
    n_seeds: int
    cells: Sequence[ShownNumber]


@dataclass(frozen=True)
class ShownTable:
    """The table of one quantity and split."""

    name: str
    title: str
    heads: Sequence[ColumnHead]
    rows: Sequence[ShownRow]


@dataclass(frozen=True)
class ShownSection:
    """Tables, cost against accuracy, and figures of one problem and case."""

    title: str
    shared: str
    tables: Sequence[ShownTable]
    notes: Sequence[str]
    chart: Chart | None
    figures: Mapping[str, Sequence[EmbeddedFigure]]


def html(report: Report) -> str:
    """The whole page."""
    return render(
        "report.html",
        title=report.title,
        summary=summary(report),
        how_to_read=HOW_TO_READ,
        how_to_sort=HOW_TO_SORT,
        sections=[shown_section(section) for section in report.sections],
        compared=list(compared(report)),
        compared_heads=COMPARED_HEADS,
        left_out=report.left_out,
        left_out_heads=LEFT_OUT_HEADS,
    )


def shown_section(section: Section) -> ShownSection:
    """A section as the page shows it."""
    tables = [shown_table(section.only(name), name) for name in section.tables]
    return ShownSection(section.title, shared(section), tables, section.notes, cost_chart(section), figures(section))


def shown_table(section: Section, table: str) -> ShownTable:
    """The table of one quantity and split."""
    metrics = section.tables[table]
    heads = [*map(ColumnHead, section.columns), ColumnHead("seeds", number=True)]
    heads += [ColumnHead(header_of(name), meaning_of(name), number=True) for name in metrics]
    columns = [shown_numbers(section.column(f"{table}/{name}"), name) for name in metrics]
    rows = [
        ShownRow([row.settings[name] for name in section.columns], len(row.runs), values)
        for row, *values in zip(section.rows, *columns, strict=True)
    ]
    return ShownTable(table, title_of(table), heads, rows)


def meaning_of(metric: str) -> str:
    """What a metric says, empty for one that is not known."""
    return MEASURES[metric].meaning if metric in MEASURES else ""


def shown_numbers(column: Sequence[SeedStatistics | None], metric: str) -> list[ShownNumber]:
    """The numbers of one metric, aligned, the best marked."""
    bold = best(column, metric)
    return [
        ShownNumber(text, repr(cell.mean) if cell else "", index in bold)
        for index, (cell, text) in enumerate(zip(column, spelled(column), strict=True))
    ]


def figures(section: Section) -> dict[str, list[EmbeddedFigure]]:
    """The figures of the first seed of every row, by their name."""
    groups: dict[str, list[EmbeddedFigure]] = defaultdict(list)
    for row in section.rows:
        for name, png in row.runs[0].figures().items():
            source = data_uri(png)
            if source:
                caption = f"{row.name} (seed {row.runs[0].seed})"
                groups[name].append(EmbeddedFigure(f"{name} of {row.name}", source, caption))
    return dict(sorted(groups.items()))


def compared(report: Report) -> Iterator[tuple[str, RecordedRun]]:
    """Every run of the tables with the name of its configuration."""
    several = len(report.sections) > 1
    for section in report.sections:
        for row in section.rows:
            for run in row.runs:
                yield f"{section.title}: {row.name}" if several else row.name, run
