"""Mistakes of a sweep, found before any of its jobs starts."""

from __future__ import annotations

from sciuq_runner.config.compose import plain, refuse_code
from sciuq_runner.errors import ConfigError
from sciuq_runner.physics.problem import Dataset
from sciuq_runner.runs.runner import build, prepare_checked
from sciuq_runner.sweeps.request import SweepRequest, without_seed
from sciuq_runner.tracking.tracker import Tracker, open_tracker


def check_jobs(request: SweepRequest) -> Tracker | None:
    """Refuse whatever can be known to fail: every job is composed, and one of those that differ in their seed alone is
    prepared here too, only to see that it can be. Returns the connected tracker, None without tracking.
    """
    composed = [request.composer.compose(job) for job in request.jobs]
    for cfg in composed:
        refuse_code(cfg, request.overrides)
    configs = [plain(cfg) for cfg in composed]
    share, tracker = request.share(), None
    setups = [build(config) for config in without_seed(configs)]
    for index, setup in enumerate(setups):
        dataset, _ = prepare_checked(setup, share)
        if request.searches:
            require_validation(dataset)
        tracker = open_tracker(setup.tracking) if index == 0 else tracker
    if tracker is not None:
        tracker.connect()
    return tracker


def require_validation(dataset: Dataset) -> None:
    """A search needs readings to judge by that neither train nor test."""
    if not any(len(data.validation) for data in dataset.values()):
        raise ConfigError(
            "search=optuna needs validation readings, and the problem has none: set problem.n_validation."
        )
