"""The report as one HTML page that asks nothing of any network, and as tables in Markdown."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from io import BytesIO

from sciuq_runner.report.chart import Point, scatter
from sciuq_runner.report.markup import Html, join, tag
from sciuq_runner.report.runs import Run
from sciuq_runner.report.style import SCRIPT, STYLE
from sciuq_runner.report.tables import COST, METRICS, Cell, Report, Section, best, pareto, spelled

POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)
READING = (
    "Mean ± standard deviation over seeds. Bold is the best value, and every value whose mean ± standard deviation "
    "overlaps the best one's; ↓ lower is better, ↑ higher is better, and the others have no best."
)
SORTING = " A click on the head of a column sorts by it, a second one reverses the order."
REGIONS = {"id": "in distribution", "ood": "out of distribution"}
ARROWS = {"lower": " ↓", "higher": " ↑", None: ""}
LARGE, LONGEST = 60_000, 1000  # bytes and pixels above which a figure is made smaller


# What both pages say


def title_of(table: str) -> str:
    """``u/id``, ``u/cal_id`` or ``u/cal_var_id`` in words."""
    quantity, _, split = table.partition("/")
    known = re.fullmatch("(cal_)?(?:(.+)_)?(id|ood)", split)
    if known is None or (known[2] and not known[1]):
        return f"{quantity}, {split}" if split else quantity.capitalize()
    by = f" by {known[2]}" if known[2] else ""
    return f"{quantity}, {REGIONS[known[3]]}" + (f", calibrated{by}" if known[1] else "")


def header_of(metric: str) -> str:
    """A metric with the direction that is better."""
    return metric + (ARROWS[METRICS[metric].better] if metric in METRICS else "")


def summary(report: Report) -> str:
    """How many runs the report is made of, and from when they are."""
    days = sorted({datetime.fromtimestamp(run.started, UTC).strftime("%Y-%m-%d") for run in report.runs})
    period = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    n_rows = sum(len(section.rows) for section in report.sections)
    parts = [counted(len(report.runs), "run"), counted(n_rows, "configuration"), period]
    if report.left_out:
        parts.append(f"{counted(len(report.left_out), 'run')} not in the tables")
    return " · ".join(parts)


def counted(number: int, word: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def shared(section: Section) -> str:
    """The settings that all rows of a section have in common."""
    return ", ".join(f"{name} {value}" for name, value in section.same.items())


def points(section: Section) -> list[Point]:
    """Cost and error of the rows that have both."""
    if not section.headline.endswith("/rl2e"):
        return []
    pairs = [(row.name, row.cells.get(COST), row.cells.get(section.headline)) for row in section.rows]
    return [
        Point(name, cost.mean, error.mean, error.std) for name, cost, error in pairs if cost and error and cost.mean > 0
    ]


# HTML


def html(report: Report) -> str:
    """The whole page."""
    return document(
        report.title,
        STYLE,
        tag("p", summary(report), class_="soft"),
        tag("p", READING, tag("span", SORTING, class_="screen")),
        contents(report.sections),
        *[section_html(number, section) for number, section in enumerate(report.sections)],
        runs_html(report),
    )


def document(title: str, style: str, *parts: Html) -> str:
    """A page that needs nothing but itself, with its title at the top."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(style)),
    )
    body = tag("body", tag("h1", title), *parts, tag("script", Html(SCRIPT)))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def contents(sections: Sequence[Section]) -> Html:
    """Links to the sections, where there are several."""
    links = [tag("a", section.title, href=f"#section-{number}") for number, section in enumerate(sections)]
    return tag("nav", *links, tag("a", "runs", href="#runs")) if len(links) > 1 else Html()


def section_html(number: int, section: Section) -> Html:
    """Tables, cost against accuracy, and figures of one problem and case."""
    return tag(
        "section",
        tag("h2", section.title),
        tag("p", f"The same in all rows: {shared(section)}.", class_="soft") if section.same else "",
        *[table_html(section.only(table), table) for table in section.tables],
        *[tag("p", note) for note in section.notes],
        chart_html(section),
        *figures_html(section),
        id=f"section-{number}",
    )


def table_html(section: Section, table: str) -> Html:
    """The table of one quantity and split."""
    metrics = section.tables[table]
    heads = [*[head(name) for name in section.columns], head("seeds", number=True)]
    heads += [head(header_of(name), METRICS[name].meaning if name in METRICS else "", number=True) for name in metrics]
    columns = [number_cells(section.column(f"{table}/{name}"), name) for name in metrics]
    rows = [
        [
            *[tag("td", row.settings[name]) for name in section.columns],
            tag("td", str(len(row.runs)), class_="number"),
            *values,
        ]
        for row, *values in zip(section.rows, *columns, strict=True)
    ]
    return join(tag("h3", title_of(table), " ", tag("code", table) if "/" in table else ""), grid(heads, rows))


def head(text: str, meaning: str = "", number: bool = False) -> Html:
    """The head of a column that sorts."""
    button = tag("button", text, type="button", title=meaning or f"sort by {text}")
    return tag("th", button, scope="col", class_="number" if number else "text")


def number_cells(column: Sequence[Cell | None], metric: str) -> list[Html]:
    """The cells of one metric, aligned, the best marked."""
    bold = best(column, metric)
    return [
        tag("td", text, class_="number best" if index in bold else "number", data_value=repr(cell.mean) if cell else "")
        for index, (cell, text) in enumerate(zip(column, spelled(column), strict=True))
    ]


def grid(heads: Iterable[Html], rows: Iterable[Iterable[Html]]) -> Html:
    """A table."""
    body = tag("tbody", *[tag("tr", *cells) for cells in rows])
    return tag("div", tag("table", tag("thead", tag("tr", *heads)), body), class_="wide")


def chart_html(section: Section) -> Html:
    """Cost against accuracy, where there are at least two rows to compare."""
    found = points(section)
    if len(found) < 2:
        return Html()
    return join(
        tag("h3", "Cost against accuracy"),
        tag(
            "p",
            "Filled: no other configuration is both cheaper and more accurate. Bars: ± std over seeds.",
            class_="soft",
        ),
        scatter(found, "seconds of training (train_s)", section.headline),
    )


def figures_html(section: Section) -> list[Html]:
    """The figures of the first seed of every row, side by side under their name."""
    groups: dict[str, list[Html]] = defaultdict(list)
    for row in section.rows:
        for name, png in row.runs[0].figures().items():
            source = data_uri(png)
            if source:
                image = tag("img", src=source, alt=f"{name} of {row.name}")
                caption = tag("figcaption", f"{row.name} (seed {row.runs[0].seed})")
                groups[name].append(tag("figure", image, caption))
    return [join(tag("h3", name), tag("div", *found, class_="figures")) for name, found in sorted(groups.items())]


def data_uri(png: bytes) -> str:
    """A PNG inside an address, made smaller where it is large; empty for what is no PNG."""
    from PIL import Image

    try:
        with Image.open(BytesIO(png), formats=["PNG"]) as image:
            image.load()
            if len(png) > LARGE or max(image.size) > LONGEST:
                image.thumbnail((LONGEST, LONGEST), Image.Resampling.LANCZOS)
                small = BytesIO()
                image.convert("RGB").quantize(128).save(small, "PNG", optimize=True)
                png = min(png, small.getvalue(), key=len)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):  # what Pillow says of broken files
        return ""
    return f"data:image/png;base64,{b64encode(png).decode('ascii')}"


def runs_html(report: Report) -> Html:
    """Where to find every run, and which are not in the tables."""
    several = len(report.sections) > 1
    rows = [
        [
            tag("td", f"{section.title}: {row.name}" if several else row.name),
            tag("td", run.seed, class_="number"),
            *place(run),
        ]
        for section in report.sections
        for row in section.rows
        for run in row.runs
    ]
    heads = [head("configuration"), head("seed", number=True), head("run"), head("folder")]
    parts = [grid(heads, rows)]
    if report.left_out:
        rows = [
            [tag("td", run.name), tag("td", run.status), tag("td", run.note), *place(run)] for run in report.left_out
        ]
        heads = [head(name) for name in ("name", "status", "why", "run", "folder")]
        parts = [tag("h3", "Not in the tables"), grid(heads, rows), tag("h3", "In the tables"), *parts]
    return tag("section", tag("h2", "Runs"), *parts, id="runs")


def place(run: Run) -> list[Html]:
    """Run and folder: a link where a server shows the run."""
    name = tag("code", run.run_id)
    return [
        tag("td", tag("a", name, href=run.link, rel="noreferrer") if run.link else name),
        tag("td", tag("code", run.folder)),
    ]


# Markdown


def markdown(report: Report) -> str:
    """The tables, for a README or a paper."""
    parts = [f"# {plain(report.title)}", summary(report), READING]
    for section in report.sections:
        parts.append(f"## {plain(section.title)}")
        if section.same:
            parts.append(f"The same in all rows: {plain(shared(section))}.")
        for table in section.tables:
            parts += [f"### {plain(title_of(table))}", table_markdown(section.only(table), table)]
        parts += [plain(note) for note in section.notes]
        found = points(section)
        front = pareto([(point.cost, point.error) for point in found])
        if len(found) > 1:
            names = plain("; ".join(found[index].name for index in sorted(front)))
            parts.append(
                f"No other row is both cheaper (train_s) and more accurate ({plain(section.headline)}) than: {names}."
            )
    if report.left_out:
        rows = [[plain(run.name), run.status, run.note, run.run_id or plain(run.folder)] for run in report.left_out]
        parts += ["## Not in the tables", lines(["name", "status", "why", "run"], rows, "llll")]
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
    return lines(heads, rows, "l" * len(section.columns) + "r" * (len(metrics) + 1))


def lines(heads: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> str:
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
