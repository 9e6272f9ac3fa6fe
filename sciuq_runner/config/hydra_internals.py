"""The parts of Hydra that it keeps to itself and that we cannot do without, all in one module."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hydra import version
from hydra._internal.callbacks import Callbacks
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus, run_job
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig


def open_hydra(config_module: str, config_dir: str | None) -> Hydra:
    """Hydra on our configuration, with a folder of the user's before it."""
    path = create_config_search_path(f"pkg://{config_module}")
    assert isinstance(path, ConfigSearchPathImpl)
    if config_dir:
        mine = f"file://{Path(config_dir).resolve()}"
        path.prepend("command-line", mine, SearchPathQuery(provider="schema"))  # as Hydra does: the user's come first
    version.setbase("1.3")
    GlobalHydra.instance().clear()
    try:
        return Hydra.create_main_hydra2("sciuq-run", path)
    finally:
        GlobalHydra.instance().clear()


def compose_with(hydra: Hydra, overrides: Sequence[str], mode: RunMode = RunMode.RUN) -> DictConfig:
    """One configuration, with Hydra's own part."""
    return hydra.compose_config(
        "config", list(overrides), mode, with_log_configuration=mode is RunMode.MULTIRUN, from_shell=False
    )


def run_in_folder(hydra: Hydra, cfg: DictConfig, task: Callable[[DictConfig], Any], configure_logging: bool) -> Any:
    """Make the run folder with its ``.hydra`` and log, and do ``task`` there; returns, or raises, what it does."""
    context = HydraContext(hydra.config_loader, Callbacks(cfg))
    done: JobReturn = run_job(task, cfg, "hydra.run.dir", None, context, configure_logging)
    if done.status is JobStatus.FAILED:
        raise done._return_value  # its property would print a line of its own first
    return done.return_value


def make_launcher(hydra: Hydra, cfg: DictConfig, task: Callable[[Any], Any]) -> Any:
    """The launcher that a configuration chooses."""
    context = HydraContext(hydra.config_loader, Callbacks(cfg))
    return Plugins.instance().instantiate_launcher(hydra_context=context, task_function=task, config=cfg)


def combinations(overrides: Sequence[Any]) -> list[list[str]]:
    """The overrides of every job of a sweep, from parsed overrides that name several values."""
    return [list(job) for batch in BasicSweeper.split_arguments(list(overrides), None) for job in batch]


def arguments_parser() -> argparse.ArgumentParser:
    """The parser of Hydra's own command line."""
    parser: argparse.ArgumentParser = get_args_parser()
    return parser
