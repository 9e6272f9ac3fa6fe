"""From what a person asked for to a run: composed once, prepared once, and made in a folder of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciuq_runner.config.compose import Composer, carry_variables, parse_overrides, plain, refuse_code, refuse_deletions
from sciuq_runner.config.problem_files import refuse_bombs
from sciuq_runner.config.sweep_settings import refuse_sweep_settings
from sciuq_runner.locks import held

if TYPE_CHECKING:  # torch comes when a configuration has been found to be right
    from sciuq_runner.runs.pipeline import RunOutcome
    from sciuq_runner.runs.runner import ReadyRun
    from sciuq_runner.runs.surroundings import Surroundings


@dataclass(frozen=True)
class Request:
    """Overrides as Hydra reads them, a folder with configurations of the person's own, and whether this goes on with
    the run whose folder ``hydra.run.dir`` names."""

    overrides: Sequence[str] = field(default_factory=list)
    config_dir: str | None = None
    resumes: bool = False


@dataclass(frozen=True)
class Start:
    """A run that is ready, with its composed configuration."""

    request: Request
    composer: Composer
    cfg: Any
    run: ReadyRun

    def make(self, surroundings: Surroundings, configure_logging: bool = True) -> tuple[RunOutcome, Path]:
        """Make the run; returns what it found and its folder."""
        from sciuq_runner.config.hydra_internals import run_in_folder
        from sciuq_runner.runs.runner import perform, refuse_used

        def task(_: Any) -> tuple[RunOutcome, Path]:
            folder = Path(self.cfg.hydra.runtime.output_dir)
            with surroundings.log(folder):
                return perform(self.run, folder, surroundings), folder

        folder = named_folder(self.request.overrides)
        with held(folder):
            if folder is not None and not self.request.resumes:
                refuse_used(folder)
            found: tuple[RunOutcome, Path] = run_in_folder(self.composer.hydra, self.cfg, task, configure_logging)
            return found


def get_started(request: Request) -> Start:
    """Compose and prepare a run, and reach MLflow where it is wanted; refuses whatever can be known to fail, before
    any work, folder or run in MLflow exists."""
    refuse_bombs(request.config_dir)
    refuse_deletions(request.overrides)
    composer = Composer(request.config_dir)
    cfg = composer.compose(request.overrides)
    refuse_code(cfg, request.overrides)
    config = plain(cfg)
    refuse_sweep_settings(cfg)
    carry_variables(cfg)

    from sciuq_runner.runs.runner import get_ready

    run = get_ready(config, cfg.hydra, request.config_dir, request.resumes)
    if run.tracker is not None:
        run.tracker.connect()
    return Start(request, composer, cfg, run)


def named_folder(overrides: Sequence[str]) -> Path | None:
    """The run folder that an override names; None where it is a new one of its own."""
    named = [text for text in overrides if text.lstrip("+").startswith("hydra.run.dir=")]
    value = str(parse_overrides(named[-1:])[0].value()) if named else "${"
    return None if "${" in value else Path(value)
