"""A sweep inside somebody else's process, and its table as a data frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciuq_runner import files, layout
from sciuq_runner.config.compose import override_text
from sciuq_runner.config.problem_files import adopt_files, refuse_bombs
from sciuq_runner.config.problem_mapping import has_functions
from sciuq_runner.config.uris import take_credentials
from sciuq_runner.errors import ConfigError
from sciuq_runner.runs.library import allow, display, override_texts, problem_in, undisturbed
from sciuq_runner.runs.surroundings import Surroundings
from sciuq_runner.sweeps import job
from sciuq_runner.sweeps.check import check_jobs
from sciuq_runner.sweeps.plan import Planned
from sciuq_runner.sweeps.request import read_sweep
from sciuq_runner.sweeps.run import run_sweep
from sciuq_runner.sweeps.table import Row
from sciuq_runner.tracking.flat_keys import flatten_metrics

if TYPE_CHECKING:
    import pandas as pd

QUIET = ("hydra/job_logging=quiet", "hydra/hydra_logging=none")  # every job keeps its log, and nothing is printed


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

    if has_functions(problem) and settings.get("sweep", "basic") != "basic":
        raise ConfigError(
            f"sweep={settings['sweep']} runs jobs in other processes, which do not have the Python functions of "
            "problem.equations: write them as expressions, or leave sweep out."
        )
    varied = {key: values_of(key, value) for key, value in grid.items()}
    rows: list[Row] = []
    with undisturbed(), problem_in(problem, folder, "sweep") as (name, own):
        allow(trust)
        given = [] if "problem" in varied else [f"problem={name}"]
        given += [f"{key}={','.join(values)}" for key, values in varied.items()]
        given += [*override_texts(settings), *overrides, *QUIET]
        given += [f"trust=[{','.join(trust)}]"] if trust else []
        given += [override_text("hydra.sweep.dir", str(own))] if own is not None else []
        refuse_bombs(str(config_dir) if config_dir else None)
        request = read_sweep(adopt_files(take_credentials(given)), str(config_dir) if config_dir else None)
        tracker = check_jobs(request)
        with surroundings(Surroundings(display(progress))):
            sweep = run_sweep(
                request, tracker, lambda request_stop: nullcontext(), lambda found, *_: rows.extend(found)
            )
        jobs = {item.number: item for item in sweep.plan.jobs}
        return pd.DataFrame([describe(row, jobs[row.job], list(varied)) for row in rows])


def values_of(key: str, values: Any) -> list[str]:
    """The values of one setting, as the override grammar takes them."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise ConfigError(f"sweep: {key}={values!r} should be a list of values; one value is given by keyword.")
    return [override_text("", value).removeprefix("=") for value in values]


def describe(row: Row, planned: Planned, keys: Sequence[str]) -> dict[str, Any]:
    """One job: the settings of the grid, how it ended, where it is, and its metrics."""
    chosen = dict(text.split("=", 1) for text in planned.overrides)
    found: dict[str, Any] = {key: chosen.get(key, "").strip("'") for key in keys}
    found |= {"status": row.status, "folder": row.folder, "sentence": row.sentence}
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
