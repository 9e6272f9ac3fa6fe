"""One process at a time: in a run folder, in a sweep, at one product of pre-training."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sciuq_runner import layout
from sciuq_runner.errors import ConfigError

PATIENCE = 60  # seconds of waiting before there is a word about it
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # of file systems, some of networks, that have none

log = logging.getLogger(__name__)


class Busy(Exception):
    """Another process holds the lock."""


@contextmanager
def alone(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold a lock; if another process has it, wait or raise ``Busy``.

    The lock of a file system ends with the process, however that ends. Where a file system has none, filelock lets the
    file itself stand for one: what a process left that was killed is known on its own machine only, and elsewhere the
    file has to be removed. Where that cannot be either, nothing is held: it must not keep anybody from working.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        try:
            lock.acquire(timeout=PATIENCE if wait else 0)
        except Timeout as error:
            if not wait:
                raise Busy(str(path)) from error
            log.warning("Waiting for another process, which holds %s: remove that file if there is none.", path)
            lock.acquire()
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in NO_LOCKS:
            raise
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
        with alone(folder / layout.LOCK, wait=False):
            yield
    except Busy as error:
        raise ConfigError(f"{folder} is in use by another run: wait for its end, or choose another folder.") from error
