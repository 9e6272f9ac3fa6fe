"""A sweep inside somebody else's process, and its table as a data frame."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciuq_runner import files, layout
from sciuq_runner.config.compose import override_text
from sciuq_runner.config.environment import QUIET_VARIABLE
from sciuq_runner.config.problem_files import adopt_files, refuse_bombs
from sciuq_runner.config.problem_mapping import has_functions
from sciuq_runner.config.uris import take_credentials
from sciuq_runner.errors import ConfigError
from sciuq_runner.runs.library import allow, display, log_into, override_texts, problem_choice, undisturbed
from sciuq_runner.runs.surroundings import Surroundings
from sciuq_runner.sweeps import job
from sciuq_runner.sweeps.check import check_jobs
from sciuq_runner.sweeps.plan import Planned
from sciuq_runner.sweeps.request import SweepRequest, read_sweep
from sciuq_runner.sweeps.run import run_sweep
from sciuq_runner.sweeps.table import Row
from sciuq_runner.tracking.flat_keys import flatten_metrics

if TYPE_CHECKING:
    import pandas as pd

QUIET = ("hydra/job_logging=none", "hydra/hydra_logging=none")  # logging is the business of the caller


def make_sweep(
    grid: Mapping[str, Any],
    problem: str | Path | Mapping[str, Any],
    settings: Mapping[str, Any],
    overrides: Sequence[str] = (),
    folder: str | Path | None = None,
    trust: Sequence[str] = (),
    config_dir: str | Path | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Run a sweep as :func:`sciuq_runner.sweep` describes it."""
    import pandas as pd

    varied = values_of(grid)
    for key in varied:
        if key in settings or (key == "problem" and isinstance(problem, Mapping)):
            raise ConfigError(f"sweep: {key} is in the grid and given beside it: leave one of them out.")
    rows: list[Row] = []
    with undisturbed(), problem_choice(problem) as choice:
        allow(trust)
        os.environ[QUIET_VARIABLE] = "yes"
        given = [] if "problem" in varied else [f"problem={choice}"]
        given += [f"{key}={','.join(values)}" for key, values in varied.items()]
        given += [*override_texts(settings), *overrides, *QUIET]
        given += [f"trust=[{','.join(trust)}]"] if trust else []
        given += [override_text("hydra.sweep.dir", str(Path(folder).expanduser().resolve()))] if folder else []
        refuse_bombs(str(config_dir) if config_dir else None)
        request = read_sweep(adopt_files(take_credentials(given)), str(config_dir) if config_dir else None)
        refuse_elsewhere(problem, request)
        if not request.settings.resume:
            refuse_used_sweep(request.folder)
        tracker = check_jobs(request)
        with surroundings(Surroundings(display(progress), log=log_into)):
            sweep = run_sweep(
                request, tracker, lambda request_stop: nullcontext(), lambda found, *_: rows.extend(found)
            )
        jobs = {item.number: item for item in sweep.plan.jobs}
        return pd.DataFrame([describe(row, jobs[row.job], grid) for row in rows])


def refuse_elsewhere(problem: Any, request: SweepRequest) -> None:
    """Other processes do not have the Python functions of this one."""
    launcher = str(request.shared.hydra.launcher.get("_target_"))
    if has_functions(problem) and not launcher.endswith("BasicLauncher"):
        choice = request.shared.hydra.runtime.choices.get("sweep")
        raise ConfigError(
            f"sweep={choice} runs jobs in other processes, which do not have the Python functions of "
            "problem.equations: write them as expressions, or leave sweep out."
        )


def refuse_used_sweep(folder: Path) -> None:
    """A folder is for one sweep."""
    if (folder / layout.SWEEP).exists():
        raise ConfigError(f"{folder} already holds a sweep: choose another folder, or add sweep.resume=true.")


def values_of(grid: Any) -> dict[str, list[str]]:
    """The values of every setting of the grid, as the override grammar takes them."""
    if not isinstance(grid, Mapping) or not grid:
        raise ConfigError("sweep: the grid should be a mapping of settings to lists of values: {'seed': [0, 1]}.")
    found = {}
    for key, values in grid.items():
        if isinstance(values, str) or not hasattr(values, "__iter__") or not len(list(values)):
            raise ConfigError(f"sweep: {key}={values!r} should be a list of values; one value is given by keyword.")
        found[str(key)] = [value_text(value) for value in values]
    return found


def value_text(value: Any) -> str:
    return override_text("", value).removeprefix("=")


def describe(row: Row, planned: Planned, grid: Mapping[str, Any]) -> dict[str, Any]:
    """One job: the settings of the grid, how it ended, where it is, its score on validation data and its metrics."""
    chosen = dict(text.split("=", 1) for text in planned.overrides)
    found: dict[str, Any] = {}
    for key, values in grid.items():
        found[key] = next((value for value in values if value_text(value) == chosen.get(key)), chosen.get(key))
    found |= {"status": row.status, "folder": row.folder, "sentence": row.sentence, "validation_nll": row.score}
    path = Path(row.folder) / layout.METRICS
    return found | (flatten_metrics(files.read_json(path)) if path.is_file() else {})


@contextmanager
def surroundings(chosen: Surroundings) -> Iterator[None]:
    """Jobs that run in this process are made under these surroundings."""
    token = job.SURROUNDINGS.set(chosen)
    try:
        yield
    finally:
        job.SURROUNDINGS.reset(token)
