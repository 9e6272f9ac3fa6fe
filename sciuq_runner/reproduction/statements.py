"""What the paper states in words, as statements about our runs that can fail: what such a statement is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sciuq_runner import metrics
from sciuq_runner.assembly import build_calibrators
from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.reproduction.evidence import Evidence, NotEnough
from sciuq_runner.results import Result
from sciuq_runner.seeds import stream

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
class Outcome:
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


def outcome(item: Finding, evidence: Evidence) -> Outcome:
    try:
        holds, numbers = item.check(evidence)
    except NotEnough:
        return Outcome(item, "not enough runs", {})
    return Outcome(item, "confirmed" if holds else "not confirmed", numbers)


def by_few(results: Iterable[Result], calibrators: Mapping[str, Calibrator], most: int) -> tuple[float, float]:
    """RMSCE before, and the lowest mean over seeds after calibration with at most so many readings."""
    before, after = [], []
    for result in results:
        sizes, errors = result.rmsce_by_size(calibrators, stream(0, "calibration size"))
        kept = [i for i, n in enumerate(sizes) if n <= most]
        after.append(np.array([values.mean(1)[kept] for values in errors.values()]))
        mask = next(iter(result.known_splits.values()))
        before.append(metrics.rmsce(result.mean[mask], result.std[mask], result.test_y[mask]))
    return float(np.mean(before)), float(np.mean(after, axis=0).min())


def epistemic_coverage(result: Result) -> float:
    """The share of all points at which the 95 % epistemic band holds the clean reference."""
    return metrics.coverage(result.mean, result.epistemic_std, result.reference)


def reduced(
    evidence: Evidence, preset: str, jobs: Iterable[tuple[str, ...]], quantities: tuple[str, ...], factor: float
) -> tuple[bool, Numbers]:
    """Whether calibration with at most ten divides the calibration error by a factor, for some job and quantity."""
    found = {}
    for choices in jobs:
        results = evidence.results(preset, *choices)
        (job,) = [item for key, item in evidence.jobs(preset).items() if key == frozenset(choices)]
        calibrators = build_calibrators(job.config["calibration"]["by"])
        for quantity in quantities:
            before, after = by_few([item[quantity] for item in results], calibrators, 10)
            found[f"{' '.join(text.partition('=')[2] for text in choices)} {quantity}"] = before / after
    return max(found.values()) >= factor, found
