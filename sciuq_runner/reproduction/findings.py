"""All statements of the paper, judged by our runs."""

from __future__ import annotations

from sciuq_runner.reproduction import findings_function, findings_physics  # noqa: F401 - each registers its own
from sciuq_runner.reproduction.evidence import Evidence
from sciuq_runner.reproduction.paper_statements import FINDINGS, FindingOutcome, outcome


def judge(evidence: Evidence) -> list[FindingOutcome]:
    """The outcome of every statement, in the order of the paper."""
    return [outcome(item, evidence) for item in FINDINGS.values()]
