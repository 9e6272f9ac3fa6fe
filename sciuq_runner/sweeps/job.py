"""One job of a sweep, in whatever process and on whatever machine a launcher runs it."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig

from sciuq_runner import layout
from sciuq_runner.config.compose import plain
from sciuq_runner.config.environment import QUIET_VARIABLE, RESUME_VARIABLE, SWEEPER_VARIABLE, beside_others
from sciuq_runner.config.resolvers import register_resolvers
from sciuq_runner.errors import FAILED, INTERRUPTED, OK, WRONG_INPUT, ConfigError, RunError, first_line
from sciuq_runner.locks import alone
from sciuq_runner.runs.resume import read_origin
from sciuq_runner.runs.signals import STOPPABLE, STOPPING
from sciuq_runner.runs.surroundings import Surroundings, terminal
from sciuq_runner.sweeps.notes import BEGINNING, Note, leave, stop_wanted

INTERVAL = 0.5  # seconds between two looks at the sweep

_ORPHANAGE: list[threading.Thread] = []  # the thread of this process that looks after its parent

SURROUNDINGS: ContextVar[Surroundings | None] = ContextVar("surroundings", default=None)
"""What jobs of this process are made under; those of a terminal unless somebody says otherwise."""

log, OURS = logging.getLogger(__name__), logging.getLogger("sciuq_runner")


def job(cfg: Any) -> float | None:
    """What launchers call. It does not raise, so that no launcher gives up the others; returns the validation score."""
    runtime = HydraConfig.get().runtime
    folder = Path(runtime.output_dir)
    os.chdir(runtime.cwd)  # names of files are relative to the folder in which the sweep was started
    status, score = FAILED, None
    with suppress(OSError):
        leave({"folder": str(folder)}, BEGINNING)
    with heard() as errors, watched():
        try:
            status, score = do_or_find(cfg, folder)
        except KeyboardInterrupt:
            status = INTERRUPTED
        except Exception as error:  # a mistake of ours: the others go on
            with suppress(OSError):
                (folder / layout.TRACEBACK).write_text(traceback.format_exc(), encoding="utf-8")
            log.error("%s: %s (see %s)", type(error).__name__, first_line(error), folder / layout.TRACEBACK)
    Note(str(folder), status, errors[-1] if errors else "", score).leave()
    if status == INTERRUPTED and not beside_others():
        raise KeyboardInterrupt  # the person wants the sweep to end, not one job of it
    return score


def do_or_find(cfg: Any, folder: Path) -> tuple[int, float | None]:
    """Do the job, unless the sweep is to end, or another process has finished it while this one waited for it."""
    with alone(folder / layout.LOCK):
        if stop_wanted():
            return INTERRUPTED, None
        before = read_origin(folder)
        if before is not None and before.finished(folder):
            return OK, before.score
        # A queue that starts a job twice means the same job.
        return do(cfg, folder, resumes=before is not None or bool(os.environ.get(RESUME_VARIABLE)))


def do(cfg: Any, folder: Path, resumes: bool) -> tuple[int, float | None]:
    """Prepare the job here, where it runs, and make its run: exit status and validation score."""
    # Heavy: if an import fails here, the job says so and the others go on.
    from sciuq_runner.runs.runner import get_ready, perform

    register_resolvers()
    hydra = HydraConfig.get()
    sources = [item.path for item in hydra.runtime.config_sources if item.provider == "command-line"]
    config_dir = sources[0] if sources else None
    try:
        run = get_ready(plain(cfg), hydra, config_dir, resumes)
    except ConfigError as error:  # the sweep was checked: something has changed since, or this is another machine
        log.error("%s", error)
        return WRONG_INPUT, None
    if stop_wanted():  # while the data were made
        return INTERRUPTED, None
    chosen = SURROUNDINGS.get() or (quiet() if os.environ.get(QUIET_VARIABLE) else terminal())
    try:
        with chosen.log(folder):
            outcome = perform(run, folder, chosen)
    except ConfigError:
        return WRONG_INPUT, None
    except RunError:
        return FAILED, None
    return (INTERRUPTED, None) if outcome.interrupted else (OK, outcome.headline)


def quiet() -> Surroundings:
    """Those of a job that a script or a notebook has started: a log in its folder, and nothing on the screen."""
    from sciuq_runner.runs.library import log_into

    return Surroundings(log=partial(log_into, shown=False))


class Listener(logging.Handler):
    """Keeps what was said in errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def heard() -> Iterator[list[str]]:
    """The sentences of errors that are logged meanwhile."""
    listener = Listener()
    OURS.addHandler(listener)
    try:
        yield listener.lines
    finally:
        OURS.removeHandler(listener)


@contextmanager
def watched() -> Iterator[None]:
    """In a process of its own, a job ends early when the sweep is to end, and dies with the process that started it.

    In that process itself the signals of the terminal do this.
    """
    if not beside_others() or threading.current_thread() is not threading.main_thread():
        yield
        return
    die_with_parent()
    known = {number: signal.getsignal(number) for number in STOPPING}
    before = {number: handler for number, handler in known.items() if handler != signal.SIG_IGN}
    for number in before:  # Ctrl-C reaches all processes of a terminal; while there is work, its own handlers stop it
        signal.signal(number, lambda *_: None)
    done = threading.Event()
    threading.Thread(target=await_stop, args=(done,), daemon=True).start()
    try:
        yield
    finally:
        done.set()
        for number, handler in before.items():
            if number != signal.SIGINT or not in_pool():  # joblib ends all processes when one of them dies, idle or not
                signal.signal(number, handler)


def await_stop(done: threading.Event) -> None:
    """End the work after its current step when the sweep is to end.

    By no signal: where Ctrl-C has reached this process too, a second one would end the work at once.
    """
    while not done.wait(INTERVAL):
        if stop_wanted():
            for request_stop in list(STOPPABLE):
                request_stop()


def in_pool() -> bool:
    """Whether this is a process of joblib, which takes one job after another."""
    return multiprocessing.current_process().name.startswith("Loky")


def die_with_parent() -> None:
    """End a process of joblib when the sweep is gone: nobody waits for it, and it would wait for jobs for ever."""
    if _ORPHANAGE or not in_pool():
        return
    sweeper = int(os.environ[SWEEPER_VARIABLE].rpartition(":")[2])

    def look() -> None:
        while os.getppid() == sweeper:
            time.sleep(INTERVAL)
        os.kill(os.getpid(), signal.SIGKILL)  # sweep.resume=true goes on with its job

    _ORPHANAGE.append(threading.Thread(target=look, daemon=True))
    _ORPHANAGE[0].start()
