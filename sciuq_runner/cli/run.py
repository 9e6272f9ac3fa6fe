"""``sciuq-run``: checks everything first, then lets Hydra start the work."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from sciuq_runner.cli.common import conclude
from sciuq_runner.config.environment import TRUST_VARIABLE, trusted
from sciuq_runner.errors import FAILED, INTERRUPTED, OK, WRONG_INPUT, ConfigError, RunError

if TYPE_CHECKING:
    from omegaconf import DictConfig


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-run``."""
    conclude("sciuq-run", lambda: help_or_run(list(sys.argv[1:] if argv is None else argv)))


def help_or_run(arguments: list[str]) -> int:
    """Print the help where it is asked for, which must be known before anything heavy is imported; else run."""
    early = _early(arguments)
    if early.help:
        from sciuq_runner.cli import help as help_text

        print(help_text.text(early.config_dir))
        return OK
    logging.raiseExceptions = False  # a log that cannot be written, on a full disk, is no reason for a traceback
    return run(arguments)


def _early(arguments: list[str]) -> argparse.Namespace:
    """What must be known before anything heavy is imported."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--config-dir", "-cd", nargs="?")
    return parser.parse_known_args(arguments)[0]


def run(arguments: list[str]) -> int:
    """Check the command line, and do what it says; returns the exit status."""
    from sciuq_runner.config.problem_files import adopt_files
    from sciuq_runner.config.resolvers import register_resolvers
    from sciuq_runner.config.uris import take_credentials

    register_resolvers()
    resumes = any(argument.startswith("resume=") for argument in arguments)
    grant_trust(arguments)
    arguments = take_credentials(arguments)
    parsed, arguments = parse(adopt_files(resumed(arguments) if resumes else arguments))
    refuse_flags(parsed)
    if parsed.hydra_help or parsed.shell_completion:
        show_by_hydra(arguments)
        return OK
    if parsed.cfg:
        from sciuq_runner.cli.show import shown

        print(shown(check_composition(parsed), parsed.cfg, parsed.package), end="")
        return OK
    if parsed.info:
        check_composition(parsed)
        show_by_hydra(arguments)
        return OK
    if parsed.multirun:
        return run_many(parsed)
    return run_one(parsed, resumes)


def run_one(parsed: argparse.Namespace, resumes: bool) -> int:
    """A single run."""
    from sciuq_runner.runs.start import Request, get_started

    start = get_started(Request(parsed.overrides, parsed.config_dir, resumes))

    from sciuq_runner.runs.surroundings import terminal

    try:
        outcome, _ = start.make(terminal())
    except RunError:  # the log has it
        return FAILED
    except ConfigError as error:
        if not error.is_logged:
            raise
        return WRONG_INPUT
    return INTERRUPTED if outcome.interrupted else OK


def run_many(parsed: argparse.Namespace) -> int:
    """A sweep."""
    from sciuq_runner.config.problem_files import refuse_bombs
    from sciuq_runner.sweeps.request import read_sweep

    refuse_bombs(parsed.config_dir)
    request = read_sweep(parsed.overrides, parsed.config_dir)

    from sciuq_runner.runs.signals import stop_on_signal
    from sciuq_runner.sweeps.check import check_jobs
    from sciuq_runner.sweeps.console import print_sweep
    from sciuq_runner.sweeps.run import run_sweep

    return run_sweep(request, check_jobs(request), stop_on_signal, print_sweep).exit_status()


def check_composition(parsed: argparse.Namespace) -> DictConfig:
    """A configuration that is only to be shown, with Hydra's own part; refuses mistakes in it."""
    from sciuq_runner.config.compose import compose, plain, refuse_code
    from sciuq_runner.config.problem_files import refuse_bombs

    refuse_bombs(parsed.config_dir)
    cfg = compose(parsed.overrides, parsed.config_dir, with_hydra=True)
    refuse_code(cfg, parsed.overrides)
    plain(cfg)
    return cfg


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """What Hydra will read, and the arguments in the order that it understands: flags first."""
    from sciuq_runner.config.hydra_internals import arguments_parser

    def refuse(message: str) -> NoReturn:
        raise ConfigError(f"the command line is not understood: {message}; sciuq-run --help shows what there is.")

    parser = arguments_parser()
    parser.error = refuse  # type: ignore[method-assign]
    parsed = parser.parse_intermixed_args(arguments)
    flags = list(arguments)
    for override in reversed(parsed.overrides):
        del flags[len(flags) - 1 - flags[::-1].index(override)]
    return parsed, [*flags, *parsed.overrides]


def refuse_flags(parsed: argparse.Namespace) -> None:
    """Options of Hydra that would go around our checks, or end in its traceback."""
    for name in ("experimental_rerun", "config_name", "config_path"):
        if getattr(parsed, name, None):
            flag = "--" + name.replace("_", "-")
            raise ConfigError(f"{flag} is not supported: choose with group=choice, or add files with --config-dir.")
    from sciuq_runner.config.compose import refuse_deletions

    modes = [name for name in ("run", "multirun", "cfg", "info", "shell_completion") if getattr(parsed, name, None)]
    if len(modes) > 1:
        flags = " and ".join("--" + name.replace("_", "-") for name in modes)
        raise ConfigError(f"{flags} exclude each other: give one of them.")
    completion = re.fullmatch("(install|uninstall|query)=(bash|fish|zsh)", " ".join(parsed.overrides))
    if parsed.shell_completion and not completion:
        raise ConfigError("-sc needs one of install=, uninstall= and query= with bash, fish or zsh: -sc install=bash.")
    refuse_deletions(parsed.overrides)


def resumed(arguments: list[str]) -> list[str]:
    """The arguments of the run that ``resume=`` names."""
    named = [argument for argument in arguments if argument.startswith("resume=")]
    from sciuq_runner.runs.resume import restart_arguments

    return restart_arguments(named[0].partition("=")[2], [item for item in arguments if item != named[0]])


def grant_trust(overrides: Sequence[str]) -> None:
    """Remember which modules the person at the command line trusts; no file can add to them."""
    granted = [text.partition("=")[2].strip("[]").split(",") for text in overrides if text.startswith("trust=")]
    names = [name.strip() for part in granted for name in part if name.strip()]
    os.environ[TRUST_VARIABLE] = ",".join(dict.fromkeys([*trusted(), *names]))


def show_by_hydra(arguments: list[str]) -> None:
    """Let Hydra show its help, how a configuration came about, or the completion of a shell; nothing is run."""
    import hydra

    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come to us, and become sentences here
    sys.argv = [sys.argv[0], *arguments]
    decorate = hydra.main(version_base="1.3", config_path="pkg://sciuq_runner.conf", config_name="config")
    decorate(lambda _: None)()


if __name__ == "__main__":
    main()
