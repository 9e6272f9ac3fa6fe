"""YAML files of one's own: those that describe problems become choices of Hydra, and each mistake in one a sentence."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import KeyValidationError

from sciuq_runner.errors import ConfigError, first_line
from sciuq_runner.schema import PAIRS, USER_PROBLEM

CONFIG_MODULE = "sciuq_runner.conf"

SUFFIX = re.compile(r"\.[A-Za-z]+$")

ADOPTED: dict[str, Path] = {}  # files that became choices of the group problem

MAX_VALUES = 100_000


def refuse_bomb(path: Path) -> yaml.Node | None:
    """The node at the top of a YAML file, None where it is empty.

    Refuses a file whose aliases unfold into more values than fit anywhere, or that nests too deeply.
    """
    try:
        top: yaml.Node | None = yaml.compose(path.read_bytes(), Loader=yaml.SafeLoader)
    except RecursionError as error:
        raise ConfigError(f"{path} nests too deeply.") from error
    sizes: dict[int, float] = {}

    def size(node: Any, depth: int) -> float:
        if depth > 100:
            raise ConfigError(f"{path} nests too deeply, or contains itself.")
        if id(node) not in sizes:
            inner = node.value if isinstance(node, yaml.CollectionNode) else []
            parts = [part for item in inner for part in (item if isinstance(item, tuple) else (item,))]
            sizes[id(node)] = 1.0 + sum(size(part, depth + 1) for part in parts)
        return sizes[id(node)]

    if top is not None and size(top, 0) > MAX_VALUES:
        raise ConfigError(f"{path} unfolds into more than {MAX_VALUES} values: write fewer aliases (*name).")
    return top


def refuse_bombs(config_dir: str | None) -> None:
    """The same for all files that Hydra may read from a folder of the person's own."""
    for path in sorted(Path(config_dir).rglob("*.yaml")) if config_dir else ():
        try:
            refuse_bomb(path)
        except (yaml.YAMLError, OSError, ValueError):
            continue  # whoever needs it says what is wrong


def adopt_files(arguments: Sequence[str]) -> list[str]:
    """Make every ``problem=./my_problem.yaml`` a choice of the group ``problem``, and name that choice instead."""
    adopted = []
    for argument in arguments:
        key, given, value = argument.partition("=")
        if key == "problem" and given:
            adopted.append(f"problem={','.join(_adopt(part) for part in value.split(','))}")
        else:
            adopted.append(argument)
    return adopted


def _adopt(value: str) -> str:
    text = value.strip().strip("'\"")
    if not _is_yaml(text):
        if text.startswith(("./", "../", "/", "~")):  # else it can be a choice of Hydra's, in a folder of its own
            raise ConfigError(not_a_file(text))
        return value
    try:
        path = Path(text).expanduser().resolve()
    except RuntimeError as error:  # of a person who is not there
        raise ConfigError(f"problem={value}: {first_line(error)}") from error
    if not path.is_file():
        raise ConfigError(not_a_file(text))
    return adopt_file(path)


def adopt_file(path: Path) -> str:
    """Make a YAML file a choice of the group ``problem``; returns the name of the choice."""
    from hydra.core.config_store import ConfigStore

    try:
        top = refuse_bomb(path)
        node = OmegaConf.to_container(OmegaConf.load(path))
    except ConfigError:
        raise
    except Exception as error:  # whatever the parser finds is a mistake in the file
        raise ConfigError(unreadable(str(path), error)) from error
    if not isinstance(top, yaml.MappingNode) or not isinstance(node, dict) or not node:
        kinds = {yaml.ScalarNode: "a single word or text", yaml.SequenceNode: "a list"}
        raise ConfigError(
            f"{path} should describe a problem by {PAIRS}, with the names coordinates, unknowns, observed ...; "
            f"it holds {kinds.get(type(top), 'nothing')}."
        )
    for key in ("_target_", "file"):
        if key in node:
            raise ConfigError(f"{path}: leave out {key}, which is set by itself.")
    if "defaults" in node:
        raise ConfigError(f"{path}: leave out defaults, which a problem has none of.")
    name = _choice_name(path)
    node = {"_target_": USER_PROBLEM, **node, "file": str(path)}
    ConfigStore.instance().store(name=name, group="problem", node=node, provider=str(path))
    return name


def forget_file(path: Path) -> None:
    """A problem from a file is a choice no more: its name is free for another."""
    from hydra.core.config_store import ConfigStore

    for name in [name for name, file in ADOPTED.items() if file == path]:
        del ADOPTED[name]
        ConfigStore.instance().repo.get("problem", {}).pop(f"{name}.yaml", None)


def _is_yaml(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml"))


def is_meant_as_file(value: str) -> bool:
    """Whether the value of ``problem=`` has a slash or a suffix, or a YAML file has its name."""
    return "/" in value or SUFFIX.search(value) is not None or _yaml_beside(value) is not None


def _yaml_beside(value: str) -> str | None:
    """The YAML file that has the name ``value``, with a suffix added or in place of another."""
    names = [f"{stem}{suffix}" for stem in (value, os.path.splitext(value)[0]) for suffix in (".yaml", ".yml")]
    return next((name for name in names if name != value and os.path.isfile(os.path.expanduser(name))), None)


def not_a_file(value: str) -> str:
    """A sentence for ``problem=value``, meant as a file, that is no YAML file."""
    path, beside = os.path.expanduser(value), _yaml_beside(value)
    advice = f"did you mean 'problem={beside}'?" if beside is not None else None
    if os.path.isdir(path):
        return f"problem={value} is a folder: {advice or 'name a YAML file.'}"
    if _is_yaml(value) and os.path.isfile(path):
        return (
            f"problem={value} is a file, which only the command line can name: write problem={value} by itself there."
        )
    if not _is_yaml(value) and (os.path.isfile(path) or SUFFIX.search(value)):
        advice = advice or "describe the problem in a file that ends with .yaml."
        return f"problem={value} is not a YAML file: {advice}"
    advice = advice or "name a YAML file, or a problem that sciuq-run --help lists."
    return f"problem={value} is not there: {advice}"


def unreadable(name: str, error: Exception) -> str:
    """A sentence for what the parser finds wrong in the YAML file ``name``."""
    if isinstance(error, UnicodeDecodeError):
        return f"{name} is not a text file in UTF-8."
    if isinstance(error, KeyValidationError):
        return f"{name} has a name that YAML does not read as a text: put the name in quotes."
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"{name} is not valid YAML: {first_line(error)}"
    found = error.problem or first_line(error)
    twice = re.fullmatch(r"found duplicate key (.*)", found, re.DOTALL)
    if twice:
        found = f"{twice.group(1)} is there twice: keep one"
    elif "'\\t'" in found:
        found = "a tab cannot be used to indent: use spaces"
    place = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
    return f"{name} is not valid YAML{place}: {found}."


def unreadable_file(error: Exception, config_dir: str | None) -> str:
    """The name of the configuration file in which the parser found an error."""
    mark = getattr(error, "problem_mark", None)
    named = mark.name if mark is not None else getattr(error, "name", None)
    if named:
        return str(named)
    for path in sorted(Path(config_dir).rglob("*.yaml")) if config_dir else ():
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return str(path)
        except OSError:
            continue
    return "A configuration file"


def _choice_name(path: Path) -> str:
    """A name for a problem from a file: its stem, unless that is taken or would be read as something else.

    Hydra takes ASCII alone.
    """
    letters = unicodedata.normalize("NFKD", path.stem)  # ä becomes a and a mark
    stem = re.sub(r"\W", "_", "".join(c for c in letters if not unicodedata.combining(c)), flags=re.ASCII)
    built_in = resources.files(CONFIG_MODULE).joinpath("problem", f"{stem}.yaml").is_file()
    if built_in or not isinstance(yaml.safe_load(stem), str) or not stem.isidentifier():
        stem = f"user_{stem}"
    name, number = stem, 1
    while ADOPTED.setdefault(name, path) != path:  # another file of the same name
        number += 1
        name = f"{stem}_{number}"
    return name


def original(overrides: Sequence[str], config: Mapping[str, Any]) -> list[str]:
    """Overrides as they can be given again: a problem from a file by its file."""
    file = config["problem"].get("file") if config["problem"]["_target_"] == USER_PROBLEM else None
    return [f"problem={file}" if file and text.startswith("problem=") else text for text in overrides]
