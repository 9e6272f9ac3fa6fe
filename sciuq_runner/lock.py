"""One process at a time: in a run folder, in a sweep, at one product of pre-training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sciuq_runner.errors import ConfigError

NAME = ".lock"


class Busy(Exception):
    """Another process holds the lock."""


@contextmanager
def alone(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold a lock, which ends with the process, however that ends; if another has it, wait or raise ``Busy``.

    A file system without locks must not keep anybody from working: there it holds nothing.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout as error:
        raise Busy(str(path)) from error
    except NotImplementedError:
        yield
        return
    try:
        yield
    finally:
        lock.release()


@contextmanager
def held(folder: Path | None) -> Iterator[None]:
    """Keep others out of a run folder. None is no folder."""
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with alone(folder / NAME, wait=False):
            yield
    except Busy as error:
        raise ConfigError(f"{folder} is in use by another run: wait for its end, or choose another folder.") from error
