"""Composing: the configuration of a run from the choices and settings on the command line, by Hydra."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sciuq_runner.config import policy as permissions
from sciuq_runner.config.environment import VARIABLES, trusted
from sciuq_runner.config.explain import explain, explain_unresolved
from sciuq_runner.config.problem_files import CONFIG_MODULE
from sciuq_runner.config.resolvers import register_resolvers
from sciuq_runner.config.uris import kept_uri, refuse_password
from sciuq_runner.errors import ConfigError


def compose(overrides: Sequence[str], config_dir: str | None, with_hydra: bool = False) -> DictConfig:
    """Compose one job's configuration, or say in a sentence what is wrong with it."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_module
    from hydra.core.global_hydra import GlobalHydra

    register_resolvers()
    if config_dir is not None:
        refuse_folder(Path(config_dir))
    extra = [f"hydra.searchpath=[{quote(f'file://{Path(config_dir).resolve()}')}]"] if config_dir else []
    before = GlobalHydra.instance().hydra  # that of a job at work in this process
    try:
        GlobalHydra.instance().clear()
        with initialize_config_module(CONFIG_MODULE, version_base="1.3"):
            return hydra_compose("config", [*overrides, *extra], return_hydra_config=with_hydra)
    except Exception as error:  # only configuration is at work here: whatever fails is a mistake in it
        raise mistake(error, overrides, config_dir) from error
    finally:
        GlobalHydra.instance().clear()
        GlobalHydra.instance().hydra = before


def mistake(error: Exception, overrides: Sequence[str], config_dir: str | None) -> ConfigError:
    """What Hydra found wrong, as a sentence."""
    return ConfigError(explain(error, overrides, config_dir, lambda others: compose(others, config_dir)))


def refuse_folder(config_dir: Path) -> None:
    """Refuse a folder that is not there, or that has tuned settings where none are read."""
    if not config_dir.is_dir():
        raise ConfigError(f"--config-dir {config_dir} is not a folder.")
    for path in sorted([*config_dir.glob("tuned/*.yaml"), *config_dir.glob("tuned_*/*.yaml")]):
        raise ConfigError(
            f"{path} is not read: tuned settings are in tuned/method/PROBLEM/METHOD.yaml, "
            "tuned/model/PROBLEM/MODEL.yaml and tuned/model_method/PROBLEM/MODEL_METHOD.yaml."
        )


def refuse_code(cfg: DictConfig, overrides: Sequence[str]) -> None:
    """Refuse what Hydra's own settings would start, unless the person who typed ``overrides`` allows it."""
    given = {
        key
        for item in parse_overrides(overrides)
        for key, _ in permissions.leaves(item.key_or_group, None if item.is_sweep_override() else item.value())
    }
    permissions.refuse_code(cfg, trusted(), given)


def quote(text: str) -> str:
    """A value that the override grammar takes as it is."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def carried_variables() -> list[str]:
    """Overrides that carry our variables into every job; what a configuration file says of them has no effect."""
    return [f"hydra.job.env_set.{name}={quote(os.environ.get(name, ''))}" for name in VARIABLES]


NOT_SETTINGS = ("hydra", "experiment", "sweep", "search")
"""Groups that only change settings of others, or are not about a single run."""


def plain(cfg: DictConfig) -> dict[str, Any]:
    """The settings of a run as nested dictionaries of plain values."""
    return {key: value for key, value in resolved(cfg).items() if key not in NOT_SETTINGS}


def resolved(cfg: DictConfig) -> dict[str, Any]:
    """The whole configuration but Hydra's own part, with the values that interpolations stand for and no password."""
    if "hydra" in cfg:
        cfg = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    try:
        values = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(explain_unresolved(error, cfg)) from error
    assert isinstance(values, dict)
    if isinstance(values.get("tracking"), dict) and "uri" in values["tracking"]:
        values["tracking"]["uri"] = kept_uri(values["tracking"]["uri"])
        refuse_password("tracking.artifacts", values["tracking"].get("artifacts"))
    return {str(key): value for key, value in values.items()}


def is_of_hydra(override: str) -> bool:
    """Whether an override is about Hydra itself."""
    return override.lstrip("+~").startswith(("hydra.", "hydra/"))


def parse_overrides(overrides: Sequence[str]) -> list[Any]:
    """Overrides as Hydra reads them; a mistake is a sentence."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return list(OverridesParser.create().parse_overrides(list(overrides)))
    except HydraException as error:
        raise mistake(error, overrides, None) from error


def hydra_settings(overrides: Sequence[str], config_dir: str | None) -> DictConfig:
    """What all jobs of a sweep share, with Hydra's own part."""
    from hydra.core.hydra_config import HydraConfig

    parsed = parse_overrides(overrides)
    fixed = [text for text, item in zip(overrides, parsed, strict=True) if not item.is_sweep_override()]
    cfg = compose(fixed, config_dir, with_hydra=True)
    refuse_code(cfg, overrides)  # before an interpolation, or a launcher, makes anything of it
    HydraConfig.instance().set_config(cfg)  # for interpolations such as ${hydra:runtime.choices.problem}
    return cfg
