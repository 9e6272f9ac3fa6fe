"""Composing: the configuration of a run from the choices and settings on the command line, by Hydra."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from sciuq_runner.config import policy as permissions
from sciuq_runner.config.environment import VARIABLES, trusted
from sciuq_runner.config.explain import explain, explain_unresolved
from sciuq_runner.config.problem_files import CONFIG_MODULE
from sciuq_runner.config.resolvers import register_resolvers
from sciuq_runner.config.uris import kept_uri, refuse_password
from sciuq_runner.errors import ConfigError


class Composer:
    """Hydra on our configuration and a folder of the user's: opened once, composes as often as it is asked."""

    def __init__(self, config_dir: str | None = None) -> None:
        from sciuq_runner.config.hydra_internals import open_hydra

        register_resolvers()
        if config_dir is not None:
            refuse_folder(Path(config_dir))
        self.config_dir = config_dir
        self.hydra = open_hydra(CONFIG_MODULE, config_dir)

    def compose(self, overrides: Sequence[str]) -> DictConfig:
        """One job's configuration with Hydra's own part, or a sentence on what is wrong with it."""
        from sciuq_runner.config.hydra_internals import compose_with

        try:
            return compose_with(self.hydra, overrides)
        except Exception as error:  # only configuration is at work here: whatever fails is a mistake in it
            raise mistake(error, overrides, self.config_dir) from error


def compose(overrides: Sequence[str], config_dir: str | None = None, with_hydra: bool = False) -> DictConfig:
    """Compose one job's configuration, or say in a sentence what is wrong with it."""
    cfg = Composer(config_dir).compose(overrides)
    if not with_hydra:
        with open_dict(cfg):
            del cfg["hydra"]
    return cfg


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


def refuse_deletions(overrides: Sequence[str]) -> None:
    """Tuned settings are part of a choice, and no part of the configuration can be left out."""
    if any(override.startswith(("tuned", "~")) for override in overrides):
        raise ConfigError("tuned= and ~ cannot be used: change single settings with key=value instead.")


def quote(text: str) -> str:
    """A value that the override grammar takes as it is."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def override_text(key: str, value: Any) -> str:
    """A setting as the override grammar takes it: None is null, texts are quoted where they need it."""
    return f"{key}={_override_value(value)}"


def _override_value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_override_value, value))}]"
    text = str(value)
    is_plain = not isinstance(value, str) or re.fullmatch(r"[A-Za-z_][\w./+-]*", text)
    return text if is_plain else quote(text)


def carry_variables(cfg: DictConfig) -> None:
    """Give a job our variables of the environment, whatever a configuration file says of them."""
    with read_write(cfg), open_dict(cfg):
        cfg.hydra.job.env_set = {name: os.environ.get(name, "") for name in VARIABLES}


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
