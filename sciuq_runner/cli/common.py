"""What all command lines beside ``sciuq-run`` share: a sentence for every mistake, and exit statuses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from sciuq_runner import layout
from sciuq_runner.errors import INTERRUPTED, OK, WRONG_INPUT, ConfigError, told


class Parser(argparse.ArgumentParser):
    """A parser that answers a mistake with one sentence."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; --help shows what can be given.")


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


def find_run(name: str, half_calibrated: bool = False) -> Path:
    """The folder of a finished run, named by its folder or by its id in MLflow."""
    from sciuq_runner.evaluation.result_files import refuse_half_calibrated
    from sciuq_runner.files import refuse_links
    from sciuq_runner.tracking.existing import run_folder

    folder = Path(name) if Path(name).is_dir() else run_folder(name)
    if folder is None or not folder.is_dir():
        raise ConfigError(f"{name} is not the folder of a run, nor the id of a run in MLflow.")
    if not (folder / layout.METRICS).is_file():
        raise ConfigError(f"{name} has no metrics.json: name the folder of a finished run.")
    if not half_calibrated:
        refuse_half_calibrated(folder)
    refuse_links(folder)
    return folder
