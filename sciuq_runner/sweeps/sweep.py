"""A sweep at work: jobs are launched, and started again where their process died."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sciuq_runner.config.compose import is_of_hydra, parse_overrides
from sciuq_runner.config.environment import RESUME_VARIABLE, SWEEPER_VARIABLE, sweeper_id
from sciuq_runner.errors import FAILED, OK, ConfigError, first_line
from sciuq_runner.sweeps.earlier import index
from sciuq_runner.sweeps.launcher import Launcher, open_launcher
from sciuq_runner.sweeps.notes import STOP, Note
from sciuq_runner.sweeps.outcomes import STARTS, Outcomes
from sciuq_runner.sweeps.plan import Plan
from sciuq_runner.sweeps.request import SweepRequest
from sciuq_runner.sweeps.search import Search
from sciuq_runner.sweeps.table import Row, make_rows
from sciuq_runner.tracking.tracker import Tracker

log = logging.getLogger(__name__)


class Sweep:
    """The jobs of one sweep at work; those of earlier sweeps below ``root`` may be among them."""

    launcher: Launcher

    def __init__(self, request: SweepRequest, folder: Path, notes: Path, root: Path | None) -> None:
        self.request, self.folder, self.notes = request, folder, notes
        self.plan = Plan(folder, index(root) if root else {})
        self.outcomes = Outcomes(notes)
        self.search: Search | None = None

    def run(self) -> None:
        """Launch everything; a job that fails does not stop the others."""
        os.environ[SWEEPER_VARIABLE] = sweeper_id()
        os.environ[RESUME_VARIABLE] = ""
        from hydra.core.global_hydra import GlobalHydra

        self.launcher = open_launcher(self.request, self.folder)
        try:
            if self.request.searches:
                self.run_search()
            else:
                self.launch(self.request.jobs)
        except KeyboardInterrupt:
            self.outcomes.interrupted = True
            raise
        finally:
            GlobalHydra.instance().clear()

    def run_search(self) -> None:
        """Jobs as Optuna proposes them."""
        overrides = [text for text in self.request.overrides if not is_of_hydra(text)]
        self.search = Search(parse_overrides(overrides), self.request.search_settings())
        fixed = [item.input_line for item in parse_overrides(overrides) if not item.is_sweep_override()]
        while proposed := self.search.propose():
            notes = self.launch([[*fixed, *settings] for settings in proposed])
            self.search.learn([note.score for note in notes])

    def launch(self, jobs: Sequence[Sequence[str]]) -> list[Note]:
        """Run these jobs to their ends; those whose process died are started again, from their checkpoints.

        Whatever ends one process can take others with it (joblib ends them all): a job that was there twice is started
        alone, after all others.
        """
        first = len(self.plan.jobs)
        for overrides in jobs:
            self.plan.add([text for text in overrides if not is_of_hydra(text)], self.launcher.digest_of)
        batch = self.plan.jobs[first:]
        pending = [item for item in batch if not item.done and not item.refusal]
        while pending:
            pending.sort(key=self.outcomes.deaths)
            chosen = [item for item in pending if self.outcomes.deaths(item) < STARTS - 1] or pending[:1]
            error = self.launcher.start(chosen, first)
            moved = self.outcomes.look(chosen)
            if (self.notes / STOP).exists():
                raise KeyboardInterrupt
            if error is not None and not moved:
                self.give_up(error)
                break
            if error is not None:
                log.warning("A process of the sweep died (%s); what it was doing starts again.", first_line(error))
            tried = {item.number for item in chosen}
            left = [item for item in chosen if error is not None and self.outcomes.is_left(item)]
            again = [replace(item, resumes=True) for item in left]
            pending = [item for item in pending if item.number not in tried] + again
        return [self.outcomes.note_of(item) for item in batch]

    def has_begun(self) -> bool:
        """Whether there is anything to say of any job."""
        return self.outcomes.begun() or any(item.done or item.refusal for item in self.plan.jobs)

    def give_up(self, error: Exception) -> None:
        """Say that the launcher starts nothing: at the beginning, that is a mistake in the settings."""
        choice = self.launcher.choice
        if isinstance(error, OSError) and error.filename:  # no room, or not allowed: that has its own sentence
            raise error
        if not self.outcomes.begun():
            raise ConfigError(
                f"{choice} could not start a job ({first_line(error)}): choose another, such as sweep=local."
            ) from error
        log.warning("%s starts no more jobs (%s).", choice, first_line(error))

    def rows(self, tracker: Tracker | None) -> list[Row]:
        """The table: a line for every job."""
        self.outcomes.look(self.plan.jobs)
        return make_rows(self.plan.jobs, self.outcomes, tracker)

    def best(self) -> tuple[list[str], float] | None:
        """What a search has found."""
        return self.search.best() if self.search else None

    def exit_status(self) -> int:
        """The worst of all jobs."""
        return max((self.outcomes.note_of(item).status for item in self.plan.jobs), default=FAILED)

    def status_name(self) -> Any:
        """The status of the sweep in MLflow."""
        if self.outcomes.interrupted:
            return "KILLED"
        return "FINISHED" if self.exit_status() == OK else "FAILED"
