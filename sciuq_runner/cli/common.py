"""What all command lines beside ``sciuq-run`` share: a sentence for every mistake, and exit statuses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from sciuq_runner.errors import INTERRUPTED, OK, WRONG_INPUT, ConfigError, told


class Parser(argparse.ArgumentParser):
    """A parser that answers a mistake with one sentence."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; --help shows what can be given.")


def run_parser(name: str, description: str) -> Parser:
    """The parser of a command about a finished run."""
    parser = Parser(prog=name, description=description, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help="folder of a finished run, or its id in MLflow")
    return parser


def conclude(name: str, action: Callable[[], None]) -> NoReturn:
    """Do the work of a command and end with its exit status."""
    status = WRONG_INPUT
    try:
        action()
        status = OK
    except ConfigError as error:
        print(f"{name}: {error}", file=sys.stderr)
    except OSError as error:
        print(f"{name}: {told(error)}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"{name}: stopped.", file=sys.stderr)
        status = INTERRUPTED
    sys.exit(status)
