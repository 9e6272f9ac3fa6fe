"""How the tests are run: within a time, from another file on for every commit, with inputs of the day.

A test without a marker is of the default tier; ``full`` and ``slow`` mark the others. ``scripts/test`` chooses a tier.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from datetime import date
from typing import Any

import pytest

FULL = [pytest.param(None, marks=pytest.mark.full, id="full")]
"""Parameters of a heavy fixture, which put all tests that use it into the full tier."""

LEFT = "left for another commit"
SEED = "SCIUQ_TEST_SEED"
TIMES = "sciuq/seconds"
"""The name of the times of tests in pytest's cache: ``.pytest_cache/v/sciuq/seconds``, a JSON file."""

START = time.monotonic()
seconds: defaultdict[str, float] = defaultdict(float)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sciuq")
    group.addoption("--budget", type=float, metavar="SECONDS", help="tests that would start later are skipped")
    group.addoption("--rotate", type=int, default=0, metavar="N", help="begin with the N-th file, counted in a circle")


def pytest_configure(config: pytest.Config) -> None:
    """Workers get the seed from here, so that a night between their starts makes no difference."""
    if not os.environ.setdefault(SEED, str(date.today().toordinal())).isdecimal():
        raise pytest.UsageError(f"{SEED}={os.environ[SEED]} should be a whole number.")


def seed() -> int:
    """The seed of generated inputs in the full tier: the day, unless the environment names another one."""
    return int(os.environ[SEED])


def pytest_report_header(config: pytest.Config) -> str:
    return f"generated inputs of the full tier: {SEED}={seed()}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After tests of other tiers were taken out, so that every number begins with another file of this one."""
    if not items:
        return
    files = list(dict.fromkeys(item.path for item in items))
    start = config.getoption("rotate") % len(files)
    place = {path: (number - start) % len(files) for number, path in enumerate(files)}
    items.sort(key=lambda item: place[item.path])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    budget = item.config.getoption("budget")
    if budget is not None and time.monotonic() - START > budget:
        pytest.skip(LEFT)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.nodeid in seconds or not (report.skipped or report.when == "teardown"):
        seconds[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    cache: Any = getattr(session.config, "cache", None)
    if cache is not None and seconds and not hasattr(session.config, "workerinput"):
        known = {**cache.get(TIMES, {}), **{name: round(value, 3) for name, value in seconds.items()}}
        cache.set(TIMES, dict(sorted(known.items(), key=lambda entry: -entry[1])))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("budget") is not None:
        left = sum(LEFT in str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
        terminalreporter.write_line(f"{left} tests were {LEFT}.")
