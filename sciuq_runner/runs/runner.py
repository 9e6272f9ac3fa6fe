"""One run with its folder, its log and its place in MLflow."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sciuq_runner import layout
from sciuq_runner.config.build import RunSetup, assemble, prepare
from sciuq_runner.config.configuration_hash import RUN_FOLDER, program
from sciuq_runner.config.environment import PARENT_VARIABLE, trusted
from sciuq_runner.config.equal_terms import changed_terms, describe_changes, given, is_tuned
from sciuq_runner.config.problem_files import original
from sciuq_runner.config.uris import without_credentials
from sciuq_runner.errors import ConfigError, RunError, first_line, told
from sciuq_runner.evaluation.metrics_file import CHANGED_TERMS
from sciuq_runner.files import remove_partial
from sciuq_runner.memory import Share, is_shortage
from sciuq_runner.models.pretraining import Store
from sciuq_runner.physics.data_files import digests
from sciuq_runner.physics.problem import Dataset
from sciuq_runner.runs.pipeline import RunOutcome, execute
from sciuq_runner.runs.resume import Origin, digest, read_origin
from sciuq_runner.runs.surroundings import Surroundings
from sciuq_runner.target.checks import refuse_unusable
from sciuq_runner.target.density import Target
from sciuq_runner.tracking.logged_results import log_results
from sciuq_runner.tracking.run_record import RunRecord, describe
from sciuq_runner.tracking.store_failures import guarded
from sciuq_runner.tracking.tracker import Status, Tracker, open_tracker
from sciuq_runner.training.loop import Loop

log = logging.getLogger(__name__)

NAMING_GROUPS = ("problem", "model", "method", "calibration", "fidelity")
"""The groups of the configuration whose choice names a run."""


@dataclass(frozen=True)
class ReadyRun:
    """A run that is composed, built and prepared, so that nothing known speaks against it."""

    setup: RunSetup
    dataset: Dataset
    target: Target
    choices: Mapping[str, str]
    origin: Origin
    tracker: Tracker | None
    resumes: bool


def get_ready(
    config: Mapping[str, Any],
    hydra: Any,
    config_dir: str | None = None,
    resumes: bool = False,
    share: Share | None = None,
) -> ReadyRun:
    """Build and prepare what the resolved ``config`` describes; every mistake in it is a :class:`ConfigError`.

    ``hydra`` is Hydra's own part of the configuration: the groups as it chose them, and what the person gave.
    """
    setup = build(config)
    named = {key: str(hydra.runtime.choices.get(key)) for key in NAMING_GROUPS}
    named["calibration"] = ",".join(setup.calibrators) or "none"  # Hydra does not name a list of choices
    dataset, target = prepare_checked(setup, share)
    if is_tuned(hydra, config_dir):
        setup = replace(setup, changed_terms=changed_terms(config, named, given(hydra), config_dir))
    data = digests(setup.problem.data_files)
    origin = Origin(original(hydra.overrides.task, config), config_dir, data=data, digest=digest(config, data))
    return ReadyRun(setup, dataset, target, named, origin, open_tracker(setup.tracking), resumes)


def build(config: Mapping[str, Any]) -> RunSetup:
    """The objects of a resolved configuration, with modules of the person's own where these are trusted."""
    allow_modules(config["trust"])
    return assemble(config)


def prepare_checked(setup: RunSetup, share: Share | None = None) -> tuple[Dataset, Target]:
    """The data and the target, with all that can be known to fail found out."""
    try:
        dataset, target = prepare(setup, share)
        refuse_unusable(target, dataset, setup.problem.scalars)
    except (ArithmeticError, MemoryError, RuntimeError, ValueError) as error:
        if not is_shortage(error):
            raise
        raise ConfigError(
            f"There is not enough memory for the data of this problem ({first_line(error)}): choose fewer "
            "readings and test points under problem, or a smaller model."
        ) from error
    return dataset, target


def perform(run: ReadyRun, folder: Path, surroundings: Surroundings) -> RunOutcome:
    """Make the run in ``folder`` and in MLflow. What stops it is logged, and raised as a :class:`RunError`."""
    if not run.resumes:
        refuse_used(folder)
    setup, tracker = run.setup, run.tracker
    loop = Loop(surroundings.display, folder / layout.CHECKPOINT, setup.settings.checkpoint_interval)
    status: Status = "FAILED"
    terms = {CHANGED_TERMS: describe_changes(setup.changed_terms)} if setup.changed_terms else {}
    record = describe(setup.config, run.choices, folder, program() | terms)
    earlier = read_origin(folder)  # of the run that is being resumed; a new run's folder has none
    known = earlier.mlflow_run if earlier is not None else None
    remove_partial(folder)
    (folder / layout.METRICS).unlink(missing_ok=True)  # until it has ended, there is no result
    if tracker is not None:
        uri, parent = without_credentials(tracker.uri), os.environ.get(PARENT_VARIABLE) or None
        record = replace(record, uri=uri, experiment=tracker.experiment, parent=parent)
        opened = guarded(partial(open_run, tracker, record, known, run.resumes), "open the run")
        known = tracker.run_id or known
        tracker = tracker if opened else None
    record, origin = replace(record, run=known), replace(run.origin, mlflow_run=known)
    try:
        record.write(folder)
        origin.write(folder)
        with surroundings.stop(loop.request_stop):
            store = Store(Path(layout.PRETRAINED), tracker)
            with sentences(folder):
                outcome = execute(setup, run.dataset, run.target, folder, loop, run.choices, store)
            status = "KILLED" if outcome.interrupted else "FINISHED"
            if tracker is not None:
                guarded(partial(log_results, tracker, outcome.metrics, folder), "store the results")
        surroundings.tell(outcome.metrics, folder, tracker.ui_command if tracker else None)
        if outcome.interrupted:
            log.warning("Stopped early: what was computed until then is in the run folder.")
        else:
            origin = replace(origin, score=outcome.headline)
        return outcome
    except (ConfigError, RunError) as error:
        log.error("%s", error)
        if isinstance(error, ConfigError):
            error.is_logged = True
        raise
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        with suppress(OSError):  # a full disk: the folder says that the run has not ended, which is true
            replace(record, status=status).write(folder)
        if tracker is not None:
            guarded(partial(tracker.log_file, folder / layout.LOG), "store the log")
            guarded(partial(tracker.end, status), "close the run")
        with suppress(OSError):
            replace(origin, status=status).write(folder)
            if status == "FINISHED":
                loop.forget()


@contextmanager
def sentences(folder: Path) -> Iterator[None]:
    """A sentence for what the machine lacks while a run is at work."""
    try:
        yield
    except (ArithmeticError, MemoryError, RuntimeError, ValueError) as error:
        if not is_shortage(error):
            raise
        raise RunError("There is not enough memory for this run: try fewer samples, members or points.") from error
    except OSError as error:
        advice = f"What was written until then stays: go on with sciuq-run resume={folder}."
        raise RunError(f"{told(error)} {advice}") from error


def open_run(tracker: Tracker, record: RunRecord, known: str | None, resumes: bool) -> None:
    """Begin a run in MLflow, or go on with the one that the folder knows."""
    tracker.reach()
    if known is not None:
        tracker.reopen(known, record.params)
    elif resumes:  # killed before its folder could say which run it is
        tracker.start_or_reopen(record.name, record.tags, record.params, RUN_FOLDER)
    else:
        tracker.start(record.name, record.tags, record.params)


def refuse_used(folder: Path) -> None:
    """A folder is for one run."""
    if (folder / layout.RESUME).exists():
        raise ConfigError(f"{folder} already holds a run: choose another folder, or resume={folder}.")


def allow_modules(trust: Any) -> None:
    """Let trusted modules be found in the working folder; refuse trust that did not come from the command line."""
    if isinstance(trust, list) and any(name not in trusted() for name in trust):
        raise ConfigError("trust can be given on the command line only, for example trust=[my_module].")
    here = os.getcwd()
    if trust and here not in sys.path:
        sys.path.insert(0, here)
