"""The comparison with the paper as one HTML page that needs nothing but itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sciuq_runner.report.figure_sources import data_uri
from sciuq_runner.report.html_templates import ColumnHead, EmbeddedFigure, render
from sciuq_runner.reproduction.evidence import VERDICTS, Comparison, Tally
from sciuq_runner.reproduction.paper_comparison import HOW_TO_READ_PAPER, Paper
from sciuq_runner.reproduction.paper_tables import PaperTable
from sciuq_runner.reproduction.paper_texts import TITLE, commands, evidence_of, ours

SUMMARY_HEADS = (ColumnHead("table"), *[ColumnHead(name, number=True) for name in ("cells", *VERDICTS)])
FINDING_HEADS = tuple(map(ColumnHead, ("statement", "where", "answer", "numbers", "explanation")))
CELL_HEADS = (
    ColumnHead("cell"),
    *[ColumnHead(name, number=True) for name in ("paper", "ours", "seeds")],
    ColumnHead("verdict"),
    ColumnHead("metric"),
)


@dataclass(frozen=True)
class ShownCell:
    """A number of the paper beside ours; ``value`` is what the column sorts by."""

    name: str
    printed: str
    ours: str
    value: str
    n_seeds: int
    verdict: str
    metric: str


@dataclass(frozen=True)
class ShownPaperTable:
    """The cells of a table, what was found out about them, and a figure of every job."""

    name: str
    title: str
    source: str
    commands: Sequence[str]
    tally: Tally
    explanation: Sequence[Sequence[str]]
    cells: Sequence[ShownCell]
    figures: Sequence[EmbeddedFigure]

    @property
    def counts(self) -> list[int]:
        """How many cells there are, and how many of every verdict."""
        return [self.tally.total, *[self.tally.counts.get(verdict, 0) for verdict in VERDICTS]]


@dataclass(frozen=True)
class ShownFinding:
    """A statement of the paper with its answer."""

    statement: str
    source: str
    answer: str
    numbers: str
    explanation: Sequence[str]


def html(paper: Paper) -> str:
    """The whole page."""
    return render(
        "paper.html",
        "sciuq_runner.reproduction",
        title=TITLE,
        origin=paper.origin(),
        summary=paper.summary(),
        how_to_read=HOW_TO_READ_PAPER,
        tables=[shown_table(table, paper) for table in paper.tables.values()],
        summary_heads=SUMMARY_HEADS,
        figures=[EmbeddedFigure(name, data_uri(png), caption) for name, (caption, png) in paper.figures.items()],
        findings=shown_findings(paper),
        finding_heads=FINDING_HEADS,
        cell_heads=CELL_HEADS,
    )


def shown_findings(paper: Paper) -> list[ShownFinding]:
    """Every statement with its answer."""
    return [
        ShownFinding(
            item.finding.statement,
            item.finding.source,
            item.answer,
            evidence_of(item),
            text_and_code(paper.explanation(item)),
        )
        for item in paper.outcomes
    ]


def shown_table(table: PaperTable, paper: Paper) -> ShownPaperTable:
    """A table as the page shows it."""
    found = paper.comparisons[table.name]
    paragraphs = [part for part in paper.explanations.get(table.name, "").split("\n\n") if part]
    return ShownPaperTable(
        table.name,
        table.title,
        f"{table.source}: {table.remark}.",
        commands(table),
        Tally.of(found),
        [text_and_code(part) for part in paragraphs],
        [shown_cell(item) for item in found],
        [EmbeddedFigure(name, data_uri(png), name) for name, png in paper.pictures[table.name].items()],
    )


def shown_cell(item: Comparison) -> ShownCell:
    """A number of the paper beside ours."""
    return ShownCell(
        " ".join(item.cell.keys),
        f"{item.cell.printed:g}",
        ours(item),
        repr(item.mean) if item.values else "",
        len(item.values),
        item.verdict,
        item.cell.metric,
    )


def text_and_code(text: str) -> list[str]:
    """A paragraph of an explanation in parts: text and, in every second one, code that stands between backticks."""
    return re.split("`([^`]+)`", text)
