"""A sentence for every way in which choices and settings can be wrong."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError, MissingMandatoryValue, OmegaConfBaseException

from sciuq_runner.config import choices
from sciuq_runner.config.problem_files import is_meant_as_file, not_a_file, unreadable, unreadable_file
from sciuq_runner.errors import ConfigError, first_line, nearest
from sciuq_runner.schema import USER_PROBLEM, locate

EXTRAS = {"joblib": "joblib", "submitit_slurm": "slurm", "submitit_local": "slurm", "ray": "ray"}
"""What to install for each launcher."""


Compose = Callable[[Sequence[str]], DictConfig]


def explain(error: Exception, overrides: Sequence[str], config_dir: str | None, compose: Compose) -> str:
    """One sentence for what Hydra found wrong; ``compose`` composes other overrides, to suggest their settings."""
    if isinstance(error, yaml.YAMLError | UnicodeDecodeError):
        return unreadable(unreadable_file(error, config_dir), error)
    empty = [text for text in overrides if text.partition("=")[2] in ("null", "") and "." not in text]
    if empty and isinstance(error, ValueError):
        return f"{empty[0]} chooses nothing: name one of the choices that sciuq-run --help lists."
    several = re.search(r"Ambiguous value for argument '([^']+)'", str(error))
    if several:
        return f"{several.group(1)} names several values: add -m to run them all, or quote them as one."
    missing = getattr(error, "missing_cfg_file", None)
    if missing:
        group = str(missing).rpartition("/")[0]
        known = getattr(error, "options", None) or [name for name, _ in choices.options(group, config_dir)]
        sentence = explain_choice(str(missing), known)
        if sentence:
            return sentence
    unparsed = getattr(error, "override", None)
    if unparsed is not None:
        key, _, value = str(unparsed).partition("=")
        if key == "problem" and is_meant_as_file(value):
            return not_a_file(value)
        return f"'{unparsed}' cannot be read: write key=value, for example seed=3, and quote special characters."
    found = re.search(r"Could not (?:override|append|delete)[^']*'([^']+)'", str(error))
    return explain_key(found.group(1), overrides, compose) if found else _line(error)


def explain_choice(missing: str, options: Sequence[str]) -> str:
    """A sentence for a file that is not in its group; empty where nothing is known about it."""
    group, _, name = missing.rpartition("/")
    if group == "hydra/launcher":
        return f"this sweep needs packages that are not installed: pip install 'sciuq-runner[{EXTRAS.get(name, '')}]'."
    if group.partition("/")[0] == "problem" and is_meant_as_file(missing.removeprefix("problem/")):
        return not_a_file(missing.removeprefix("problem/"))
    return f"{group}={name} does not exist: {nearest(name, options)}" if options else ""


def explain_key(key: str, overrides: Sequence[str], compose: Compose) -> str:
    """A sentence for a setting that is not there."""
    known, file = known_keys(overrides, key, compose)
    hint = nearest_key(key, known)
    if file is not None and key.startswith(tuple(f"problem.{name}" for name in parts_of_problems())):
        return f"{key} is not in {file}: add it with +{key}=…{f', or {hint}' if hint.endswith('?') else '.'}"
    return f"{key} is not a setting: {hint}"


def known_keys(overrides: Sequence[str], wrong: str, compose: Compose) -> tuple[list[str], str | None]:
    """All keys that exist under the other choices that were made, to suggest one for the wrong key; and the file that
    the problem is from, if it is from one."""
    others = [text for text in overrides if wrong not in text and "." not in text.split("=")[0]]
    try:
        cfg = compose(others)
    except ConfigError:
        cfg = compose([])
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


def explain_unresolved(error: OmegaConfBaseException, cfg: DictConfig) -> str:
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
