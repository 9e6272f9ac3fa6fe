"""A run inside somebody else's process: a script, a notebook, a test. It leaves that process as it was."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sciuq_runner import layout
from sciuq_runner.config.compose import override_text
from sciuq_runner.config.environment import TRUST_VARIABLE, VARIABLES, trusted
from sciuq_runner.config.problem_files import adopt_files, forget_file
from sciuq_runner.config.resolvers import register_resolvers
from sciuq_runner.config.uris import VARIABLE as URI_VARIABLE
from sciuq_runner.config.uris import take_credentials
from sciuq_runner.training.loop import BarDisplay, Display, LogDisplay, NotebookDisplay, Silent

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
    from sciuq_runner.runs.resume import restart_arguments
    from sciuq_runner.runs.start import Request, get_started
    from sciuq_runner.runs.surroundings import Surroundings

    with undisturbed(), problem_in(problem, folder, "run") as (name, own):
        allow(trust)
        if "resume" in settings:
            arguments = restart_arguments(str(settings["resume"]), [*overrides])
            request = Request(adopt_files(arguments), str(config_dir) if config_dir else None, resumes=True)
        else:
            given = [f"problem={name}", *override_texts(settings), *overrides]
            given += [f"trust=[{','.join(trust)}]"] if trust else []
            given += [override_text("hydra.run.dir", str(own))] if own is not None else []
            request = Request(adopt_files(take_credentials(given)), str(config_dir) if config_dir else None)
        start = get_started(request)
        _, made = start.make(Surroundings(display(progress), log=log_into), configure_logging=False)
        return made


def override_texts(settings: Mapping[str, Any]) -> list[str]:
    """Choices and settings as Hydra reads them: ``method="hmc"`` chooses, ``method={"n_samples": 5}`` sets."""
    found = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found += override_texts({f"{key}.{inner}": part for inner, part in value.items()})
        else:
            found.append(override_text(key, value))
    return found


@contextmanager
def problem_in(
    problem: str | Path | Mapping[str, Any], folder: str | Path | None, kind: str
) -> Iterator[tuple[str, Path | None]]:
    """What ``problem=`` is called, and the folder of the run if it is known.

    A mapping is written into the folder of the run, where it stays with its data; if nothing comes of the run, both go.
    """
    own = Path(folder).expanduser().resolve() if folder is not None else None
    if not isinstance(problem, Mapping):
        yield str(problem), own
        return
    from sciuq_runner.config.problem_mapping import write_problem
    from sciuq_runner.runs.runner import refuse_used

    own = own or new_folder(kind)
    refuse_used(own)
    existed = own.exists()
    place = own / layout.PROBLEM
    file = write_problem(problem, place)
    try:
        yield str(file), own
    except BaseException:
        if not any((own / name).exists() for name in (layout.RESUME, layout.SWEEP)):  # it did not even begin
            shutil.rmtree(place if existed else own, ignore_errors=True)
        raise
    finally:
        forget_file(file)


def new_folder(kind: str) -> Path:
    """A folder that nobody uses, named by the time."""
    import secrets
    from datetime import datetime

    return Path("runs", f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{kind}_{secrets.token_hex(4)}").resolve()


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


@contextmanager
def undisturbed() -> Iterator[None]:
    """Variables of the environment, logging and the threads of torch are afterwards as they were."""
    import torch

    register_resolvers()
    kept = {name: os.environ.get(name) for name in (*VARIABLES, URI_VARIABLE)}
    root, threads = logging.getLogger(), torch.get_num_threads()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def log_into(folder: Path) -> Iterator[None]:
    """All that is said goes to ``run.log``; warnings are shown too. Errors are raised, which shows them."""
    ours = logging.getLogger("sciuq_runner")
    file, screen = logging.FileHandler(folder / layout.LOG, delay=True), logging.StreamHandler()
    file.setFormatter(logging.Formatter(LOG_FORMAT))
    screen.setFormatter(logging.Formatter("Warning: %(message)s"))
    screen.addFilter(lambda record: record.levelno == logging.WARNING)
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
