"""Explanations, whose numbers are read from runs, from the paper and from what scripts have measured, never typed."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import yaml

from sciuq_runner.errors import ConfigError
from sciuq_runner.reproduction import findings  # noqa: F401 - registers what may be explained
from sciuq_runner.reproduction.evidence import Evidence, NotEnough
from sciuq_runner.reproduction.paper_statements import FINDINGS
from sciuq_runner.reproduction.paper_tables import leaves, tables

EXPLANATIONS, MEASURED = "explanations.yaml", "measured.yaml"
PLACE = re.compile(r"\{(\w+) ([^{}]+)\}")
MISSING = "(no run)"


def shown(value: float) -> str:
    """A number with up to three digits."""
    return f"{value:.3g}"


def listed(values: Sequence[float]) -> str:
    """Numbers in the order of seeds: 0.1, 0.2 and 0.3."""
    *most, last = [shown(value) for value in values]
    return f"{', '.join(most)} and {last}" if most else last


def spanned(values: Sequence[float]) -> str:
    low, high = shown(min(values)), shown(max(values))
    return low if low == high else f"{low} to {high}"


def spread(values: Sequence[float]) -> str:
    if len(values) < 2:
        raise NotEnough
    return shown(statistics.stdev(values))


OVER_SEEDS: Mapping[str, Callable[[Sequence[float]], str]] = {
    "mean": lambda values: shown(statistics.fmean(values)),
    "median": lambda values: shown(statistics.median(values)),
    "range": spanned,
    "each": listed,
    "std": spread,
}


def explanations() -> dict[str, str]:
    """What was found out about tables and findings, by their names: the only words of the page about its numbers that a
    person has written, with places for numbers."""
    found: dict[str, str] = resource(EXPLANATIONS)
    strange = sorted(set(found) - set(tables()) - set(FINDINGS))
    if strange:
        raise ConfigError(f"{EXPLANATIONS} explains {strange[0]}, which is neither a table nor a finding.")
    return {name: value.strip() for name, value in found.items()}


def filled(texts: Mapping[str, str], evidence: Evidence) -> dict[str, str]:
    """All texts with their numbers, see :func:`value_of`."""

    def number(found: re.Match[str]) -> str:
        try:
            return value_of(found[1], found[2].split(), evidence)
        except NotEnough:
            return MISSING

    return {name: PLACE.sub(number, text) for name, text in texts.items()}


def value_of(kind: str, words: Sequence[str], evidence: Evidence) -> str:
    """What a place in an explanation stands for.

    ``{mean PRESET CHOICES METRIC}`` (or ``median``, ``range``, ``each``, ``std``) is over the seeds of a job;
    ``{paper TABLE/KEYS}`` is a number that the paper prints, in our units; ``{measured SCRIPT/KEY}`` what a script has
    kept.
    """
    if kind == "paper":
        return shown(printed()[words[0]])
    if kind == "measured":
        values = [value for name, value in measured().items() if name == words[0] or name.startswith(f"{words[0]}/")]
        if not values:
            raise NotEnough
        return listed(values)
    preset, *choices, metric = words
    values = evidence.values(preset, choices, metric)
    if not values:
        raise NotEnough
    return OVER_SEEDS[kind](values)


@cache
def printed() -> dict[str, float]:
    """The numbers of the paper by name, in our units."""
    return {cell.name: cell.printed * cell.unit for table in tables().values() for cell in table.cells}


@cache
def measured() -> dict[str, float]:
    """What scripts have measured, by the name of the script and of the number."""
    return {"/".join(keys): value for keys, value in leaves(resource(MEASURED))}


def resource(name: str) -> Any:
    """A YAML file beside this one."""
    return yaml.safe_load(resources.files("sciuq_runner.reproduction").joinpath(name).read_text(encoding="utf-8")) or {}
