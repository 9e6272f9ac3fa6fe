"""Interpolations of the configuration: values that depend on fidelity, case, method or another value."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from sciuq_runner.errors import ConfigError, nearest


def by_fidelity(options: Mapping[str, Any], *, _root_: DictConfig) -> Any:
    """``${at:{smoke:1, quick:10, paper:100}}``: the value for the chosen fidelity."""
    return _pick(options, str(_root_.fidelity.name), "fidelity")


def by_case(options: Mapping[str, Any], *, _root_: DictConfig) -> Any:
    """``${case:{known:1, unknown:2}}``: the value for the chosen ``problem.case``; ``else`` covers the others."""
    return _pick(options, str(_root_.problem.case), "problem.case")


def by_method(options: Mapping[str, Any], *, _root_: DictConfig) -> Any:
    """``${method:{hmc:1, else:2}}``: the value for the chosen method, by the module of its class."""
    target = str(_root_.method.get("_target_", ""))
    return _pick(options, target.rpartition(".")[0].rpartition(".")[2], "method")


def by_value(value: Any, options: Mapping[str, Any]) -> Any:
    """``${pick:${problem.n_train},{16:1, 32:2, else:3}}``: the entry for a value."""
    return _pick({str(key): option for key, option in options.items()}, str(value), "value")


def _pick(options: Mapping[str, Any], name: str, key: str) -> Any:
    if name in options:
        return options[name]
    if "else" in options:
        return options["else"]
    raise ConfigError(f"{key}={name} has no setting here: {nearest(name, [str(option) for option in options])}")


def register_resolvers() -> None:
    """Make our interpolations known; safe to call again."""
    OmegaConf.register_new_resolver("at", by_fidelity, replace=True)
    OmegaConf.register_new_resolver("case", by_case, replace=True)
    OmegaConf.register_new_resolver("method", by_method, replace=True)
    OmegaConf.register_new_resolver("pick", by_value, replace=True)
    OmegaConf.register_new_resolver("unique", lambda: secrets.token_hex(4), use_cache=True, replace=True)
