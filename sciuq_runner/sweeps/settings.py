"""Settings of a sweep: what is wrong with them, where its jobs run, and what it is known by."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from sciuq_runner.config.compose import hydra_settings, is_of_hydra, parse_overrides
from sciuq_runner.config.configuration_hash import BOOKKEEPING
from sciuq_runner.errors import ConfigError
from sciuq_runner.memory import Share
from sciuq_runner.physics.problem import Dataset
from sciuq_runner.schema import Count, construct
from sciuq_runner.sweeps.search import SearchSettings, space_of


@dataclass(frozen=True)
class SweepSettings:
    """``sweep.*``: where jobs run; each launcher has some of these."""

    resume: bool = False
    jobs: Literal[-1] | Count = 1
    minutes: Count = 240
    memory_gb: Count = 4
    address: str | None = None
    cores: Count | None = None


def check_sweep(parsed: argparse.Namespace) -> bool:
    """Refuse settings of a sweep that are wrong, or that only a sweep can have; returns whether it is a search."""
    for item in parse_overrides(parsed.overrides):
        if item.is_sweep_override() and key_of(item.input_line) in ("sweep", "search"):
            raise ConfigError(f"{item.input_line} names several values: a sweep runs in one way.")
    cfg = hydra_settings(parsed.overrides, parsed.config_dir)
    sweep = construct(SweepSettings, section(cfg.sweep), "sweep")
    if not parsed.multirun and (sweep.resume or cfg.get("search") is not None):
        wrong = "sweep.resume=true" if sweep.resume else "search=optuna"
        raise ConfigError(f"{wrong} is for sweeps: add -m.")
    if cfg.get("search") is not None:
        construct(SearchSettings, section(cfg.search), "search")
        require_optuna()
        space_of(parse_overrides(parsed.overrides))
    return cfg.get("search") is not None


def memory_share(parsed: argparse.Namespace, n_jobs: int) -> Share:
    """The memory that one of ``n_jobs`` jobs may have, by where they run."""
    if not parsed.multirun:
        return Share()
    cfg = hydra_settings(parsed.overrides, parsed.config_dir)
    settings = construct(SweepSettings, section(cfg.sweep), "sweep")
    if "memory_gb" in cfg.sweep:
        return Share(size=settings.memory_gb * 2**30)
    together = cfg.search.batch if cfg.get("search") is not None else n_jobs
    if str(cfg.hydra.launcher.get("_target_")).endswith(".LocalLauncher"):  # of submitit, which makes none wait
        return Share(jobs=together)
    at_once = (os.cpu_count() or 1) if settings.jobs == -1 else settings.jobs
    return Share(jobs=min(at_once, together))


def section(cfg: DictConfig) -> dict[str, Any]:
    """A part of the configuration as plain values."""
    return {str(key): value for key, value in OmegaConf.to_container(cfg, resolve=True).items()}  # type: ignore[union-attr]


def require_optuna() -> None:
    """Say how to get what a search needs."""
    from importlib.util import find_spec

    if find_spec("optuna") is None:
        raise ConfigError("search=optuna needs a package that is not installed: pip install 'sciuq-runner[optuna]'.")


def require_validation(dataset: Dataset) -> None:
    """A search needs readings to judge by that neither train nor test."""
    if not any(len(data.validation) for data in dataset.values()):
        raise ConfigError(
            "search=optuna needs validation readings, and the problem has none: set problem.n_validation."
        )


def sweep_settings(parsed: argparse.Namespace) -> tuple[bool, Path]:
    """Whether to go on with an earlier sweep, and the folder of a new one."""
    cfg = hydra_settings(parsed.overrides, parsed.config_dir)
    return bool(cfg.sweep.resume), Path(str(cfg.hydra.sweep.dir)).absolute()


def identity_of(parsed: argparse.Namespace) -> list[str]:
    """What a sweep is known by: its settings, but for those that change nothing of what it finds."""
    kept = [text for text in parsed.overrides if not is_of_hydra(text) and key_of(text) not in BOOKKEEPING]
    return sorted(kept) + ([f"--config-dir {Path(parsed.config_dir).resolve()}"] if parsed.config_dir else [])


def key_of(override: str) -> str:
    """``method`` of ``method=dens`` and of ``method.n_steps=5``."""
    return override.lstrip("+").partition("=")[0].partition(".")[0]
