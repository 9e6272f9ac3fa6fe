"""What a report says in words, the same as HTML and as Markdown."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sciuq_runner.report.run_tables import MEASURES, Report, Section

HOW_TO_READ = (
    "Mean ± standard deviation over seeds. Bold is the best value, and every value whose mean ± standard deviation "
    "overlaps the best one's; ↓ lower is better, ↑ higher is better, and the others have no best."
)
HOW_TO_SORT = " A click on the head of a column sorts by it, a second one reverses the order."
REGIONS = {"id": "in distribution", "ood": "out of distribution"}
ARROWS = {"lower": " ↓", "higher": " ↑", None: ""}


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
    return metric + (ARROWS[MEASURES[metric].better] if metric in MEASURES else "")


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
