"""One run with its folder, its log and its place in MLflow."""

from __future__ import annotations
from sciuq_runner import layout

import logging
import os
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig

from sciuq_runner.config.build import Run, assemble
from sciuq_runner.config.compose import plain
from sciuq_runner.config.equal_terms import changed_terms, describe_changes
from sciuq_runner.evaluation.results import CHANGED_TERMS
from sciuq_runner.config.resolvers import register_resolvers
from sciuq_runner.runs.console import make_display, print_summary
from sciuq_runner.physics.data_files import digests
from sciuq_runner.config.environment import PARENT_VARIABLE, RESUME_VARIABLE, trusted
from sciuq_runner.errors import FAILED, INTERRUPTED, OK, WRONG_INPUT, ConfigError, RunError, told
from sciuq_runner.files import remove_partial
from sciuq_runner.config.configuration_hash import RUN_FOLDER, program
from sciuq_runner.training.loop import Loop
from sciuq_runner.memory import is_shortage
from sciuq_runner.runs.pipeline import execute
from sciuq_runner.models.pretraining import Store
from sciuq_runner.config.problem_files import original
from sciuq_runner.tracking.record import Record, describe
from sciuq_runner.runs.resume import Origin, digest, read_origin
from sciuq_runner.runs.signals import stop_on_signal
from sciuq_runner.tracking.failures import guarded
from sciuq_runner.tracking.results import log_results
from sciuq_runner.tracking.tracker import Status, Tracker, open_tracker
from sciuq_runner.config.uris import without_credentials

log = logging.getLogger(__name__)


def perform(cfg: Any) -> tuple[int, float | None]:
    """A run with its folder, its log and its place in MLflow: exit status and validation score."""
    register_resolvers()
    job = HydraConfig.get()
    folder = Path(job.runtime.output_dir)
    try:
        if not os.environ.get(RESUME_VARIABLE):
            refuse_used(folder)
        config = plain(cfg)
        allow_modules(config["trust"])
        wanted = ("problem", "model", "method", "calibration", "fidelity")
        choices = {key: str(job.runtime.choices.get(key)) for key in wanted}
        built = assemble(config)
        choices["calibration"] = ",".join(built.calibrators) or "none"  # Hydra does not name a list of choices
        tracker = open_tracker(built.tracking, Path(job.runtime.cwd))  # reached by now, or the check had refused it
        sources = [item.path for item in job.runtime.config_sources if item.provider == "command-line"]
        data = digests(built.problem.data_files)
        overrides = original(job.overrides.task, config)
        paths = [text for text in job.overrides.hydra if text.lstrip("+").startswith("hydra.searchpath=")]
        changed = changed_terms(config, choices, [*paths, *job.overrides.task], sources[0] if sources else None)
        built = replace(built, changed_terms=changed)
        origin = Origin(overrides, sources[0] if sources else None, data=data, digest=digest(config, data))
        return work(built, folder, choices, tracker, origin)
    except ConfigError as error:
        log.error("%s", error)
        return WRONG_INPUT, None


def work(
    built: Run, folder: Path, choices: dict[str, str], tracker: Tracker | None, origin: Origin
) -> tuple[int, float | None]:
    """Do the run under the eyes of MLflow and of the person at the terminal: exit status and validation score."""
    loop = Loop(make_display(), folder / layout.CHECKPOINT, built.settings.checkpoint_interval)
    status: Status = "FAILED"
    about = {CHANGED_TERMS: describe_changes(built.changed_terms)} if built.changed_terms else {}
    record = describe(built.config, choices, folder, program() | about)
    earlier = read_origin(folder)  # of the run that is being resumed; a new run's folder has none
    known = earlier.mlflow_run if earlier is not None else None
    remove_partial(folder)
    (folder / layout.METRICS).unlink(missing_ok=True)  # until it has ended, there is no result
    if tracker is not None:
        uri, parent = without_credentials(tracker.uri), os.environ.get(PARENT_VARIABLE) or None
        record = replace(record, uri=uri, experiment=tracker.experiment, parent=parent)
        opened = guarded(partial(open_run, tracker, record, known), "open the run")
        known = tracker.run_id or known
        tracker = tracker if opened else None
    record, origin = replace(record, run=known), replace(origin, mlflow_run=known)
    try:
        record.write(folder)
        origin.write(folder)
        with stop_on_signal(loop.request_stop):
            outcome = execute(built, folder, loop, choices, Store(Path(layout.PRETRAINED), tracker))
            status = "KILLED" if outcome.interrupted else "FINISHED"
            if tracker is not None:
                guarded(partial(log_results, tracker, outcome.metrics, folder), "store the results")
        print_summary(outcome.metrics, folder, tracker.ui_command if tracker else None)
        if outcome.interrupted:
            log.warning("Stopped early: what was computed until then is in the run folder.")
            return INTERRUPTED, None
        origin = replace(origin, score=outcome.headline)
        return OK, outcome.headline
    except RunError as error:
        log.error("%s", error)
        return FAILED, None
    except (ArithmeticError, MemoryError, RuntimeError, ValueError) as error:
        if not is_shortage(error):
            raise
        log.error("There is not enough memory for this run: try fewer samples, members or points.")
        return FAILED, None
    except OSError as error:
        log.error("%s What was written until then stays: go on with sciuq-run resume=%s.", told(error), folder)
        return FAILED, None
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


def open_run(tracker: Tracker, record: Record, known: str | None) -> None:
    """Begin a run in MLflow, or go on with the one that the folder knows."""
    tracker.reach()
    if known is not None:
        tracker.reopen(known, record.params)
    elif os.environ.get(RESUME_VARIABLE):  # killed before its folder could say which run it is
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
