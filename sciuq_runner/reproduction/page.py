"""The comparison with the paper as one HTML page that needs nothing but itself, and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from sciuq_runner.report.markup import Html, join, tag
from sciuq_runner.report.page import data_uri, document, grid, head, lines, plain
from sciuq_runner.report.style import STYLE
from sciuq_runner.reproduction.cells import Table
from sciuq_runner.reproduction.comparison import READING, Paper
from sciuq_runner.reproduction.evidence import VERDICTS, Comparison, Tally
from sciuq_runner.reproduction.statements import Outcome

TITLE = "The paper, reproduced"
VERDICT_STYLE = """
.better, .confirmed { color: #12813f; } .worse, .not-confirmed { color: #c22f2f; font-weight: 700; }
.not-run, .not-enough-runs, .setting { color: var(--soft); }
@media (prefers-color-scheme: dark) {
  .better, .confirmed { color: #56c98a; } .worse, .not-confirmed { color: #ff8a80; }
}
td.text { white-space: normal; min-width: 22rem; }
"""
ALIGNED = "lrrrl"


def commands(table: Table) -> list[str]:
    """The commands that make the runs of a table."""
    return [f"sciuq-run -m experiment=paper/{name}" for name in dict.fromkeys(cell.preset for cell in table.cells)]


def number(value: float, like: float) -> str:
    """Ours with one digit more than the paper prints, at most three behind the point."""
    printed = f"{like:g}".partition(".")[2]
    return f"{value:.{min(len(printed) + 1, 3)}f}"


def ours(item: Comparison) -> str:
    """Mean and standard deviation over seeds, in the units of the paper."""
    if not item.values:
        return ""
    spread = f" ± {number(item.std, item.cell.printed)}" if item.std is not None else ""
    return number(item.mean, item.cell.printed) + spread


def evidence_of(item: Outcome) -> str:
    """The numbers that an answer rests on."""
    return ", ".join(f"{name} {value:.3g}" for name, value in item.numbers.items())


# HTML


def html(paper: Paper) -> str:
    """The whole page."""
    links = [tag("a", table.title, href=f"#{name}") for name, table in paper.tables.items()]
    return document(
        TITLE,
        STYLE + VERDICT_STYLE,
        tag("p", paper.origin(), class_="soft"),
        *[tag("p", tag("strong", sentence)) for sentence in paper.summary()],
        tag("p", READING),
        tag("nav", tag("a", "Findings", href="#findings"), *links),
        summary_html(paper),
        *[image(name, caption, png) for name, (caption, png) in paper.figures.items()],
        findings_html(paper),
        *[table_html(table, paper) for table in paper.tables.values()],
    )


def image(name: str, caption: str, png: bytes) -> Html:
    """A figure in the page."""
    return tag("figure", tag("img", src=data_uri(png), alt=name, style="max-width: 54rem"), tag("figcaption", caption))


def verdict_cell(text: str) -> Html:
    return tag("td", text, class_=text.replace(" ", "-"))


def summary_html(paper: Paper) -> Html:
    """One row for every table."""
    heads = [head("table"), *[head(name, number=True) for name in ("cells", *VERDICTS)]]
    rows = []
    for name, found in paper.comparisons.items():
        tally = Tally.of(found)
        counts = [str(tally.total), *[str(tally.counts.get(verdict, 0)) for verdict in VERDICTS]]
        link = tag("td", tag("a", paper.tables[name].title, href=f"#{name}"))
        rows.append([link, *[tag("td", text, class_="number") for text in counts]])
    return join(tag("h2", "Summary"), grid(heads, rows))


def findings_html(paper: Paper) -> Html:
    """Every statement with its answer."""
    heads = [head(name) for name in ("statement", "where", "answer", "numbers", "explanation")]
    rows = [
        [
            tag("td", item.finding.statement, class_="text"),
            tag("td", item.finding.source),
            verdict_cell(item.answer),
            tag("td", evidence_of(item), class_="text"),
            tag("td", formatted(paper.explanation(item)), class_="text"),
        ]
        for item in paper.outcomes
    ]
    return tag("section", tag("h2", "Findings"), grid(heads, rows), id="findings")


def table_html(table: Table, paper: Paper) -> Html:
    """The cells of a table, what was found out about them, and a figure of every job."""
    found = paper.comparisons[table.name]
    heads = [head("cell"), *[head(name, number=True) for name in ("paper", "ours", "seeds")], head("verdict")]
    rows = [
        [
            tag("td", " ".join(item.cell.keys)),
            tag("td", f"{item.cell.printed:g}", class_="number"),
            tag("td", ours(item), class_="number", data_value=repr(item.mean) if item.values else ""),
            tag("td", str(len(item.values)), class_="number"),
            verdict_cell(item.verdict),
            tag("td", tag("code", item.cell.metric)),
        ]
        for item in found
    ]
    pictures = [
        tag("figure", tag("img", src=data_uri(png), alt=name), tag("figcaption", name))
        for name, png in paper.pictures[table.name].items()
    ]
    return tag(
        "section",
        tag("h2", table.title),
        tag("p", f"{table.source}: {table.remark}.", class_="soft"),
        tag("p", *[join(tag("code", command), " ") for command in commands(table)]),
        tag("p", tag("strong", f"{Tally.of(found)}.")),
        *[tag("p", formatted(part)) for part in paper.explanations.get(table.name, "").split("\n\n") if part],
        grid([*heads, head("metric")], rows),
        tag("div", *pictures, class_="figures") if pictures else "",
        id=table.name,
    )


def formatted(text: str) -> Html:
    """A paragraph of an explanation: escaped, with code between backticks."""
    return Html(re.sub("`([^`]+)`", r"<code>\1</code>", escape(text)))


# Markdown


def markdown(paper: Paper, folder: str) -> str:
    """The same without pictures of runs; figures are files in ``folder``."""
    parts = [f"# {TITLE}", paper.origin(), *[f"**{sentence}**" for sentence in paper.summary()], READING, "## Summary"]
    rows = []
    for name, found in paper.comparisons.items():
        tally = Tally.of(found)
        counts = [str(tally.counts.get(verdict, 0)) for verdict in VERDICTS]
        rows.append([paper.tables[name].title, str(tally.total), *counts])
    parts.append(lines(["table", "cells", *VERDICTS], rows, "l" + "r" * 5))
    parts += [f"![{caption}]({folder}/{name}.png)" for name, (caption, _) in paper.figures.items()]
    parts += ["## Findings", lines(["statement", "where", "answer", "numbers"], findings_rows(paper.outcomes), "llll")]
    explained = [(item.finding.statement, paper.explanation(item)) for item in paper.outcomes]
    parts += [f"*{statement}* {why}" for statement, why in explained if why]
    for table in paper.tables.values():
        found = paper.comparisons[table.name]
        parts += [f"## {table.title}", f"{table.source}: {table.remark}."]
        parts += [", ".join(f"`{command}`" for command in commands(table)), f"**{Tally.of(found)}.**"]
        parts += [paper.explanations[table.name]] if table.name in paper.explanations else []
        parts.append(lines(["cell", "paper", "ours", "seeds", "verdict"], table_rows(found), ALIGNED))
    return "\n\n".join(parts) + "\n"


def findings_rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
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
