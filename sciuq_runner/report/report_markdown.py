"""The report as tables in Markdown, for a README or a paper."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from sciuq_runner.report.cost_chart import cost_points
from sciuq_runner.report.report_texts import HOW_TO_READ, header_of, shared, summary, title_of
from sciuq_runner.report.run_tables import Report, Section, best, pareto, spelled


def markdown(report: Report) -> str:
    """The tables, for a README or a paper."""
    parts = [f"# {plain(report.title)}", summary(report), HOW_TO_READ]
    for section in report.sections:
        parts.append(f"## {plain(section.title)}")
        if section.same:
            parts.append(f"The same in all rows: {plain(shared(section))}.")
        for table in section.tables:
            parts += [f"### {plain(title_of(table))}", table_markdown(section.only(table), table)]
        parts += [plain(note) for note in section.notes]
        found = cost_points(section)
        front = pareto([(point.cost, point.error) for point in found])
        if len(found) > 1:
            names = plain("; ".join(found[index].name for index in sorted(front)))
            parts.append(
                f"No other row is both cheaper (train_s) and more accurate ({plain(section.headline)}) than: {names}."
            )
    if report.left_out:
        rows = [[plain(run.name), run.status, run.note, run.run_id or plain(run.folder)] for run in report.left_out]
        parts += ["## Not in the tables", markdown_table(["name", "status", "why", "run"], rows, "llll")]
    return "\n\n".join(parts) + "\n"


def table_markdown(section: Section, table: str) -> str:
    """The table of one quantity and split, the best in bold."""
    metrics, columns = section.tables[table], []
    for name in metrics:
        column = section.column(f"{table}/{name}")
        bold = best(column, name)
        texts = [text.strip() for text in spelled(column)]
        columns.append([f"**{text}**" if index in bold else text for index, text in enumerate(texts)])
    rows = [
        [*[plain(row.settings[name]) for name in section.columns], str(len(row.runs)), *values]
        for row, *values in zip(section.rows, *columns, strict=True)
    ]
    heads = [*map(plain, section.columns), "seeds", *[plain(header_of(name)) for name in metrics]]
    return markdown_table(heads, rows, "l" * len(section.columns) + "r" * (len(metrics) + 1))


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> str:
    """A Markdown table that reads as a table before it is rendered; ``sides`` has l or r for every column."""
    widths = [max(len(row[index]) for row in [heads, *rows]) for index in range(len(heads))]
    rule = ["-" * width if side == "l" else "-" * (width - 1) + ":" for width, side in zip(widths, sides, strict=True)]
    padded = [
        [
            text.rjust(width) if side == "r" else text.ljust(width)
            for text, width, side in zip(row, widths, sides, strict=True)
        ]
        for row in [heads, rule, *rows]
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in padded)


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*|\[\]])", r"\\\1", escape(" ".join(text.split()), quote=False))
