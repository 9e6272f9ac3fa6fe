"""What the comparison with the paper says of its numbers, the same as HTML and as Markdown."""

from __future__ import annotations

from sciuq_runner.reproduction.evidence import Comparison
from sciuq_runner.reproduction.paper_statements import FindingOutcome
from sciuq_runner.reproduction.paper_tables import PaperTable

TITLE = "The paper, reproduced"


def commands(table: PaperTable) -> list[str]:
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


def evidence_of(item: FindingOutcome) -> str:
    """The numbers that an answer rests on."""
    return ", ".join(f"{name} {value:.3g}" for name, value in item.numbers.items())
