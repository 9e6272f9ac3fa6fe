"""``sciuq-sync``: what is in run folders, into MLflow: of runs that it missed because it was away, or not asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sciuq_runner.cli.common import Parser, conclude
from sciuq_runner.errors import ConfigError


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-sync``."""
    conclude("sciuq-sync", lambda: run(sys.argv[1:] if argv is None else argv))


def run(arguments: Sequence[str]) -> None:
    """Upload one run after another; a run that cannot be uploaded does not stop the others."""
    parser = Parser(
        prog="sciuq-sync",
        allow_abbrev=False,
        description="Upload runs to MLflow from their folders. What is there already stays as it is.",
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="run folders, or folders of them")
    parser.add_argument("--uri", help="the MLflow store (MLFLOW_TRACKING_URI, or mlflow.db here)")
    options = parser.parse_args(arguments)

    from sciuq_runner.runs.folder_search import run_folders
    from sciuq_runner.runs.upload import upload

    failed = []
    for name in options.runs:
        for folder in list(run_folders(name)) or [name]:
            try:
                print(f"{folder}: {upload(folder, options.uri)}")
            except ConfigError as error:
                failed.append(str(error))
                print(f"{folder}: {error}")
    if failed:
        raise ConfigError(f"{len(failed)} of the runs could not be uploaded, for the reasons above.")


if __name__ == "__main__":
    main()
