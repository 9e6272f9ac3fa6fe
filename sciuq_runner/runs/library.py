"""A run inside somebody else's process: a script, a notebook, a test. It leaves that process as it was."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciuq_runner import layout
from sciuq_runner.config.compose import override_text
from sciuq_runner.config.environment import TRUST_VARIABLE, VARIABLES, trusted
from sciuq_runner.config.problem_files import adopt_file, adopt_files, forget_file
from sciuq_runner.config.resolvers import register_resolvers
from sciuq_runner.config.uris import VARIABLE as URI_VARIABLE
from sciuq_runner.config.uris import take_credentials
from sciuq_runner.errors import ConfigError
from sciuq_runner.training.loop import BarDisplay, Display, LogDisplay, NotebookDisplay, Silent

if TYPE_CHECKING:
    from sciuq_runner.runs.start import Request

ONE_CHOICE = ("problem", "model", "method", "fidelity", "tracking", "detection")
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def make_run(
    problem: str | Path | Mapping[str, Any],
    settings: Mapping[str, Any],
    overrides: Sequence[str] = (),
    folder: str | Path | None = None,
    trust: Sequence[str] = (),
    config_dir: str | Path | None = None,
    progress: bool = True,
) -> Path:
    """Make one run as :func:`sciuq_runner.run` describes it; returns its folder."""
    from sciuq_runner.runs.start import Request

    with undisturbed(), problem_choice(problem) as choice:
        allow(trust)
        given = [f"problem={choice}", *override_texts(settings), *overrides]
        given += [f"trust=[{','.join(trust)}]"] if trust else []
        given += [override_text("hydra.run.dir", str(Path(folder).expanduser().resolve()))] if folder else []
        return _make(Request(take_credentials(given), str(config_dir) if config_dir else None), progress)


def resume_run(
    run: str, trust: Sequence[str] = (), config_dir: str | Path | None = None, progress: bool = True
) -> Path:
    """Go on with a run as :func:`sciuq_runner.resume` describes it; returns its folder."""
    from sciuq_runner.runs.resume import restart_arguments, split_config_dir
    from sciuq_runner.runs.start import Request

    with undisturbed():
        allow(trust)
        given = [f"trust=[{','.join(trust)}]"] if trust else []
        given += ["--config-dir", str(config_dir)] if config_dir else []
        own, arguments = split_config_dir(restart_arguments(run, given))
        return _make(Request(adopt_files(arguments), own, resumes=True), progress)


def _make(request: Request, progress: bool) -> Path:
    from sciuq_runner.runs.start import get_started
    from sciuq_runner.runs.surroundings import Surroundings

    start = get_started(request)
    return start.make(Surroundings(display(progress), log=log_into), configure_logging=False)[1]


def override_texts(settings: Mapping[str, Any]) -> list[str]:
    """Choices and settings as Hydra reads them: ``method="hmc"`` chooses, ``method={"n_samples": 5}`` sets."""
    found = []
    for key, value in settings.items():
        if key in ONE_CHOICE and isinstance(value, list | tuple):
            raise ConfigError(f"{key}={value!r} names several choices: sq.sweep runs them all.")
        if isinstance(value, Mapping):
            found += override_texts({f"{key}.{inner}": part for inner, part in value.items()})
        else:
            found.append(override_text(key, value))
    return found


@contextmanager
def problem_choice(problem: str | Path | Mapping[str, Any]) -> Iterator[str]:
    """What ``problem=`` chooses. A mapping is kept below ``runs/`` by the hash of its content, so that the run can be
    resumed and repeated; it goes if a mistake is found."""
    if not isinstance(problem, Mapping):
        yield adopt_files([f"problem={problem}"])[0].removeprefix("problem=")
        return
    from sciuq_runner.config.problem_mapping import keep_problem

    file, is_new = keep_problem(problem, Path("runs"))
    try:
        yield adopt_file(file)
    except ConfigError:
        if is_new:
            shutil.rmtree(file.parent)
            with suppress(OSError):  # other runs are there
                file.parent.parent.rmdir()
        raise
    finally:
        forget_file(file)


def allow(trust: Sequence[str]) -> None:
    """Trust modules, as ``trust=[…]`` on the command line does."""
    os.environ[TRUST_VARIABLE] = ",".join(dict.fromkeys([*trusted(), *trust]))


def display(progress: bool) -> Display:
    """A bar in a notebook or a terminal; lines in the log elsewhere."""
    if not progress:
        return Silent()
    if in_notebook():
        return NotebookDisplay()
    return BarDisplay() if sys.stdout.isatty() else LogDisplay()


def in_notebook() -> bool:
    """Whether a notebook's kernel is running this."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


ONE_AT_A_TIME = threading.RLock()
"""Hydra, the environment and torch's threads belong to the process: runs in several threads wait for each other."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """The environment, Hydra, threads of numerical libraries and the search path of modules are afterwards as they
    were."""
    import torch
    from hydra.core.global_hydra import GlobalHydra
    from threadpoolctl import ThreadpoolController

    from sciuq_runner.training.autodiff import workers

    register_resolvers()
    with ONE_AT_A_TIME:
        variables = {name: os.environ.get(name) for name in (*VARIABLES, URI_VARIABLE)}
        pools = [(library, library.num_threads) for library in ThreadpoolController().lib_controllers]
        threads, count, path = torch.get_num_threads(), workers.count, list(sys.path)
        hydra = GlobalHydra.instance().hydra
        try:
            yield
        finally:
            for library, number in pools:
                library.set_num_threads(number)
            torch.set_num_threads(threads)
            workers.set(count)
            GlobalHydra.instance().hydra = hydra
            sys.path[:] = path
            for name, value in variables.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


@contextmanager
def log_into(folder: Path, shown: bool = True) -> Iterator[None]:
    """All that is said goes to ``run.log``; warnings are shown too. Errors are raised, which shows them."""
    ours = logging.getLogger("sciuq_runner")
    file, screen = logging.FileHandler(folder / layout.LOG, delay=True), logging.StreamHandler()
    file.setFormatter(logging.Formatter(LOG_FORMAT))
    screen.setFormatter(logging.Formatter("Warning: %(message)s"))
    screen.addFilter(lambda record: shown and record.levelno == logging.WARNING)
    level, propagate = ours.level, ours.propagate
    ours.setLevel(logging.INFO)
    ours.propagate = False
    for handler in (file, screen):
        ours.addHandler(handler)
    try:
        yield
    finally:
        for handler in (file, screen):
            ours.removeHandler(handler)
            handler.close()
        ours.setLevel(level)
        ours.propagate = propagate
