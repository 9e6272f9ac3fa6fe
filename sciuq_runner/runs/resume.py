"""Going on with a run that was killed: what is kept in its folder from the first moment, and how it is found."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sciuq_runner import __version__, files, layout
from sciuq_runner.config.compose import quote
from sciuq_runner.config.configuration_hash import configuration_hash
from sciuq_runner.config.environment import trusted
from sciuq_runner.config.uris import is_own
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.metrics_file import STOPPED_EARLY
from sciuq_runner.physics.data_files import changed
from sciuq_runner.schema import construct

PLACES = ("tracking.uri=", "tracking.artifacts=")
MOVED = ("technique=", "architecture=")
"""Groups that now are below those of the presets of the paper."""


@dataclass(frozen=True)
class Origin:
    """How a run was started, which run of MLflow it is, and the SHA-256 of every data file that it reads.

    ``digest`` stands for its configuration; ``status`` is that of MLflow, and ``score`` on validation readings is there
    when it has finished.
    """

    overrides: list[str]
    config_dir: str | None = None
    mlflow_run: str | None = None
    data: dict[str, str] = field(default_factory=dict)
    digest: str = ""
    status: str = "RUNNING"
    score: float | None = None

    def finished(self, folder: Path) -> bool:
        """Whether it came to its end, with all results in the folder; MLflow may have missed them (``sciuq-sync``)."""
        return self.status == "FINISHED" and (folder / layout.METRICS).is_file()

    def write(self, folder: Path) -> None:
        files.write_json(folder / layout.RESUME, asdict(self))


def has_all_results(folder: Path) -> bool:
    """Whether the results in a folder are those of all steps: a run that was stopped early has some, and can go on."""
    path = folder / layout.METRICS
    return path.is_file() and not files.read_json(path).get(STOPPED_EARLY)


def digest(config: Mapping[str, Any], data: Mapping[str, str]) -> str:
    """The hash of a resolved configuration and of its data: runs that share it find the same."""
    text = json.dumps([__version__, configuration_hash(config), sorted(data.values())])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def read_origin(folder: Path) -> Origin | None:
    """The origin of a run folder, if one was written."""
    path = folder / layout.RESUME
    if not path.is_file():
        return None
    values = files.read_json(path)
    try:
        return construct(Origin, values, layout.RESUME)
    except ConfigError as error:
        raise ConfigError(f"{path} does not say how the run was started ({error}): start it anew.") from error


def restart_arguments(name: str, others: Sequence[str]) -> list[str]:
    """The command line that goes on with the run of this folder or MLflow run id."""
    config_dir, others = split_config_dir(others)
    folder = Path(name) if Path(name).is_dir() else find_folder(name)
    origin = read_origin(folder)
    if origin is None:
        raise ConfigError(f"resume={name} is not the folder of a run, nor the id of a run in MLflow.")
    for item in others:
        if not item.startswith("trust=") and not (item.startswith(PLACES) and same(item, origin.overrides)):
            raise ConfigError(f"resume={name} goes on with the settings of that run: leave out {item}.")
    files.refuse_links(folder)
    if has_all_results(folder):
        raise ConfigError(f"resume={name} is a run that has already finished.")
    for path in changed(origin.data):
        raise ConfigError(f"resume={name}: {path} has changed since the run was started: restore it, or start anew.")
    refuse_commands(origin, name)
    refuse_places(origin, name, others)
    flags = repeated_config_dir(origin, name, config_dir)
    overrides = [f"experiment/paper/{text}" if text.startswith(MOVED) else text for text in origin.overrides]
    return [*flags, *overrides, f"hydra.run.dir={quote(str(folder.resolve()))}"]


def problem_file(name: str) -> Path:
    """The YAML file of the problem of an unfinished run."""
    folder = Path(name) if Path(name).is_dir() else find_folder(name)
    origin = read_origin(folder)
    named = (
        [text.removeprefix("problem=") for text in origin.overrides if text.startswith("problem=")] if origin else []
    )
    if not named or not Path(named[-1]).is_file():
        raise ConfigError(f"resume={name}: its problem is not in a file, and has no Python functions.")
    return Path(named[-1])


def split_config_dir(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The folder of configurations that a command line names, and the rest of it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config-dir", "-cd", nargs="?")
    known, others = parser.parse_known_args(list(arguments))
    return known.config_dir, others


def repeated_config_dir(origin: Origin, name: str, given: str | None) -> list[str]:
    """Configurations that the run was started with: its folder names them, the person says that they may be used."""
    kept = origin.config_dir
    if kept and (given is None or Path(given).resolve() != Path(kept).resolve()):
        raise ConfigError(
            f"resume={name} needs configurations of yours: add --config-dir {shlex.quote(kept)} if you trust them."
        )
    if given and not kept:
        raise ConfigError(f"resume={name} goes on with the settings of that run: leave out --config-dir {given}.")
    return ["--config-dir", given] if given else []


def refuse_commands(origin: Origin, name: str) -> None:
    """A folder may come from anywhere: it says what to compute, never whom to trust or what else to start."""
    for text in origin.overrides:
        key, _, value = text.lstrip("+~").partition("=")
        if key == "trust" and any(module not in trusted() for module in listed(value)):
            raise ConfigError(f"resume={name} needs code of yours: add 'trust={value}' if you trust it.")
        if not re.fullmatch(r"[A-Za-z_][\w.@/-]*", key) or key.startswith(("hydra", "-")):
            raise ConfigError(
                f"resume={name}: {layout.RESUME} says {text!r}, which no run leaves there: start it anew."
            )


def refuse_places(origin: Origin, name: str, given: Sequence[str]) -> None:
    """Nor does it say where results, and the passwords of the environment, are sent."""
    for text in origin.overrides:
        key, _, value = text.lstrip("+~").partition("=")
        if key.startswith("tracking") and not re.fullmatch(r"tracking=[\w/-]+|tracking\.\w+=[^{}$]*", text):
            raise ConfigError(
                f"resume={name}: {layout.RESUME} says {text!r}, which no run leaves there: start it anew."
            )
        known = key == "tracking.uri" and is_own(unquoted(value))
        if text.startswith(PLACES) and value != "null" and not known and not same(text, given):
            raise ConfigError(f"resume={name} sends its results elsewhere: add {shlex.quote(text)} if you want that.")


def same(text: str, others: Sequence[str]) -> bool:
    """Whether a setting is among others, however they are quoted."""
    return unquoted(text) in [unquoted(other) for other in others]


def unquoted(text: str) -> str:
    return text.replace("'", "").replace('"', "")


def listed(value: str) -> list[str]:
    """The modules of ``[a, b]``."""
    return [module.strip() for module in value.strip("[]'\"").split(",") if module.strip()]


def find_folder(run_id: str) -> Path:
    """The folder of a run in MLflow."""
    from sciuq_runner.tracking.existing_store import run_folder

    found = run_folder(run_id)
    if found is None or not found.is_dir():
        raise ConfigError(f"resume={run_id} is not the folder of a run, nor the id of a run in MLflow.")
    return found
