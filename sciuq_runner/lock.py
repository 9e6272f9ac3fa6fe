"""One process at a time in a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sciuq_runner.errors import ConfigError

NAME = ".lock"


@contextmanager
def held(folder: Path | None) -> Iterator[None]:
    """Keep others out of a run folder; the lock ends with the process, however that ends. None is no folder."""
    if folder is None:
        yield
        return
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / NAME)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ConfigError(f"{folder} is in use by another run: wait for its end, or choose another folder.") from error
    except NotImplementedError:  # a file system without locks must not keep anybody from working
        yield
        return
    try:
        yield
    finally:
        lock.release()
