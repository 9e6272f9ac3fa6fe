"""Hydra's part in a sweep: the configuration that all jobs share, and the launcher that starts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, open_dict

from sciuq_runner.config.build import assemble
from sciuq_runner.config.compose import carried_variables, plain, quote
from sciuq_runner.errors import ConfigError, first_line
from sciuq_runner.physics.data_files import digests
from sciuq_runner.runs.resume import digest
from sciuq_runner.sweeps.job import job
from sciuq_runner.sweeps.plan import Planned
from sciuq_runner.sweeps.request import SweepRequest
from sciuq_runner.sweeps.submission import is_submitit, submit


@dataclass(frozen=True)
class Launcher:
    """A launcher of Hydra, the ``plugin``, with what all jobs share and what composes the rest."""

    cfg: DictConfig
    loader: Any
    plugin: Any

    @property
    def choice(self) -> str:
        """How the person has chosen it."""
        return f"sweep={self.cfg.hydra.runtime.choices.get('sweep')}"

    def start(self, pending: Sequence[Planned], first: int) -> Exception | None:
        """Start jobs together and wait for them; what the launcher raised where it did not come back with all."""
        jobs = [item.arguments() for item in pending]
        try:
            if is_submitit(self.plugin):
                submit(self.plugin, jobs, first)
            else:
                self.plugin.launch(jobs, initial_job_idx=first)
        except Exception as error:  # each launcher has its own for a process that died
            return error
        return None

    def digest_of(self, overrides: list[str]) -> str:
        """The hash of the configuration of a job."""
        try:
            cfg = self.loader.load_sweep_config(self.cfg, overrides)
        except Exception as error:  # only configuration is at work here
            raise ConfigError(first_line(error)) from error
        with open_dict(cfg):
            del cfg["hydra"]
        config = plain(cfg)
        return digest(config, digests(assemble(config).problem.data_files))


def open_launcher(request: SweepRequest, folder: Path) -> Launcher:
    """Compose what all jobs share, and make the launcher."""
    from hydra.types import RunMode

    from sciuq_runner.config.hydra_internals import compose_with, make_launcher

    hydra = request.composer.hydra
    own = [f"hydra.sweep.dir={quote(str(folder))}", *carried_variables()]
    cfg = compose_with(hydra, [*request.overrides, *own], RunMode.MULTIRUN)
    return Launcher(cfg, hydra.config_loader, make_launcher(hydra, cfg, job))
