"""HTML from the templates of this package and of those above it: whatever a run says is escaped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

PACKAGE = "sciuq_runner.report"


@dataclass(frozen=True)
class ColumnHead:
    """The head of a column, what it means, and whether the column holds numbers."""

    text: str
    meaning: str = ""
    number: bool = False


@dataclass(frozen=True)
class EmbeddedFigure:
    """A picture that is part of the page: ``source`` is its data address."""

    name: str
    source: str
    caption: str


@cache
def environment(*packages: str) -> Environment:
    """The templates in the folders ``templates`` of some packages and, behind them, of this one.

    No template and no filter marks text as safe, so that autoescape covers all that comes from a run.
    """
    found = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters["coordinate"] = coordinate
    return found


def coordinate(value: float) -> str:
    """A position in a drawing, short."""
    return f"{value:.6g}"


def render(template: str, *packages: str, **context: object) -> str:
    """One template filled with ``context``; a name that the template asks for and the context lacks is an error."""
    return environment(*packages).get_template(template).render(**context)
