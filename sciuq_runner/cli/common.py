"""What all command lines share: a sentence for every mistake, and exit statuses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from sciuq_runner.errors import INTERRUPTED, OK, WRONG_INPUT, ConfigError, told

CLOSED_PIPE = 141  # what a shell says of a program that SIGPIPE has ended


class Parser(argparse.ArgumentParser):
    """A parser that answers a mistake with one sentence."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; --help shows what can be given.")


def run_parser(name: str, description: str) -> Parser:
    """The parser of a command about a finished run."""
    parser = Parser(prog=name, description=description, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help="folder of a finished run, or its id in MLflow")
    return parser


def conclude(name: str, action: Callable[[], int | None]) -> NoReturn:
    """Do the work of a command and end with its exit status, quietly where nobody reads its output any more."""
    try:
        status = _status_of(name, action)
    except BrokenPipeError:
        status = CLOSED_PIPE
    try:
        _flush()
    except OSError:  # the interpreter would try once more, and complain
        from sciuq_runner.runs.closed_output import silence_output

        silence_output()
    sys.exit(status)


def _status_of(name: str, action: Callable[[], int | None]) -> int:
    """Do the work of a command; a sentence for every mistake."""
    try:
        try:
            return action() or OK
        finally:
            _flush()  # that the reader has gone may show only here, also after --help
    except ConfigError as error:
        print(f"{name}: {error}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"{name}: {told(error)}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"{name}: stopped.", file=sys.stderr)
        return INTERRUPTED
    return WRONG_INPUT


def _flush() -> None:
    if sys.stdout is not None:  # closed before the start (>&-)
        sys.stdout.flush()
