"""Every job of the paper with every seed: what it may take, whether it is done, and where it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from sciuq_runner import layout
from sciuq_runner.config.build import require_device
from sciuq_runner.config.configuration_hash import TAG
from sciuq_runner.errors import ConfigError
from sciuq_runner.report.recorded_runs import RecordedRun, reason, search
from sciuq_runner.reproduction.job_costs import estimates
from sciuq_runner.reproduction.job_processes import Task
from sciuq_runner.reproduction.paper_jobs import Job, seeds_of
from sciuq_runner.runs.resume import has_all_results
from sciuq_runner.sweeps.earlier import is_alive
from sciuq_runner.tracking.existing_store import existing_store
from sciuq_runner.tracking.experiment import DEFAULT_EXPERIMENT
from sciuq_runner.tracking.run_record import FINISHED, RUNNING


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

    @property
    def is_left(self) -> bool:
        """Whether it is still to be run, and can be."""
        return not self.done and not self.refusal


def recorded() -> list[RecordedRun]:
    """The runs in MLflow; none where there is no store yet."""
    try:
        store = existing_store()
        found = store.client.get_experiment_by_name(DEFAULT_EXPERIMENT) if store is not None else None
        return search(store, found.experiment_id) if store is not None and found is not None else []
    except Exception as error:  # drivers, servers and files fail in ways of their own
        raise ConfigError(
            f"the runs in MLflow cannot be read ({reason(error)}): start its server, or name another store with "
            "MLFLOW_TRACKING_URI."
        ) from error


def require_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written to, before any work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"--keep {folder} cannot be written ({error.strerror}): name a folder that you can write to."
        ) from error


def plan(found: Sequence[Job], n_seeds: int | None, runs: Sequence[RecordedRun]) -> list[Step]:
    """Every job with every seed, by default those of its preset, the cheap ones first, and what is known of it."""
    by_hash: dict[str, list[RecordedRun]] = {}
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


def unavailable(config: Mapping[str, Any]) -> str:
    """Why a job cannot be run on this machine."""
    try:
        require_device(config["device"])
    except ConfigError:
        return f"there is no {config['device']} here"
    return ""


def at_work(run: RecordedRun) -> bool:
    """Whether a process is at work on a run that has not ended."""
    return run.status == RUNNING and is_alive(run.folder)


def unfinished(runs: Sequence[RecordedRun]) -> str:
    """The folder of a run that was stopped, failed or died, from whose last checkpoint it can go on."""
    for item in sorted(runs, key=lambda item: -item.started):
        folder = Path(item.folder)
        if (
            item.folder
            and all((folder / name).is_file() for name in (layout.RESUME, layout.CHECKPOINT))
            and not has_all_results(folder)
        ):
            return str(folder)
    return ""


def group_of(job: Job) -> str:
    """What runs of several jobs share that is trained before inference."""
    config = job.config
    model, problem = str(config["model"]["_target_"]), str(config["problem"]["_target_"])
    shares = any(part in model for part in (".gan_fp.", ".pa_")) or (config.get("detection") or {}).get("prior")
    return f"{problem} {config['problem'].get('case', '')}" if shares else ""


def task_of(step: Step, n_jobs: int) -> Task:
    """The process that makes one run."""
    threads = ["threads=1"] if n_jobs > 1 else []
    arguments = [f"resume={step.folder}"] if step.folder else [*step.job.arguments(step.seed), *threads]
    return Task(step.name, arguments, group_of(step.job))
