"""``sciuq-sync``: what is in run folders, into MLflow: of runs that it missed because it was away, or not asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciuq_runner import layout
from sciuq_runner.cli.common import Parser, conclude
from sciuq_runner.errors import ConfigError

if TYPE_CHECKING:
    from sciuq_runner.tracking.record import Record
    from sciuq_runner.tracking.tracker import Tracker


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
    failed = []
    for name in options.runs:
        for folder in folders(name) or [name]:
            try:
                print(f"{folder}: {upload(folder, options.uri)}")
            except ConfigError as error:
                failed.append(str(error))
                print(f"{folder}: {error}")
    if failed:
        raise ConfigError(f"{len(failed)} of the runs could not be uploaded, for the reasons above.")


def folders(top: Path) -> list[Path]:
    """The run folders at or below a folder."""
    from sciuq_runner.report.runs import run_folders

    return list(run_folders(top))


def upload(folder: Path, uri: str | None) -> str:
    """Bring one run into MLflow; a sentence on what was done."""
    from sciuq_runner.evaluation.metrics_file import read_metrics
    from sciuq_runner.evaluation.result_files import refuse_half_calibrated
    from sciuq_runner.files import refuse_links
    from sciuq_runner.locks import held
    from sciuq_runner.tracking.failures import complaint
    from sciuq_runner.tracking.record import read_record

    if not folders(folder):
        raise ConfigError(f"{folder} holds no run: name the folder of a run, or one with run folders in it.")
    refuse_links(folder)
    refuse_half_calibrated(folder)
    with held(folder):
        record = read_record(folder)
        metrics = read_metrics(folder) if (folder / layout.METRICS).is_file() else {}
        tracker = reach(record, uri, folder)
        try:
            return bring(tracker, record, metrics, folder)
        except Exception as error:  # a store can fail in any way
            raise ConfigError(
                f"MLflow did not take the run ({complaint(error)}): try again when it is there."
            ) from error


def reach(record: Record, uri: str | None, folder: Path) -> Tracker:
    """The store that the run belongs to; whoever made the folder may name it, the person says that it may be used."""
    import os
    import shlex

    from sciuq_runner.config.uris import VARIABLE, hide_password, is_own, with_credentials
    from sciuq_runner.tracking.tracker import Tracker

    if uri is None and record.uri is not None and not is_own(record.uri):
        kept = shlex.quote(hide_password(record.uri))
        raise ConfigError(f"{folder} belongs to a store elsewhere: add --uri {kept} if you want to send it there.")
    chosen = uri or record.uri
    tracker = Tracker(with_credentials(chosen) or os.environ.get(VARIABLE), record.experiment, Path.cwd())
    tracker.connect()
    return tracker


def bring(tracker: Tracker, record: Record, metrics: Mapping[str, Any], folder: Path) -> str:
    """What MLflow lacks of a run."""
    from sciuq_runner.config.configuration_hash import COMMIT
    from sciuq_runner.tracking.results import is_complete, log_results

    known = tracker.find(record.run)
    if known is not None and is_complete(tracker, known, record.status, bool(metrics)):
        return f"run {record.run} has everything already."
    if known is None:
        parent = {"mlflow.parentRunId": str(record.parent)} if tracker.find(record.parent) else {}
        tags = {COMMIT: "unknown", **record.tags, **parent}  # not the commit of this program
        tracker.start(record.name, tags, record.params, record.started)
        remember(folder, replace(record, run=tracker.run_id))
    n_metrics, n_files, model = log_results(tracker, metrics, folder)
    tracker.end(record.status)  # type: ignore[arg-type]
    made = "is new" if known is None else "was not complete"
    return (
        f"run {tracker.run_id} {made}: {n_metrics} metrics, {n_files} files{' and the model' if model else ''} added."
    )


def remember(folder: Path, record: Record) -> None:
    """Keep the id, so that what is done later with the run, or once more with this command, finds it."""
    from sciuq_runner.runs.resume import read_origin

    record.write(folder)
    origin = read_origin(folder)
    if origin is not None:
        replace(origin, mlflow_run=record.run).write(folder)


if __name__ == "__main__":
    main()
