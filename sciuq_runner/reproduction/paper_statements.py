"""What the paper states in words, as statements about our runs that can fail: what such a statement is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from sciuq_runner.evaluation.calibration_size import CALIBRATION_SIZES
from sciuq_runner.reproduction.evidence import Evidence, NotEnough

Answer = Literal["confirmed", "not confirmed", "not enough runs"]
Numbers = Mapping[str, float]
Check = Callable[[Evidence], tuple[bool, Numbers]]


@dataclass(frozen=True)
class Finding:
    """A statement of the paper, where it is made, and how our runs decide it."""

    name: str
    statement: str
    source: str
    check: Check


@dataclass(frozen=True)
class FindingOutcome:
    """The answer with the numbers that it rests on."""

    finding: Finding
    answer: Answer
    numbers: Numbers


FINDINGS: dict[str, Finding] = {}


def finding(source: str, statement: str) -> Callable[[Check], Check]:
    """Register a function as the check of a statement."""

    def register(check: Check) -> Check:
        name = getattr(check, "__name__", "")
        FINDINGS[name] = Finding(name, statement, source, check)
        return check

    return register


def outcome(item: Finding, evidence: Evidence) -> FindingOutcome:
    try:
        holds, numbers = evidence.on_equal_terms(item.check)
    except NotEnough:
        return FindingOutcome(item, "not enough runs", {})
    return FindingOutcome(item, "confirmed" if holds else "not confirmed", numbers)


def by_few(
    evidence: Evidence, preset: str, choices: Sequence[str], quantity: str, calibrators: Iterable[str], most: int
) -> tuple[float, float]:
    """RMSCE before, and the lowest mean over seeds after calibration with at most so many readings."""
    study, after = f"calibration_size/{quantity}", []
    for metric in (f"{study}/{name}/{n}" for name in calibrators for n in CALIBRATION_SIZES if n <= most):
        with suppress(NotEnough):  # fewer readings may have been held out
            after.append(evidence.mean(preset, choices, metric))
    if not after:
        raise NotEnough
    return evidence.mean(preset, choices, f"{study}/none/0"), min(after)


def reduced(
    evidence: Evidence, preset: str, jobs: Iterable[tuple[str, ...]], quantities: tuple[str, ...], factor: float
) -> tuple[bool, Numbers]:
    """Whether calibration with at most ten divides the calibration error by a factor, for some job and quantity."""
    found = {}
    for choices in jobs:
        calibrators = evidence.jobs(preset)[frozenset(choices)].config["calibration"]["by"]
        for quantity in quantities:
            before, after = by_few(evidence, preset, choices, quantity, calibrators, 10)
            found[f"{' '.join(text.partition('=')[2] for text in choices)} {quantity}"] = before / after
    return max(found.values()) >= factor, found
