"""The comparison with the paper as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from sciuq_runner.report.report_markdown import markdown_table, plain
from sciuq_runner.reproduction.evidence import VERDICTS, Comparison, Tally
from sciuq_runner.reproduction.paper_comparison import HOW_TO_READ_PAPER, Paper
from sciuq_runner.reproduction.paper_statements import FindingOutcome
from sciuq_runner.reproduction.paper_texts import TITLE, commands, evidence_of, ours

ALIGNED = "lrrrl"


def markdown(paper: Paper, folder: str) -> str:
    """The same without pictures of runs; figures are files in ``folder``."""
    parts = [
        f"# {TITLE}",
        paper.origin(),
        *[f"**{sentence}**" for sentence in paper.summary()],
        HOW_TO_READ_PAPER,
        "## Summary",
    ]
    rows = []
    for name, found in paper.comparisons.items():
        tally = Tally.of(found)
        counts = [str(tally.counts.get(verdict, 0)) for verdict in VERDICTS]
        rows.append([paper.tables[name].title, str(tally.total), *counts])
    parts.append(markdown_table(["table", "cells", *VERDICTS], rows, "l" + "r" * 5))
    parts += [f"![{caption}]({folder}/{name}.png)" for name, (caption, _) in paper.figures.items()]
    parts += [
        "## Findings",
        markdown_table(["statement", "where", "answer", "numbers"], findings_rows(paper.outcomes), "llll"),
    ]
    explained = [(item.finding.statement, paper.explanation(item)) for item in paper.outcomes]
    parts += [f"*{statement}* {why}" for statement, why in explained if why]
    for table in paper.tables.values():
        found = paper.comparisons[table.name]
        parts += [f"## {table.title}", f"{table.source}: {table.remark}."]
        parts += [", ".join(f"`{command}`" for command in commands(table)), f"**{Tally.of(found)}.**"]
        parts += [paper.explanations[table.name]] if table.name in paper.explanations else []
        parts.append(markdown_table(["cell", "paper", "ours", "seeds", "verdict"], table_rows(found), ALIGNED))
    return "\n\n".join(parts) + "\n"


def findings_rows(outcomes: Sequence[FindingOutcome]) -> list[list[str]]:
    return [
        [plain(item.finding.statement), item.finding.source, item.answer, plain(evidence_of(item))] for item in outcomes
    ]


def table_rows(found: Sequence[Comparison]) -> list[list[str]]:
    return [
        [
            plain(" ".join(item.cell.keys)),
            f"{item.cell.printed:g}",
            ours(item),
            str(len(item.values)),
            f"**{item.verdict}**" if item.verdict == "worse" else item.verdict,
        ]
        for item in found
    ]
