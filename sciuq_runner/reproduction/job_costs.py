"""How long a job will take: from runs of it in MLflow, else from measured times that come with the program."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import yaml

from sciuq_runner.report.recorded_runs import RecordedRun
from sciuq_runner.reproduction.paper_jobs import FIDELITIES, Job, jobs_of, presets

START = 12.0
"""Seconds that a process needs beside its run: imports, figures, MLflow."""


@cache
def measured() -> dict[str, dict[str, float]]:
    """Seconds of one run by fidelity and name of the job, with the start of its process."""
    text = resources.files("sciuq_runner.reproduction").joinpath("costs.yaml").read_text(encoding="utf-8")
    found: dict[str, dict[str, float]] = yaml.safe_load(text)["seconds"]
    return found


def spent(job: Job, runs: Sequence[RecordedRun]) -> float | None:
    """Seconds of the runs of a job on average, with the start of its process; None if there is none."""
    found = [run.metrics["cost/total_s"] for run in runs if "cost/total_s" in run.metrics and job.made(run.params)]
    return START + statistics.fmean(found) if found else None


def expected(job: Job, runs: Sequence[RecordedRun]) -> float | None:
    """Seconds of one run of the job, with the start of its process; None where nothing is known."""
    recorded = spent(job, runs)
    if recorded is not None:
        return recorded
    known = {fidelity: measured().get(fidelity, {}).get(job.name) for fidelity in (job.fidelity, *FIDELITIES[::-1])}
    for fidelity, seconds in known.items():
        if seconds is not None:
            return seconds if fidelity == job.fidelity else START + (seconds - START) * scale(job, fidelity)
    return None


def estimates(found: Sequence[Job], runs: Sequence[RecordedRun]) -> list[tuple[float | None, bool]]:
    """Seconds of one run of every job, and whether that is a guess; None where nothing is known of any job."""
    times = [expected(job, runs) for job in found]
    known: list[tuple[Job, float]] = []
    if None in times:  # composing the jobs of all presets takes seconds
        own = dict.fromkeys(job.preset for job in found)
        known = known_of(own, found[0].fidelity, runs) or known_of(presets(), found[0].fidelity, runs)
    return [
        (guess(job, known), True) if seconds is None else (seconds, False)
        for job, seconds in zip(found, times, strict=True)
    ]


def known_of(names: Iterable[str], fidelity: str, runs: Sequence[RecordedRun]) -> list[tuple[Job, float]]:
    """Jobs of these presets of which the time is known, with their seconds."""
    jobs = [item for name in names for item in jobs_of(name, fidelity)]
    return [(item, seconds) for item in jobs if (seconds := expected(item, runs)) is not None]


def guess(job: Job, known: Sequence[tuple[Job, float]]) -> float | None:
    """What a job may take: the median of those most like it of which the time is known, by steps where these are of
    the same kind."""
    for level in LIKENESS:
        alike = [
            START + (seconds - START) * steps(job.config) / steps(other.config)
            if kind_of(other) == kind_of(job)
            else seconds
            for other, seconds in known
            if level(other) == level(job)
        ]
        if alike:
            return statistics.median(alike)
    return None


def problem_of(job: Job) -> str:
    return str(job.config["problem"]["_target_"])


def kind_of(job: Job) -> tuple[str, str]:
    """Method and model."""
    return str(job.config["method"]["_target_"]), str(job.config["model"]["_target_"])


LIKENESS: tuple[Callable[[Job], object], ...] = (
    lambda job: (job.preset, kind_of(job)),
    lambda job: (problem_of(job), kind_of(job)),
    lambda job: job.preset,
    problem_of,
    kind_of,
    lambda job: None,
)
"""What two jobs have in common, the most first."""


def scale(job: Job, fidelity: str) -> float:
    """How many times as much a job computes as the same one at another fidelity, counted in steps."""
    (other,) = [item for item in jobs_of(job.preset, fidelity) if item.choices == job.choices]
    return steps(job.config) / steps(other.config)


def steps(config: Mapping[str, Any]) -> float:
    """Gradients that a run takes one after the other, of its method and of what it trains before; at least one."""
    method = config["method"]
    kept = method.get("thin", 0) * method.get("n_samples", 0) / method.get("n_chains", 1)
    own = (method.get("n_burn", 0) + kept) * method.get("n_leapfrog", 1) + method.get("n_steps", 0)
    return max(1.0, float(own) + sum(map(_trainings, (config["model"], config.get("detection") or {}))))


def _trainings(node: Mapping[str, Any]) -> float:
    """All numbers of steps below a node."""
    parts = [_trainings(value) for value in node.values() if isinstance(value, Mapping)]
    return float(node.get("n_steps", 0)) + sum(parts)


def spoken(seconds: float) -> str:
    """A length of time in words: ``40 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
