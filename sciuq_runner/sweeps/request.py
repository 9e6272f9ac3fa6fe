"""What a person asked for with ``-m``: the jobs, and how they run; composed once for all who need it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from sciuq_runner.config.compose import Composer, is_of_hydra, mistake, parse_overrides, refuse_code, refuse_deletions
from sciuq_runner.config.configuration_hash import BOOKKEEPING
from sciuq_runner.config.sweep_settings import SweepSettings, read_sweep_settings, section
from sciuq_runner.errors import ConfigError
from sciuq_runner.memory import Share
from sciuq_runner.schema import construct
from sciuq_runner.sweeps.search import SearchSettings, first_values, space_of


@dataclass(frozen=True)
class SweepRequest:
    """The overrides of a sweep, of which some name several values, and the configuration that all jobs share."""

    overrides: Sequence[str]
    composer: Composer
    shared: DictConfig
    settings: SweepSettings

    @property
    def searches(self) -> bool:
        """Whether jobs are proposed as it goes."""
        return self.shared.get("search") is not None

    @cached_property
    def jobs(self) -> list[list[str]]:
        """The overrides of every job; of one to check, where they are chosen as it goes."""
        from hydra.errors import HydraException

        from sciuq_runner.config.hydra_internals import combinations

        parsed = parse_overrides(self.overrides)
        if self.searches:
            return [[*self.fixed, *first_values(parsed)]]
        params = [f"{key}={value}" for key, value in (self.shared.hydra.sweeper.get("params") or {}).items()]
        given = {item.key_or_group for item in parsed}
        kept = [text for text in params if text.split("=")[0] not in given]
        try:
            return combinations(parse_overrides([*kept, *self.overrides]))
        except HydraException as error:
            if "does not support sweep type" in str(error):
                raise ConfigError("interval(…) is for a search: add search=optuna, or list values.") from error
            raise mistake(error, self.overrides, self.composer.config_dir) from error

    @property
    def fixed(self) -> list[str]:
        """The overrides that all jobs share."""
        return fixed_of(self.overrides)

    @cached_property
    def folder(self) -> Path:
        """The folder of a new sweep."""
        from hydra.core.hydra_config import HydraConfig

        HydraConfig.instance().set_config(self.shared)  # for interpolations such as ${hydra:runtime.choices.problem}
        return Path(str(self.shared.hydra.sweep.dir)).absolute()

    @property
    def identity(self) -> list[str]:
        """What a sweep is known by: its settings, but for those that change nothing of what it finds."""
        kept = [text for text in self.overrides if not is_of_hydra(text) and key_of(text) not in BOOKKEEPING]
        own = self.composer.config_dir
        return sorted(kept) + ([f"--config-dir {Path(own).resolve()}"] if own else [])

    def share(self) -> Share:
        """The memory that one job may have, by where jobs run."""
        if "memory_gb" in self.shared.sweep:
            return Share(size=self.settings.memory_gb * 2**30)
        together = self.shared.search.batch if self.searches else len(self.jobs)
        if str(self.shared.hydra.launcher.get("_target_")).endswith(".LocalLauncher"):  # submitit's, makes none wait
            return Share(jobs=together)
        at_once = (os.cpu_count() or 1) if self.settings.jobs == -1 else self.settings.jobs
        return Share(jobs=min(at_once, together))

    def search_settings(self) -> dict[str, Any]:
        return section(self.shared.search)


def read_sweep(overrides: Sequence[str], config_dir: str | None) -> SweepRequest:
    """Compose what all jobs share, and refuse settings of a sweep that are wrong."""
    for item in parse_overrides(overrides):
        if item.is_sweep_override() and key_of(item.input_line) in ("sweep", "search"):
            raise ConfigError(f"{item.input_line} names several values: a sweep runs in one way.")
    refuse_deletions(overrides)
    composer = Composer(config_dir)
    shared = composer.compose(fixed_of(overrides))
    refuse_code(shared, overrides)  # before an interpolation, or a launcher, makes anything of it
    if not str(shared.hydra.sweeper.get("_target_", "")).endswith("BasicSweeper"):
        raise ConfigError("hydra/sweeper cannot be chosen: use search=optuna, or none for every combination.")
    request = SweepRequest(overrides, composer, shared, read_sweep_settings(shared))
    if request.searches:
        construct(SearchSettings, request.search_settings(), "search")
        require_optuna()
        space_of(parse_overrides(overrides))
    return request


def fixed_of(overrides: Sequence[str]) -> list[str]:
    """Overrides that name a single value."""
    return [item.input_line for item in parse_overrides(overrides) if not item.is_sweep_override()]


def require_optuna() -> None:
    """Say how to get what a search needs."""
    from importlib.util import find_spec

    if find_spec("optuna") is None:
        raise ConfigError("search=optuna needs a package that is not installed: pip install 'sciuq-runner[optuna]'.")


def key_of(override: str) -> str:
    """``method`` of ``method=dens`` and of ``method.n_steps=5``."""
    return override.lstrip("+").partition("=")[0].partition(".")[0]


def without_seed(configs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One configuration of those that differ in their seed alone."""
    seen: list[dict[str, Any]] = []
    for config in configs:
        rest = {key: value for key, value in config.items() if key != "seed"}
        if rest not in seen:
            seen.append(rest)
            yield config
