"""What MLflow should know of a run, kept in its folder too: where MLflow was away, it can be told later."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sciuq_runner import files, layout
from sciuq_runner.config.configuration_hash import RUN_FOLDER, TAG, configuration_hash
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.metrics_file import DEFAULT_MODEL, STOPPED_EARLY, read_metrics
from sciuq_runner.schema import construct
from sciuq_runner.tracking.experiment import DEFAULT_EXPERIMENT
from sciuq_runner.tracking.flat_keys import MAX_PARAM, flatten_params

RUNNING, FINISHED, KILLED = "RUNNING", "FINISHED", "KILLED"


@dataclass(frozen=True)
class RunRecord:
    """A run as it stands in MLflow: ``uri`` without credentials, ``run`` its id there, if it got that far."""

    name: str
    tags: dict[str, str]
    params: dict[str, str]
    started: int  # milliseconds since 1970
    uri: str | None = None
    experiment: str = DEFAULT_EXPERIMENT
    run: str | None = None
    parent: str | None = None
    status: str = RUNNING

    def write(self, folder: Path) -> None:
        files.write_json(folder / layout.TRACKING, asdict(self))


def describe(
    config: Mapping[str, Any], choices: Mapping[str, str], folder: Path, program: Mapping[str, str] | None = None
) -> RunRecord:
    """The name of a run, and the tags and parameters by which it can be found; ``program`` says what made it."""
    case, seed = str(config["problem"].get("case", "")), str(config["seed"])
    model = "" if choices.get("model") == DEFAULT_MODEL else choices.get("model", "")
    parts = (choices["problem"], case, model, choices["method"], f"seed {seed}")
    params = {key: str(value)[:MAX_PARAM] for key, value in flatten_params(config, choices).items()}
    tags = {**choices, "case": case, "seed": seed, RUN_FOLDER: str(folder), TAG: configuration_hash(config)}
    tags |= program or {}
    return RunRecord(" ".join(part for part in parts if part), tags, params, int(time.time() * 1000))


def read_record(folder: Path) -> RunRecord:
    """The record of a run that has ended; made from its metrics where a run without MLflow of an earlier version left
    none."""
    path, finished = folder / layout.TRACKING, (folder / layout.METRICS).is_file()
    if path.is_file():
        values = files.read_json(path)
        try:
            record = construct(RunRecord, values, layout.TRACKING)
        except ConfigError as error:
            raise ConfigError(f"{path} does not describe a run ({error}): it is damaged.") from error
    elif finished:
        known = read_metrics(folder)
        config = {key: value for key, value in known["config"].items() if key != "choices"}
        record = describe(config, known["config"]["choices"], folder.resolve())
    else:
        raise ConfigError(
            f"{folder} is not the folder of a run: it has neither {layout.TRACKING} nor {layout.METRICS}."
        )
    if record.status != RUNNING:
        return record
    if not finished:
        raise ConfigError(f"{folder} holds a run that has not ended: go on with sciuq-run resume={folder}.")
    status = KILLED if read_metrics(folder).get(STOPPED_EARLY) else FINISHED  # died between its last file and MLflow
    return replace(record, status=status)
