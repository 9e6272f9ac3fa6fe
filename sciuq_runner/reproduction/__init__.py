"""``sciuq-reproduce``: the paper once more, job by job, from where it was left."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciuq_runner.cli.common import Parser, conclude
from sciuq_runner.errors import FAILED, INTERRUPTED, ConfigError

if TYPE_CHECKING:  # --help answers at once
    from sciuq_runner.report.runs import Run
    from sciuq_runner.reproduction.jobs import Job
    from sciuq_runner.reproduction.work import Task

EXPERIMENT = "sciuq"
LOGS, LOCK = Path("reproduce_failed"), ".sciuq-reproduce.lock"


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


@dataclass(frozen=True)
class Step:
    """A job with one seed: what it may take, whether it is done, cannot be done now, or which folder to go on from."""

    job: Job
    seed: int
    seconds: float | None
    guessed: bool = False
    done: bool = False
    refusal: str = ""
    folder: str = ""

    @property
    def name(self) -> str:
        return f"{self.job.name} seed={self.seed}"


def run(options: argparse.Namespace) -> None:
    """Say what there is to do, and do it."""
    from sciuq_runner.locks import Busy, alone
    from sciuq_runner.reproduction.jobs import check_names, jobs, presets
    from sciuq_runner.reproduction.kept import kept_runs
    from sciuq_runner.tracking.tracker import Tracker

    names = check_names(options.names)
    if options.list:
        width = max(map(len, names))
        print("\n".join(f"{name.ljust(width)}  {presets()[name]}" for name in names))
        return
    found, runs = jobs(names, options.fidelity), recorded()
    save = partial(save_finished, found, options.keep)
    if options.keep and not options.dry_run:
        require_writable(options.keep)
        save(runs)
    steps = plan(found, options.seeds, runs + (kept_runs(options.keep) if options.keep else []))
    describe(steps, options)
    left = [step for step in steps if not step.done and not step.refusal]
    if options.dry_run or not left:
        return
    Tracker(os.environ.get("MLFLOW_TRACKING_URI"), EXPERIMENT, Path.cwd()).connect()  # once, before jobs race for it
    try:
        with alone(Path(LOCK), wait=False):
            perform(left, [step for step in steps if step.done], options.jobs, save)
    except Busy as error:
        raise ConfigError(f"another sciuq-reproduce is at work in {Path.cwd()}: wait for it, or stop it.") from error


def recorded() -> list[Run]:
    """The runs in MLflow; none where there is no store yet."""
    from sciuq_runner.report.runs import reason, search
    from sciuq_runner.tracking.existing import existing_store

    try:
        store = existing_store()
        found = store.client.get_experiment_by_name(EXPERIMENT) if store is not None else None
        return search(store, found.experiment_id) if store is not None and found is not None else []
    except Exception as error:  # drivers, servers and files fail in ways of their own
        raise ConfigError(
            f"the runs in MLflow cannot be read ({reason(error)}): start its server, or name another store with "
            "MLFLOW_TRACKING_URI."
        ) from error


def save_finished(found: Sequence[Job], folder: Path | None, runs: Sequence[Run] | None = None) -> None:
    """Keep the runs of some jobs that are in MLflow, where that is wanted; what fails now is tried the next time."""
    from sciuq_runner.reproduction.kept import keep

    if folder is None:
        return
    try:
        keep(recorded() if runs is None else runs, found, folder)
    except (OSError, ConfigError) as error:
        print(f"Not all finished runs could be kept in {folder}: {error}", flush=True)


def require_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written to, before any work."""
    from tempfile import TemporaryFile

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"--keep {folder} cannot be written ({error.strerror}): name a folder that you can write to."
        ) from error


def plan(found: Sequence[Job], n_seeds: int | None, runs: Sequence[Run]) -> list[Step]:
    """Every job with every seed, by default those of its preset, the cheap ones first, and what is known of it."""
    from sciuq_runner.config.configuration_hash import TAG
    from sciuq_runner.report.runs import FINISHED
    from sciuq_runner.reproduction.costs import estimates
    from sciuq_runner.reproduction.jobs import seeds_of

    by_hash: dict[str, list[Run]] = {}
    for item in runs:
        by_hash.setdefault(item.tags.get(TAG, ""), []).append(item)
    finished = [item for item in runs if item.status == FINISHED]
    steps = []
    for job, (seconds, guessed) in zip(found, estimates(found, finished), strict=True):
        refusal = unavailable(job.config)
        for seed in range(n_seeds or seeds_of(job.preset)):
            same = by_hash.get(job.hash(seed), [])
            done = any(item.status == FINISHED for item in same)
            alive = "" if done or not any(at_work(item) for item in same) else "another process is at work on it"
            folder = "" if done or alive else unfinished(same)
            steps.append(Step(job, seed, seconds, guessed, done, refusal or alive, folder))
    return sorted(steps, key=lambda step: (step.seconds or 0.0, step.job.name, step.seed))


def unavailable(config: Any) -> str:
    """Why a job cannot be run on this machine."""
    from sciuq_runner.config.build import require_device

    try:
        require_device(config["device"])
    except ConfigError:
        return f"there is no {config['device']} here"
    return ""


def at_work(run: Run) -> bool:
    """Whether a process is at work on a run that has not ended."""
    from sciuq_runner.sweeps.earlier import is_alive

    return run.status == "RUNNING" and is_alive(run.folder)


def unfinished(runs: Sequence[Run]) -> str:
    """The folder of a run that was stopped, failed or died, from whose last checkpoint it can go on."""
    from sciuq_runner.runs.pipeline import CHECKPOINT
    from sciuq_runner.runs.resume import NAME, has_all_results

    for item in sorted(runs, key=lambda item: -item.started):
        folder = Path(item.folder)
        if (
            item.folder
            and all((folder / name).is_file() for name in (NAME, CHECKPOINT))
            and not has_all_results(folder)
        ):
            return str(folder)
    return ""


def describe(steps: Sequence[Step], options: argparse.Namespace) -> None:
    """What there is to do, what is there already, and how long it will take."""
    from sciuq_runner.reproduction.costs import spoken

    for step in steps:
        time_needed = "time unknown" if step.seconds is None else f"about {spoken(step.seconds)}"
        time_needed += ", a guess" if step.guessed and step.seconds is not None else ""
        state = "done" if step.done else step.refusal or ("goes on, " if step.folder else "") + time_needed
        print(f"{step.name}: {state}")
    left = [step for step in steps if not step.done and not step.refusal]
    times = [step.seconds for step in left if step.seconds is not None]
    done, guessed = sum(step.done for step in steps), sum(step.guessed for step in left)
    needed = f"about {spoken(sum(times) / options.jobs)} with {options.jobs} at a time"
    needed += f", in which the time of {guessed} is a guess from others like them" if guessed else ""
    print(
        f"{len(steps)} runs at {options.fidelity} fidelity, {done} done, {len(left)} to do: "
        f"{needed if len(times) == len(left) else 'time unknown'}."
    )


def group_of(job: Job) -> str:
    """What runs of several jobs share that is trained before inference."""
    config = job.config
    model, problem = str(config["model"]["_target_"]), str(config["problem"]["_target_"])
    shares = any(part in model for part in (".gan_fp.", ".pa_")) or (config.get("detection") or {}).get("prior")
    return f"{problem} {config['problem'].get('case', '')}" if shares else ""


def task_of(step: Step, n_jobs: int) -> Task:
    """The process that makes one run."""
    from sciuq_runner.reproduction.work import Task

    threads = ["threads=1"] if n_jobs > 1 else []
    arguments = [f"resume={step.folder}"] if step.folder else [*step.job.arguments(step.seed), *threads]
    return Task(step.name, arguments, group_of(step.job))


def perform(left: Sequence[Step], done: Sequence[Step], n_jobs: int, save: Callable[[], None]) -> None:
    """Run what is left, and ``save`` every end; ends the program with the status that tells how that went."""
    from sciuq_runner.reproduction.costs import spoken
    from sciuq_runner.reproduction.work import work

    tasks = [task_of(step, n_jobs) for step in left]
    ended: list[Task] = []

    def report(task: Task) -> None:
        ended.append(task)
        state = f"FAILED: {task.message}" if task.status else f"done in {spoken(task.seconds)}"
        print(f"[{len(ended)}/{len(tasks)}] {task.name}: {state}", flush=True)
        save()

    complete = work(tasks, n_jobs, report, LOGS, {group_of(step.job) for step in done})
    failed = [task for task in ended if task.status]
    if failed:
        print(f"{len(failed)} of {len(ended)} runs failed:")
        print("\n".join(f"  sciuq-run {' '.join(task.arguments)}: {task.message}" for task in failed))
    if not complete:
        print("Stopped. The same command goes on from here.")
        sys.exit(INTERRUPTED)
    if failed:
        sys.exit(FAILED)
