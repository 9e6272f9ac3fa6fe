"""What Hydra may be told about itself: its own settings name code to start, files to write and variables to set."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from omegaconf import DictConfig, OmegaConf

from sciuq_runner.config.environment import VARIABLES
from sciuq_runner.errors import ConfigError

TARGETS = (
    "hydra._internal.core_plugins.basic_launcher.BasicLauncher",
    "hydra._internal.core_plugins.basic_sweeper.BasicSweeper",
    "hydra_plugins.hydra_joblib_launcher.joblib_launcher.JoblibLauncher",
    "hydra_plugins.hydra_ray_launcher.ray_launcher.RayLauncher",
    "hydra_plugins.hydra_submitit_launcher.submitit_launcher.LocalLauncher",
    "hydra_plugins.hydra_submitit_launcher.submitit_launcher.SlurmLauncher",
)
"""In full: Hydra follows any attribute of a module, so that the beginning of a name says nothing about its end."""

HANDLERS = (
    "sciuq_runner.runs.console.ConsoleHandler",
    "logging.FileHandler",
    "logging.StreamHandler",
    "logging.NullHandler",
)
LOGGING = ("version", "formatters", "handlers", "root", "loggers", "disable_existing_loggers")
HANDLER_SETTINGS = ("class", "formatter", "level", "stream", "filename", "delay")
FORMATTER_SETTINGS = ("format", "datefmt")
LOGS = ("${hydra.runtime.output_dir}/run.log", "${hydra.runtime.output_dir}/${hydra.job.name}.log")
STREAMS = ("ext://sys.stdout", "ext://sys.stderr")

SUBMITIT = "${hydra.sweep.dir}/.submitit/%j"
COMMANDS = ("setup", "additional_parameters", "ray", "submitit_folder", "temp_folder")
"""Settings of launchers that a shell, another machine or the file system gets to see."""
OWN_COMMANDS = ("${sweep.address}", "${sweep.cores}", "${threads}", "WARNING", SUBMITIT)

TYPED = "hydra.job.override_dirname"  # Hydra writes it: what stands on the command line

GUARDED = ("callbacks", "launcher", "sweeper", "job", "job_logging", "hydra_logging", "output_subdir", "mode")


def refuse_code(cfg: DictConfig, trust: Sequence[str], given: Collection[str]) -> None:
    """Refuse what a configuration file could start, write or send through Hydra.

    ``given`` are the settings that the person has typed.
    """
    values: Any = OmegaConf.to_container(cfg, resolve=False)
    hydra = values["hydra"]
    if not isinstance(hydra, dict):
        not_for_files("hydra", hydra, "leave it out")
    trusted = tuple(f"{module}." for module in trust)
    for key, value in leaves("hydra", hydra):
        refuse_targets(key, value, trusted)
    for part in GUARDED:
        for key, value in leaves(f"hydra.{part}", hydra.get(part)):
            typed = key == TYPED or (part == "launcher" and key in given)
            if not typed and not key.startswith("hydra.sweeper.params."):
                refuse_indirection(key, value, values)
    for part in ("job_logging", "hydra_logging"):
        refuse_logging(f"hydra.{part}", hydra.get(part) or {}, trusted)
    refuse_launcher(hydra.get("launcher") or {}, given)
    refuse_job(hydra, given)
    address = values["sweep"].get("address") if isinstance(values.get("sweep"), dict) else None
    if address is not None and "sweep.address" not in given:
        not_for_files("sweep.address", address)


def leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """All values below a setting, each with its key."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from leaves(f"{key}.{name}", item)
    elif isinstance(value, list) and value:
        for item in value:
            yield from leaves(key, item)
    else:
        yield key, value


def not_for_files(key: str, value: Any, advice: str = "give it on the command line, or leave it out") -> NoReturn:
    """Say what no file may set."""
    raise ConfigError(f"{key}={value} cannot come from a configuration file: {advice}.")


def sections(key: str, value: Any) -> dict[str, dict[str, Any]]:
    """Named groups of settings."""
    if not isinstance(value, dict) or not all(isinstance(item, dict) for item in value.values()):
        raise ConfigError(f"{key} should be a mapping of mappings.")
    return value


def refuse_targets(key: str, value: Any, trusted: tuple[str, ...]) -> None:
    """Code that Hydra, or Python's logging, would start."""
    name = key.rpartition(".")[2]
    fine = value in TARGETS if name == "_target_" else name != "()"
    if not fine and not (name == "_target_" and str(value).startswith(trusted)):
        would_run(key, value)


def would_run(key: str, value: Any) -> NoReturn:
    """Say how code can be allowed."""
    module = str(value).split(".")[0]
    raise ConfigError(
        f"{key}={value} would run code: add trust=[{module}] on the command line to allow it, or leave it out."
    )


def refuse_indirection(key: str, value: Any, values: Mapping[str, Any]) -> None:
    """What stands elsewhere could be anything by the time that Hydra reads it: only references to plain values."""
    shown, seen = value, 0
    while isinstance(value, str) and "${" in value and value not in (*LOGS, SUBMITIT):
        reference = re.fullmatch(r"\$\{([A-Za-z_][\w.]*)\}", value)
        seen += 1
        if reference is None or seen > 10:
            not_for_files(key, shown, "write the value itself")
        value = values
        for name in reference.group(1).split("."):
            value = value.get(name, {}) if isinstance(value, Mapping) else {}
    hidden = shown is not value and isinstance(value, Mapping | list)
    if hidden or (isinstance(value, str) and key.startswith("hydra.launcher.") and not value.isprintable()):
        not_for_files(key, shown, "write a plain value")


def refuse_logging(key: str, settings: Any, trusted: tuple[str, ...]) -> None:
    """Logs go to the screen and into the run folder."""
    for name, value in leaves(key, settings):
        if isinstance(value, str) and "://" in value and value not in STREAMS:  # logging imports what ext:// names
            would_run(name, value.partition("://")[2])
    for name in settings:
        if name not in LOGGING:
            not_for_files(f"{key}.{name}", settings[name], "leave it out")
    for name, handler in sections(f"{key}.handlers", settings.get("handlers") or {}).items():
        kind = str(handler.get("class"))
        if kind.startswith(trusted):
            continue
        if kind not in HANDLERS:
            would_run(f"{key}.handlers.{name}.class", kind)
        wrong = [item for item in handler if item not in HANDLER_SETTINGS]
        wrong += ["filename"] if handler.get("filename") not in (None, *LOGS) else []
        for item in wrong:
            not_for_files(f"{key}.handlers.{name}.{item}", handler[item], "leave it out")
    for name, formatter in sections(f"{key}.formatters", settings.get("formatters") or {}).items():
        for item in formatter:
            if item not in FORMATTER_SETTINGS:
                not_for_files(f"{key}.formatters.{name}.{item}", formatter[item], "leave it out")


def refuse_launcher(settings: Mapping[str, Any], given: Collection[str]) -> None:
    """Launchers write some settings into the scripts of a cluster, and join clusters that others name."""
    for key, value in leaves("hydra.launcher", settings):
        command = key.startswith(tuple(f"hydra.launcher.{name}" for name in COMMANDS))
        text = isinstance(value, str) and value not in OWN_COMMANDS
        if key not in given and ((command and text) or not re.fullmatch(r"[\w.-]+", key)):
            not_for_files(key, value)


def refuse_job(hydra: Mapping[str, Any], given: Collection[str]) -> None:
    """A job has the environment that the person gave it, and its files the names that we gave them."""
    if hydra.get("mode") is not None:
        raise ConfigError(f"hydra.mode={hydra['mode']} cannot be set: add -m for a sweep, and nothing for a run.")
    if hydra.get("output_subdir") not in (None, ".hydra") and "hydra.output_subdir" not in given:
        not_for_files("hydra.output_subdir", hydra["output_subdir"])
    job = hydra["job"]
    for name in job["env_set"]:
        if name not in VARIABLES:
            raise ConfigError(f"hydra.job.env_set.{name} cannot be set: put {name} into the environment yourself.")
    if job["env_copy"] and "hydra.job.env_copy" not in given:
        not_for_files("hydra.job.env_copy", job["env_copy"])
    if not re.fullmatch(r"[\w-]+", str(job["name"])) and "hydra.job.name" not in given:
        not_for_files("hydra.job.name", job["name"])
