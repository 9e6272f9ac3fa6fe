"""From runs to tables: which runs are seeds of one configuration, their mean and spread, and which row is best."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.cost import COSTS
from sciuq_runner.evaluation.metrics import KNOWN_METRICS, Measure
from sciuq_runner.evaluation.metrics_file import CHANGED_TERMS, NOT_QUANTITIES
from sciuq_runner.report.recorded_runs import RecordedRun
from sciuq_runner.tracking.run_record import FINISHED

CONFIGURATION_CHOICES = {  # and the parameters that hold them
    "problem": "problem",
    "case": "problem.case",
    "model": "model",
    "method": "method",
    "calibration": "calibration",
    "fidelity": "fidelity",
}
NOT_COMPARED = {"seed", "threads", "checkpoint_interval", "figures", "trust", "overrides"}
TRAINING_SECONDS = "cost/train_s"
UNFINISHED = {
    "FAILED": "ended with an error",
    "KILLED": "was stopped before its end",
    "RUNNING": "has not ended, or died",
    "UNFINISHED": "left no metrics: it failed, died, or still runs",
    "HALF CALIBRATED": "was left in the middle of a new calibration: run sciuq-calibrate on it again",
}
REPEATED_RUN = "repeated: a later run has the same settings and seed"
Configuration = tuple[dict[str, str], list[RecordedRun]]  # settings, and a run for every seed


MEASURES: Mapping[str, Measure] = {**KNOWN_METRICS, **COSTS}  # in the order of the columns
FIRST_QUANTITIES, FIRST_SPLITS = ("u",), ("id", "t1", "ood", "cal_id", "cal_t1", "cal_ood")  # these first


@dataclass(frozen=True)
class SeedStatistics:
    """Mean and standard deviation over ``count`` of the ``total`` seeds of a row."""

    mean: float
    std: float
    count: int
    total: int

    def overlaps(self, other: SeedStatistics) -> bool:
        """Whether the two intervals mean ± std meet."""
        return abs(self.mean - other.mean) <= self.std + other.std


@dataclass(frozen=True)
class ConfigurationRow:
    """One configuration: its name in the report, its settings, a run per seed, and a cell per metric."""

    name: str
    settings: Mapping[str, str]
    runs: Sequence[RecordedRun]
    cells: Mapping[str, SeedStatistics]

    @property
    def changed_terms(self) -> str:
        """What was changed of the problem for this row, as a sentence; empty where nothing was."""
        return next((run.tags[CHANGED_TERMS] for run in self.runs if run.tags.get(CHANGED_TERMS)), "")


@dataclass(frozen=True)
class Section:
    """The rows of one problem and case: only these can be compared."""

    title: str
    columns: Sequence[str]
    same: Mapping[str, str]
    rows: Sequence[ConfigurationRow]
    tables: Mapping[str, Sequence[str]]

    def column(self, key: str) -> list[SeedStatistics | None]:
        """The cells of a metric such as ``u/id/rl2e``, row by row."""
        return [row.cells.get(key) for row in self.rows]

    def only(self, table: str) -> Section:
        """One table of the section, with the rows that have values in it."""
        rows = [row for row in self.rows if any(f"{table}/{name}" in row.cells for name in self.tables[table])]
        return replace(self, rows=rows, tables={table: self.tables[table]})

    @property
    def notes(self) -> list[str]:
        """A sentence for every row that is not on equal terms with the others."""
        return [f"{row.name}: {row.changed_terms}" for row in self.rows if row.changed_terms]

    @property
    def headline(self) -> str:
        """The error of the first quantity and split; without errors the first metric that there is."""
        keys = [f"{table}/{name}" for table, names in self.tables.items() for name in names]
        return next((key for key in keys if key.endswith("/rl2e")), keys[0])


@dataclass(frozen=True)
class Report:
    """All sections, and the runs that are in none."""

    title: str
    sections: Sequence[Section]
    left_out: Sequence[RecordedRun]

    @property
    def runs(self) -> list[RecordedRun]:
        """The runs in the tables."""
        return [run for section in self.sections for row in section.rows for run in row.runs]


def build(runs: Iterable[RecordedRun], title: str) -> Report:
    """Group runs into configurations, and these by problem and case; of runs with the same seed the last one counts."""
    usable, left_out = sift(runs)
    names = [*CONFIGURATION_CHOICES, *varying(usable)]
    groups: dict[tuple[str, ...], list[RecordedRun]] = defaultdict(list)
    for run in sorted(usable, key=lambda run: run.started):
        groups[tuple(setting(run, name) for name in names)].append(run)
    sections: dict[tuple[str, ...], list[Configuration]] = defaultdict(list)
    for key in sorted(groups, key=lambda key: [by_number(value) for value in key]):
        last = {run.seed: run for run in groups[key]}
        left_out += [replace(run, note=REPEATED_RUN) for run in groups[key] if last[run.seed] is not run]
        seeds = [last[seed] for seed in sorted(last, key=by_number)]
        sections[key[:2]].append((dict(zip(names, key, strict=True)), seeds))
    return Report(title, [section(found) for found in sections.values()], left_out)


def require_rows(report: Report, named: str) -> None:
    """Refuse a report without rows; ``named`` is the option that chose its runs."""
    if not report.sections:
        states = ", ".join(sorted({item.status for item in report.left_out})) or "there are none"
        raise ConfigError(f"{named} has no finished run with metrics ({states}): finish one with sciuq-run first.")


def sift(runs: Iterable[RecordedRun]) -> tuple[list[RecordedRun], list[RecordedRun]]:
    """The runs that can be compared, and the others with the reason why not."""
    usable, left_out = [], []
    for run in runs:
        if run.status != FINISHED:
            left_out.append(replace(run, note=UNFINISHED.get(run.status, "")))
        elif not tables_of([run.metrics]):
            left_out.append(replace(run, note="has no metrics"))
        else:
            usable.append(run)
    return usable, left_out


def section(found: Sequence[Configuration]) -> Section:
    """The section of rows that share problem and case; settings that all share are said once."""
    first = found[0][0]
    differ = {name for name in first if len({settings[name] for settings, _ in found}) > 1}
    columns = [name for name in first if name in differ or name == "method"]
    same = {name: value for name, value in first.items() if name not in (*columns, "problem", "case") and value}
    rows = [ConfigurationRow(row_name(settings, columns), settings, runs, cells(runs)) for settings, runs in found]
    title = ", ".join(filter(None, (first["problem"], first["case"])))
    return Section(title, columns, same, rows, tables_of([run.metrics for _, runs in found for run in runs]))


def setting(run: RecordedRun, name: str) -> str:
    """A choice or parameter of a run, empty where it has none."""
    return run.params.get(CONFIGURATION_CHOICES.get(name, name), "")


def varying(runs: Sequence[RecordedRun]) -> list[str]:
    """Parameters that differ between runs of the same choices: what a choice brings with it is no difference."""
    groups: dict[tuple[str, ...], list[RecordedRun]] = defaultdict(list)
    for run in runs:
        groups[tuple(setting(run, name) for name in CONFIGURATION_CHOICES)].append(run)
    found = {
        name
        for group in groups.values()
        for name in {name for run in group for name in run.params}
        if len({setting(run, name) for run in group}) > 1
    }
    return sorted(name for name in found if name not in NOT_COMPARED and not name.startswith("tracking."))


def row_name(settings: Mapping[str, str], columns: Sequence[str]) -> str:
    """What tells a row from the others in a few words: ``hmc, n_burn=500``."""
    return ", ".join(
        settings[name] if name in CONFIGURATION_CHOICES else f"{name.rpartition('.')[2]}={settings[name]}"
        for name in columns
        if settings[name]
    )


def cells(runs: Sequence[RecordedRun]) -> dict[str, SeedStatistics]:
    """Mean and sample standard deviation of every metric; a single seed has no spread."""
    values: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for key, value in run.metrics.items():
            values[key].append(value)
    return {
        key: SeedStatistics(
            statistics.fmean(found), statistics.stdev(found) if len(found) > 1 else 0.0, len(found), len(runs)
        )
        for key, found in values.items()
    }


def tables_of(metrics: Iterable[Mapping[str, float]]) -> dict[str, list[str]]:
    """The metrics of every quantity and split, as ``{"u/id": ["rl2e", …]}``; the cost comes last."""
    found: dict[str, set[str]] = defaultdict(set)
    cost: set[str] = set()
    for key in {key for part in metrics for key in part}:
        table, _, metric = key.rpartition("/")
        if table == "cost":
            cost.add(metric)
        elif table.count("/") == 1 and table.split("/")[0] not in NOT_QUANTITIES:
            found[table].add(metric)

    def place(table: str) -> list[tuple[int, str]]:
        quantity, split = table.split("/")
        return [position(quantity, FIRST_QUANTITIES), position(split, FIRST_SPLITS)]

    ordered = {table: by_order(found[table]) for table in sorted(found, key=place)}
    return ordered | {"cost": by_order(cost)} if ordered and cost else ordered


def by_order(metrics: Iterable[str]) -> list[str]:
    """Metrics in the order of their columns, unknown ones behind."""
    return sorted(metrics, key=lambda name: position(name, list(MEASURES)))


def position(name: str, order: Sequence[str]) -> tuple[int, str]:
    """A key that sorts by the given order, then by name."""
    return (order.index(name) if name in order else len(order), name)


def by_number(text: str) -> tuple[float, str]:
    """A key that sorts numbers as numbers, and before words."""
    try:
        return (float(text), "")
    except ValueError:
        return (math.inf, text)


def best(column: Sequence[SeedStatistics | None], key: str) -> set[int]:
    """The rows with the best value of a metric and those that overlap it; none where there is nothing to compare."""
    better = MEASURES[name].better if (name := key.rpartition("/")[2]) in MEASURES else None
    filled = {index: cell for index, cell in enumerate(column) if cell is not None}
    if better is None or len(filled) < 2:
        return set()
    choose = min if better == "lower" else max
    winner = choose(filled.values(), key=lambda cell: cell.mean)
    return {index for index, cell in filled.items() if cell.overlaps(winner)}


def pareto(points: Sequence[tuple[float, float]]) -> set[int]:
    """The points that no other one beats in one coordinate without losing in the other; lower is better."""
    return {
        index
        for index, (x, y) in enumerate(points)
        if not any(a <= x and b <= y and (a < x or b < y) for a, b in points)
    }


def spelled(column: Sequence[SeedStatistics | None]) -> list[str]:
    """A column of numbers as text, of one format and one length, so that digits stand below each other."""
    show = number_format([cell.mean for cell in column if cell])
    means = [show.format(cell.mean) if cell else "" for cell in column]
    spreads = [f" ± {show.format(cell.std)}" if cell and cell.count > 1 else "" for cell in column]
    counts = [f" ({cell.count} of {cell.total})" if cell and cell.count < cell.total else "" for cell in column]
    widths = [max(map(len, part), default=0) for part in (means, spreads, counts)]
    return [
        f"{mean:>{widths[0]}}{spread:<{widths[1]}}{count:<{widths[2]}}" if mean else ""
        for mean, spread, count in zip(means, spreads, counts, strict=True)
    ]


def number_format(values: Iterable[float]) -> str:
    """Three digits of the smallest number, in powers of ten where that would be long."""
    sizes = [abs(value) for value in values if value]
    if not sizes:
        return "{:.3f}"
    smallest, largest = min(sizes), max(sizes)
    if smallest < 1e-3 or largest >= 1e7:
        return "{:.2e}"
    return f"{{:.{min(max(2 - math.floor(math.log10(smallest)), 0), 4)}f}}"
