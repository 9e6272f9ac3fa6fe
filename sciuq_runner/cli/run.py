"""``sciuq-run``: checks everything first, then lets Hydra start the work."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from sciuq_runner.config.environment import NOTES_VARIABLE, RESUME_VARIABLE, TRUST_VARIABLE, trusted
from sciuq_runner.errors import FAILED, INTERRUPTED, OK, WRONG_INPUT, ConfigError, first_line, told


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-run``."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    early = _early(arguments)
    if early.help:
        from sciuq_runner.cli import help as help_text

        print(help_text.text(early.config_dir))
        return
    logging.raiseExceptions = False  # a log that cannot be written, on a full disk, is no reason for a traceback
    try:
        status = run(arguments)
    except ConfigError as error:
        print(f"sciuq-run: {error}", file=sys.stderr)
        status = WRONG_INPUT
    except OSError as error:
        print(f"sciuq-run: {told(error)}", file=sys.stderr)
        status = WRONG_INPUT
    except KeyboardInterrupt:
        print("sciuq-run: stopped.", file=sys.stderr)
        status = INTERRUPTED
    sys.exit(status)


def _early(arguments: list[str]) -> argparse.Namespace:
    """What must be known before anything heavy is imported."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--config-dir", "-cd", nargs="?")
    return parser.parse_known_args(arguments)[0]


def run(arguments: list[str]) -> int:
    """Check the command line, then hand over to Hydra; returns the exit status."""
    from sciuq_runner.config.compose import carried_variables
    from sciuq_runner.config.problem_files import adopt_files
    from sciuq_runner.config.resolvers import register_resolvers
    from sciuq_runner.config.uris import take_credentials
    from sciuq_runner.locks import held

    register_resolvers()
    resumes = any(argument.startswith("resume=") for argument in arguments)
    grant_trust(arguments)
    arguments = take_credentials(arguments)
    parsed, arguments = parse(adopt_files(resumed(arguments) if resumes else arguments))
    refuse_flags(parsed)
    if parsed.hydra_help or parsed.shell_completion:
        _start_hydra(arguments)
        return OK
    tracker = check(parsed)
    if parsed.cfg:
        from sciuq_runner.cli.show import shown

        print(shown(parsed), end="")
        return OK
    if parsed.info:
        _start_hydra(arguments)
        return OK
    if parsed.multirun:
        from sciuq_runner.sweeps.run import run_sweep

        return run_sweep(parsed, tracker)
    from sciuq_runner.runs.runner import refuse_used

    folder = named_folder(parsed.overrides)
    with tempfile.TemporaryDirectory(prefix="sciuq_") as notes, held(folder):
        if folder is not None and not resumes:
            refuse_used(folder)
        os.environ[NOTES_VARIABLE] = notes
        os.environ[RESUME_VARIABLE] = "yes" if resumes else ""
        _start_hydra([*arguments, *carried_variables()])
        return worst_status(notes)


def named_folder(overrides: Sequence[str]) -> Path | None:
    """The run folder that the command line names; None where it is a new one of its own."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    named = [text for text in overrides if text.lstrip("+").startswith("hydra.run.dir=")]
    value = str(OverridesParser.create().parse_override(named[-1]).value()) if named else "${"
    return None if "${" in value else Path(value)


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """What Hydra will read, and the arguments in the order that it understands: flags first."""
    from sciuq_runner.config.hydra_internals import get_args_parser

    def refuse(message: str) -> NoReturn:
        raise ConfigError(f"the command line is not understood: {message}; sciuq-run --help shows what there is.")

    parser = get_args_parser()
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
    modes = [name for name in ("run", "multirun", "cfg", "info", "shell_completion") if getattr(parsed, name, None)]
    if len(modes) > 1:
        flags = " and ".join("--" + name.replace("_", "-") for name in modes)
        raise ConfigError(f"{flags} exclude each other: give one of them.")
    completion = re.fullmatch("(install|uninstall|query)=(bash|fish|zsh)", " ".join(parsed.overrides))
    if parsed.shell_completion and not completion:
        raise ConfigError("-sc needs one of install=, uninstall= and query= with bash, fish or zsh: -sc install=bash.")
    if any(override.startswith(("tuned", "~")) for override in parsed.overrides):
        raise ConfigError("tuned= and ~ cannot be used: change single settings with key=value instead.")


def worst_status(notes: str) -> int:
    """The exit status of what was done: it leaves a note."""
    from sciuq_runner.sweeps.notes import read_notes

    return max((note.status for note in read_notes(Path(notes)).values()), default=FAILED)


def resumed(arguments: list[str]) -> list[str]:
    """The arguments of the run that ``resume=`` names."""
    named = [argument for argument in arguments if argument.startswith("resume=")]
    from sciuq_runner.runs.resume import restart_arguments

    return restart_arguments(named[0].partition("=")[2], [item for item in arguments if item != named[0]])


def check(parsed: argparse.Namespace) -> Any:
    """Refuse whatever can be known to fail, before any work, folder or run in MLflow exists.

    Returns the connected tracker of the (first) job, None without tracking.
    """
    from sciuq_runner.config.compose import compose, plain, refuse_code
    from sciuq_runner.config.problem_files import refuse_bombs
    from sciuq_runner.sweeps.expansion import expand

    refuse_bombs(parsed.config_dir)
    jobs = expand(parsed.overrides, parsed.config_dir) if parsed.multirun else [list(parsed.overrides)]
    composed = [compose(job, parsed.config_dir, with_hydra=True) for job in jobs]
    for cfg in composed:
        refuse_code(cfg, parsed.overrides)
    configs = [plain(cfg) for cfg in composed]
    if parsed.cfg or parsed.info:
        return None
    from sciuq_runner.config.build import assemble, prepare
    from sciuq_runner.memory import is_shortage
    from sciuq_runner.runs.runner import allow_modules
    from sciuq_runner.sweeps.settings import check_sweep, memory_share, require_validation
    from sciuq_runner.target.checks import refuse_unusable
    from sciuq_runner.tracking.tracker import open_tracker

    searches = check_sweep(parsed)
    share = memory_share(parsed, len(jobs))
    tracker = None
    for index, config in enumerate(configs):
        allow_modules(config["trust"])
        built = assemble(config)
        try:
            dataset, target = prepare(built, share)
            refuse_unusable(target, dataset, built.problem.scalars)
        except (ArithmeticError, MemoryError, RuntimeError, ValueError) as error:
            if not is_shortage(error):
                raise
            raise ConfigError(
                f"There is not enough memory for the data of this problem ({first_line(error)}): choose fewer "
                "readings and test points under problem, or a smaller model."
            ) from error
        if searches:
            require_validation(dataset)
        tracker = open_tracker(built.tracking) if index == 0 else tracker
    if tracker is not None:
        tracker.connect()
    return tracker


def grant_trust(overrides: Sequence[str]) -> None:
    """Remember which modules the person at the command line trusts; no file can add to them."""
    granted = [text.partition("=")[2].strip("[]").split(",") for text in overrides if text.startswith("trust=")]
    names = [name.strip() for part in granted for name in part if name.strip()]
    os.environ[TRUST_VARIABLE] = ",".join(dict.fromkeys([*trusted(), *names]))


def _start_hydra(arguments: list[str]) -> None:
    import hydra

    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come to us, and become sentences here
    sys.argv = [sys.argv[0], *arguments]
    decorate = hydra.main(version_base="1.3", config_path="pkg://sciuq_runner.conf", config_name="config")
    decorate(task)()


def task(cfg: Any) -> float | None:
    """What Hydra calls for a single run. Returns its validation score."""
    from sciuq_runner.runs.runner import perform
    from sciuq_runner.sweeps.notes import Note

    status, score = FAILED, None
    try:
        status, score = perform(cfg)
    finally:
        Note("", status, score=score).leave()
    return score


if __name__ == "__main__":
    main()
