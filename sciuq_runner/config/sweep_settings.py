"""Settings of a sweep: where its jobs run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from sciuq_runner.errors import ConfigError
from sciuq_runner.schema import Count, construct


@dataclass(frozen=True)
class SweepSettings:
    """``sweep.*``: where jobs run; each launcher has some of these."""

    resume: bool = False
    jobs: Literal[-1] | Count = 1
    minutes: Count = 240
    memory_gb: Count = 4
    address: str | None = None
    cores: Count | None = None


def read_sweep_settings(cfg: DictConfig) -> SweepSettings:
    """``sweep.*`` of a composed configuration, checked."""
    return construct(SweepSettings, section(cfg.sweep), "sweep")


def refuse_sweep_settings(cfg: DictConfig) -> None:
    """Refuse settings that only a sweep can have."""
    settings = read_sweep_settings(cfg)
    if settings.resume or cfg.get("search") is not None:
        wrong = "sweep.resume=true" if settings.resume else "search=optuna"
        raise ConfigError(f"{wrong} is for sweeps: add -m.")


def section(cfg: DictConfig) -> dict[str, Any]:
    """A part of the configuration as plain values."""
    return {str(key): value for key, value in OmegaConf.to_container(cfg, resolve=True).items()}  # type: ignore[union-attr]
