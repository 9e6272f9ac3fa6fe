"""Arrays that take a while to compute, kept on disk and found again by the hash of what they depend on."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from platformdirs import user_cache_path

from sciuq_runner import files
from sciuq_runner.errors import ConfigError
from sciuq_runner.physics.problem import Array

log = logging.getLogger(__name__)

CACHE_VARIABLE = "SCIUQ_CACHE"


def cache_folder() -> Path:
    """Where arrays are kept: named by the environment variable ``SCIUQ_CACHE``, or the cache folder of the platform.

    Raises ``RuntimeError`` for a person without a home folder.
    """
    named = os.environ.get(CACHE_VARIABLE)
    folder = Path(named) if named else user_cache_path("sciuq_runner", appauthor=False)
    if not named and not folder.is_absolute():  # platformdirs then leaves the ~ as it is
        raise RuntimeError("there is no home folder")
    return folder


def cached(settings: Mapping[str, object], make: Callable[[], Mapping[str, Array]]) -> Mapping[str, Array]:
    """What ``make`` gives, from disk if it was made before with the same ``settings``, which are plain values."""
    name = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:24] + ".npz"
    try:
        path = cache_folder() / name
        if path.is_file():
            return files.read_npz(path)
    except (ConfigError, OSError, RuntimeError) as error:
        log.warning("Kept data cannot be read (%s); they are made anew.", error)
    found = make()
    try:
        files.write_npz(cache_folder() / name, found)
    except (OSError, RuntimeError) as error:  # a full disk or no home costs the time next time, no more
        log.info("Data are not kept for next time (%s).", error)
    return found
