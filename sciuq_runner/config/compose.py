"""Hydra's side of the command line: what an override means, and a sentence for every way it can be wrong."""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import (
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from sciuq_runner.config import policy as permissions
from sciuq_runner.config.environment import VARIABLES, trusted
from sciuq_runner.config.problem_files import CONFIG_MODULE, is_meant_as_file, not_a_file, unreadable, unreadable_file
from sciuq_runner.config.uris import kept_uri, refuse_password
from sciuq_runner.errors import ConfigError, first_line, nearest
from sciuq_runner.schema import USER_PROBLEM, locate

EXTRAS = {"joblib": "joblib", "submitit_slurm": "slurm", "submitit_local": "slurm", "ray": "ray"}
"""What to install for each launcher."""


def by_fidelity(options: Mapping[str, Any], *, _root_: DictConfig) -> Any:
    """``${at:{smoke:1, quick:10, paper:100}}``: the value for the chosen fidelity."""
    return _pick(options, str(_root_.fidelity.name), "fidelity")


def by_case(options: Mapping[str, Any], *, _root_: DictConfig) -> Any:
    """``${case:{known:1, unknown:2}}``: the value for the chosen ``problem.case``; ``else`` covers the others."""
    return _pick(options, str(_root_.problem.case), "problem.case")


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
    OmegaConf.register_new_resolver("pick", by_value, replace=True)
    OmegaConf.register_new_resolver("unique", lambda: secrets.token_hex(4), use_cache=True, replace=True)


class Composer:
    """Hydra on our configuration and a folder of the user's: opened once, composes as often as it is asked."""

    def __init__(self, config_dir: str | None = None) -> None:
        from sciuq_runner.config.hydra_internals import open_hydra

        if config_dir is not None and not Path(config_dir).is_dir():
            raise ConfigError(f"--config-dir {config_dir} is not a folder.")
        self.config_dir = config_dir
        self.hydra = open_hydra(CONFIG_MODULE, config_dir)

    def compose(self, overrides: Sequence[str]) -> DictConfig:
        """One job's configuration with Hydra's own part, or a sentence on what is wrong with it."""
        from sciuq_runner.config.hydra_internals import compose_with

        try:
            return compose_with(self.hydra, overrides)
        except Exception as error:  # only configuration is at work here: whatever fails is a mistake in it
            raise ConfigError(explain(error, overrides, self.config_dir)) from error


def compose(overrides: Sequence[str], config_dir: str | None = None, with_hydra: bool = False) -> DictConfig:
    """Compose one job's configuration, or say in a sentence what is wrong with it."""
    cfg = Composer(config_dir).compose(overrides)
    if not with_hydra:
        with open_dict(cfg):
            del cfg["hydra"]
    return cfg


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


NOT_SETTINGS = (
    "hydra",
    "tuned",
    "tuned_model",
    "tuned_triple",
    "technique",
    "architecture",
    "experiment",
    "sweep",
    "search",
)
"""Groups that only change settings of others, or are not about a single run."""


def plain(cfg: DictConfig) -> dict[str, Any]:
    """The resolved configuration as nested dictionaries, without Hydra's own part."""
    if "hydra" in cfg:
        cfg = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    try:
        values = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(_unresolved(error, cfg)) from error
    assert isinstance(values, dict)
    if isinstance(values.get("tracking"), dict) and "uri" in values["tracking"]:
        values["tracking"]["uri"] = kept_uri(values["tracking"]["uri"])
        refuse_password("tracking.artifacts", values["tracking"].get("artifacts"))
    return {str(key): value for key, value in values.items() if key not in NOT_SETTINGS}


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
        raise ConfigError(explain(error, overrides, None)) from error


def explain(error: Exception, overrides: Sequence[str], config_dir: str | None) -> str:
    """One sentence for what Hydra found wrong."""
    if isinstance(error, yaml.YAMLError | UnicodeDecodeError):
        return unreadable(unreadable_file(error, config_dir), error)
    empty = [text for text in overrides if text.partition("=")[2] in ("null", "") and "." not in text]
    if empty and isinstance(error, ValueError):
        return f"{empty[0]} chooses nothing: name one of the choices that sciuq-run --help lists."
    several = re.search(r"Ambiguous value for argument '([^']+)'", str(error))
    if several:
        return f"{several.group(1)} names several values: add -m to run them all, or quote them as one."
    options = getattr(error, "options", None)
    missing = getattr(error, "missing_cfg_file", None)
    if missing and str(missing).startswith("hydra/launcher/"):
        extra = EXTRAS.get(str(missing).rpartition("/")[2], "")
        return f"this sweep needs packages that are not installed: pip install 'sciuq-runner[{extra}]'."
    if missing and str(missing).startswith("problem/"):
        value = str(missing).removeprefix("problem/")
        if is_meant_as_file(value):
            return not_a_file(value)
    if missing and options:
        group, _, name = str(missing).rpartition("/")
        return f"{group}={name} does not exist: {nearest(name, options)}"
    unparsed = getattr(error, "override", None)
    if unparsed is not None:
        key, _, value = str(unparsed).partition("=")
        if key == "problem" and is_meant_as_file(value):
            return not_a_file(value)
        return f"'{unparsed}' cannot be read: write key=value, for example seed=3, and quote special characters."
    found = re.search(r"Could not (?:override|append|delete)[^']*'([^']+)'", str(error))
    if found:
        key = found.group(1)
        known, file = known_keys(overrides, key, config_dir)
        hint = nearest_key(key, known)
        if file is not None and key.startswith(tuple(f"problem.{name}" for name in parts_of_problems())):
            return f"{key} is not in {file}: add it with +{key}=…{f', or {hint}' if hint.endswith('?') else '.'}"
        return f"{key} is not a setting: {hint}"
    return _line(error)


def known_keys(overrides: Sequence[str], wrong: str, config_dir: str | None) -> tuple[list[str], str | None]:
    """All keys that exist under the other choices that were made, to suggest one for the wrong key; and the file that
    the problem is from, if it is from one."""
    others = [text for text in overrides if wrong not in text and "." not in text.split("=")[0]]
    try:
        cfg = compose(others, config_dir)
    except ConfigError:
        cfg = compose([], config_dir)
    file = cfg.problem.get("file") if cfg.problem.get("_target_") == USER_PROBLEM else None
    return all_keys(OmegaConf.to_container(cfg, resolve=False)), file


def parts_of_problems() -> list[str]:
    """What the file of a problem can have."""
    return [field.name for field in dataclasses.fields(locate(USER_PROBLEM, "problem")) if field.name != "file"]


def all_keys(node: object, group: str = "") -> list[str]:
    """The dotted names of all settings in nested dictionaries, groups among them."""
    found = []
    for name, value in node.items() if isinstance(node, Mapping) else ():
        if name != "_target_" and (group, name) != ("problem.", "file"):  # the command line names it
            found += [f"{group}{name}", *all_keys(value, f"{group}{name}.")]
    return found


def nearest_key(key: str, known: Sequence[str]) -> str:
    """A hint that names the closest setting, in the same group first; all of them would fill the screen."""
    group, dot, rest = key.partition(".")
    inside = [name.removeprefix(f"{group}.") for name in known if dot and name.startswith(f"{group}.")]
    for given, names, prefix in ((rest, inside, f"{group}."), (key, [] if inside else known, "")):
        hint = nearest(given, names)
        if hint.startswith("did you mean"):
            return hint.replace("'", f"'{prefix}", 1)
    return "sciuq-run --cfg job shows all that there are."


def _unresolved(error: OmegaConfBaseException, cfg: DictConfig) -> str:
    """A sentence for a value that refers to another, or is none yet."""
    cause = _root_cause(error)
    key = error.full_key or "A setting"
    absent = re.search(r"[Mm]issing mandatory value: ([\w.]+)", str(error))
    if isinstance(error, MissingMandatoryValue) or absent:
        named = absent.group(1) if absent and not isinstance(error, MissingMandatoryValue) else key
        return f"{named} has no value: write one instead of ???."
    if isinstance(cause, ConfigError) or not isinstance(error, InterpolationResolutionError):
        return _line(cause)
    missing = re.search(r"Interpolation key '([^']+)' not found", str(error))
    if missing:
        known = all_keys(OmegaConf.to_container(cfg, resolve=False))
        return f"{key} refers to {missing.group(1)}, which is not a setting: {nearest_key(missing.group(1), known)}"
    return f"{key} cannot be resolved: {first_line(error)}."


def _root_cause(error: BaseException) -> BaseException:
    """Our own error inside those that OmegaConf wraps around it, if there is one."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, ConfigError):
            return inner
        inner = inner.__cause__ or inner.__context__
    return error


def _line(error: BaseException) -> str:
    """The message of an error as one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__
