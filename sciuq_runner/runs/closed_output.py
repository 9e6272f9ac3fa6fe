"""Output that nobody reads any more: the terminal was closed, or the program behind the pipe has ended."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def silence_output() -> None:
    """Let standard output and standard error lead nowhere, so that no later word, nor the last flush, fails."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # no stream, or one that is no file
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
