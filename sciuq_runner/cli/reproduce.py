"""``sciuq-reproduce``: the paper once more, job by job, from where it was left."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sciuq_runner.cli.common import Parser, conclude
from sciuq_runner.errors import OK, ConfigError

if TYPE_CHECKING:  # --help answers at once
    from sciuq_runner.report.recorded_runs import RecordedRun
    from sciuq_runner.reproduction.job_plan import Step
    from sciuq_runner.reproduction.job_processes import Task
    from sciuq_runner.reproduction.paper_jobs import Job


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-reproduce``."""
    conclude("sciuq-reproduce", lambda: run(parse(sys.argv[1:] if argv is None else argv)))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = Parser(
        prog="sciuq-reproduce",
        allow_abbrev=False,
        description="Run the experiments of the paper: those named, or all. What MLflow holds already is not run "
        "again, so that it can be stopped (Ctrl-C) and started again at any time. sciuq-report --paper then shows the "
        "results beside the paper's.",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="presets of experiment=paper/NAME (all)")
    parser.add_argument(
        "--seeds", metavar="N", type=int, help="seeds 0 to N - 1 of every job (those of its preset; 1 if not paper)"
    )
    parser.add_argument("--fidelity", choices=("smoke", "quick", "paper"), default="quick", help="step counts (quick)")
    parser.add_argument("--jobs", metavar="N", type=int, help="processes at a time (2, or 1 on a single core)")
    parser.add_argument(
        "--keep",
        metavar="FOLDER",
        type=Path,
        help="a folder for small copies of finished runs, made to stay beside a report; what it holds is not run again",
    )
    parser.add_argument("--list", action="store_true", help="show the names and stop")
    parser.add_argument("--dry-run", action="store_true", help="show what would be run and stop")
    options = parser.parse_args(arguments)
    for name in ("seeds", "jobs"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise ConfigError(f"--{name} {getattr(options, name)} should be at least 1.")
    if options.fidelity != "paper":
        options.seeds = options.seeds or 1
    options.jobs = options.jobs or min(2, os.cpu_count() or 1)
    return options


def run(options: argparse.Namespace) -> int:
    """Say what there is to do, and do it; returns the exit status."""
    from sciuq_runner.reproduction.job_plan import plan, recorded, require_writable
    from sciuq_runner.reproduction.kept_runs import kept_runs
    from sciuq_runner.reproduction.paper_jobs import check_names, jobs, presets

    names = check_names(options.names)
    if options.list:
        width = max(map(len, names))
        print("\n".join(f"{name.ljust(width)}  {presets()[name]}" for name in names))
        return OK
    if options.keep and not options.dry_run:
        require_writable(options.keep)
    found, runs = jobs(names, options.fidelity), recorded()
    save = partial(save_finished, found, options.keep)
    if not options.dry_run:
        save(runs)
    steps = plan(found, options.seeds, runs + (kept_runs(options.keep) if options.keep else []))
    describe(steps, options)
    if options.dry_run or not any(step.is_left for step in steps):
        return OK
    return perform(steps, options.jobs, save)


def save_finished(found: Sequence[Job], folder: Path | None, runs: Sequence[RecordedRun] | None = None) -> None:
    """Keep the runs of some jobs that are in MLflow, where that is wanted; what fails now is tried the next time."""
    from sciuq_runner.reproduction.job_plan import recorded
    from sciuq_runner.reproduction.kept_runs import keep

    if folder is None:
        return
    try:
        keep(recorded() if runs is None else runs, found, folder)
    except (OSError, ConfigError) as error:
        print(f"Not all finished runs could be kept in {folder}: {error}", flush=True)


def describe(steps: Sequence[Step], options: argparse.Namespace) -> None:
    """What there is to do, what is there already, and how long it will take."""
    from sciuq_runner.reproduction.job_costs import spoken

    for step in steps:
        time_needed = "time unknown" if step.seconds is None else f"about {spoken(step.seconds)}"
        time_needed += ", a guess" if step.guessed and step.seconds is not None else ""
        state = "done" if step.done else step.refusal or ("goes on, " if step.folder else "") + time_needed
        print(f"{step.name}: {state}")
    left = [step for step in steps if step.is_left]
    times = [step.seconds for step in left if step.seconds is not None]
    done, guessed = sum(step.done for step in steps), sum(step.guessed for step in left)
    needed = f"about {spoken(sum(times) / options.jobs)} with {options.jobs} at a time"
    needed += f", in which the time of {guessed} is a guess from others like them" if guessed else ""
    print(
        f"{len(steps)} runs at {options.fidelity} fidelity, {done} done, {len(left)} to do: "
        f"{needed if len(times) == len(left) else 'time unknown'}."
    )


def perform(steps: Sequence[Step], n_jobs: int, save: Callable[[], None]) -> int:
    """Run what is left, and ``save`` every end; returns the exit status that tells how that went."""
    from sciuq_runner.reproduction.job_costs import spoken
    from sciuq_runner.reproduction.left_jobs import run_left

    def report(task: Task, number: int, total: int) -> None:
        state = f"FAILED: {task.message}" if task.status else f"done in {spoken(task.seconds)}"
        print(f"[{number}/{total}] {task.name}: {state}", flush=True)
        save()

    attempt = run_left(steps, n_jobs, report)
    if attempt.failed:
        print(f"{len(attempt.failed)} of {len(attempt.ended)} runs failed:")
        print("\n".join(f"  sciuq-run {' '.join(task.arguments)}: {task.message}" for task in attempt.failed))
    if not attempt.complete:
        print("Stopped. The same command goes on from here.")
    return attempt.exit_status


if __name__ == "__main__":
    main()
