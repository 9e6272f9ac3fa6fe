"""What our runs say beside the paper: which runs belong to which job, their numbers, and the verdict on every cell."""

from __future__ import annotations

import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

import yaml

from sciuq_runner import layout
from sciuq_runner.evaluation.result_files import read_results
from sciuq_runner.evaluation.results import Result
from sciuq_runner.report.recorded_runs import RecordedRun
from sciuq_runner.report.run_tables import by_number
from sciuq_runner.reproduction.paper_jobs import FIDELITIES, Job, jobs_of
from sciuq_runner.reproduction.paper_tables import PaperCell, PaperTable
from sciuq_runner.tracking.run_record import FINISHED

T = TypeVar("T")
Verdict = Literal["better", "within 3 std", "worse", "not run", "setting"]
VERDICTS: tuple[Verdict, ...] = ("better", "within 3 std", "worse", "not run")
"""Those that count: a setting of the preset would only be compared with itself."""
COST_TABLE = "cost_seconds"
"""The table that does not count: seconds are of another machine."""


class NotEnough(Exception):
    """There is no run to judge by."""


class Evidence:
    """The finished runs of one fidelity, by job."""

    def __init__(self, runs: Iterable[RecordedRun], fidelity: str) -> None:
        self.fidelity = fidelity
        self.found = [run for run in runs if run.status == FINISHED and run.params.get("fidelity") == fidelity]
        self._jobs: dict[str, dict[frozenset[str], Job]] = {}
        self._runs: dict[tuple[str, frozenset[str]], list[RecordedRun]] = {}
        self._results: dict[int, dict[str, Result]] = {}
        self._read: set[tuple[str, frozenset[str]]] = set()

    def jobs(self, preset: str) -> Mapping[frozenset[str], Job]:
        """The jobs of a preset by their choices."""
        if preset not in self._jobs:
            self._jobs[preset] = {frozenset(job.choices): job for job in jobs_of(preset, self.fidelity)}
        return self._jobs[preset]

    def runs(self, preset: str, *choices: str) -> list[RecordedRun]:
        """The runs of a job in the order of seeds; of several with the same seed the last."""
        key = preset, frozenset(choices)
        self._read.add(key)
        if key not in self._runs:
            job = self.jobs(preset)[key[1]]
            ours = sorted((run for run in self.found if job.made(run.params)), key=lambda run: run.started)
            by_seed = {run.seed: run for run in ours}
            self._runs[key] = [by_seed[seed] for seed in sorted(by_seed, key=by_number)]
        return self._runs[key]

    def on_equal_terms(self, check: Callable[[Evidence], T]) -> T:
        """What ``check`` says of the seeds that all jobs have which it reads: another seed is another draw of the data,
        and jobs can only be compared on the same ones."""
        self._read.clear()
        check(self)
        shared = set.intersection(*({run.seed for run in self._runs[key]} for key in self._read))
        part = copy(self)
        part._runs = {key: [run for run in self._runs[key] if run.seed in shared] for key in self._read}
        return check(part)

    def values(self, preset: str, choices: Iterable[str], metric: str) -> list[float]:
        """A metric, or a setting, of all runs of a job that have it."""
        found = [number(run, metric) for run in self.runs(preset, *choices)]
        return [value for value in found if value is not None]

    def mean(self, preset: str, choices: str | Sequence[str], metric: str) -> float:
        """The mean over seeds; raises ``NotEnough`` without any."""
        values = self.values(preset, [choices] if isinstance(choices, str) else choices, metric)
        if not values:
            raise NotEnough
        return statistics.fmean(values)

    def results(self, preset: str, *choices: str) -> list[dict[str, Result]]:
        """The predictions of the runs of a job; raises ``NotEnough`` if there are none."""
        found = [self.predictions(run) for run in self.runs(preset, *choices)]
        kept = [item for item in found if item]
        if not kept:
            raise NotEnough
        return kept

    def predictions(self, run: RecordedRun) -> dict[str, Result]:
        """The predictions of a run, empty where its files are gone."""
        if id(run) not in self._results:
            self._results[id(run)] = predictions_of(run)
        return self._results[id(run)]

    @property
    def used(self) -> list[RecordedRun]:
        """All runs that anything was read from so far."""
        return list({id(run): run for runs in self._runs.values() for run in runs}.values())


def predictions_of(run: RecordedRun) -> dict[str, Result]:
    """The predictions of a run, empty where its files are gone."""
    files = {name: run.file(name) for name in (layout.PREDICTIONS, layout.CALIBRATION)}
    with tempfile.TemporaryDirectory(prefix="sciuq_") as folder:
        for name, content in files.items():
            if content is not None:
                (Path(folder) / name).write_bytes(content)
        return read_results(Path(folder)) if files[layout.PREDICTIONS] is not None else {}


def number(run: RecordedRun, metric: str) -> float | None:
    """A metric of a run (``u/id/rl2e``) or a setting (``problem.length``; ``problem.test_lengths.1`` of a list)."""
    if "/" in metric:
        return run.metrics.get(metric)
    name, _, index = metric.rpartition(".")
    value = yaml.safe_load(run.params[metric] if metric in run.params else run.params.get(name, "[]"))
    if isinstance(value, list):
        value = value[int(index)] if index.isdigit() and int(index) < len(value) else None
    return None if value is None else float(value)


@dataclass(frozen=True)
class Comparison:
    """A cell and what our runs have in its place, in the units of the paper."""

    cell: PaperCell
    values: tuple[float, ...]

    @cached_property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @cached_property
    def std(self) -> float | None:
        """Over seeds; one seed has none."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def verdict(self) -> Verdict:
        """Better than the paper, else within three standard deviations of it, else worse.

        Without a spread, that is with one seed, nothing is within it.
        """
        if self.cell.is_setting:
            return "setting"
        if not self.values:
            return "not run"
        if gain(self.cell, self.mean) > 0:
            return "better"
        difference = abs(self.mean - self.cell.printed)
        return "within 3 std" if difference <= 3 * (self.std or 0.0) else "worse"


def gain(cell: PaperCell, ours: float) -> float:
    """By how much ours is better than the paper's, in its units; negative where it is worse."""
    if cell.better == "lower":
        return cell.printed - ours
    if cell.better == "higher":
        return ours - cell.printed
    goal = cell.printed if cell.truth is None else cell.truth
    return abs(cell.printed - goal) - abs(ours - goal)


def compare(table: PaperTable, evidence: Evidence) -> list[Comparison]:
    """All cells of a table beside ours."""
    return [
        Comparison(
            cell, tuple(value / cell.unit for value in evidence.values(cell.preset, sorted(cell.choices), cell.metric))
        )
        for cell in table.cells
    ]


@dataclass(frozen=True)
class Tally:
    """How many cells have which verdict; settings are left out."""

    counts: Mapping[str, int]

    @classmethod
    def of(cls, comparisons: Iterable[Comparison]) -> Tally:
        return cls(Counter(item.verdict for item in comparisons if item.verdict != "setting"))

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def run(self) -> int:
        return self.total - self.counts.get("not run", 0)

    @property
    def met(self) -> int:
        """Better or within three standard deviations."""
        return self.counts.get("better", 0) + self.counts.get("within 3 std", 0)

    def __str__(self) -> str:
        listed = ", ".join(f"{self.counts.get(name, 0)} {name}" for name in VERDICTS)
        if not self.run:
            return f"{self.total} cells, {listed}"
        shares = f"{100 * self.met / self.total:.0f} % of all cells, {100 * self.met / self.run:.0f} % of those run"
        return f"{self.total} cells, {listed}: {self.met} are met, {shares}"


def best_fidelity(runs: Iterable[RecordedRun]) -> str | None:
    """The highest fidelity that any finished run has."""
    present = {run.params.get("fidelity") for run in runs if run.status == FINISHED}
    return next((name for name in reversed(FIDELITIES) if name in present), None)
