"""The ways in which a run ends; where badly, with one sentence for the person who started it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

OK, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses."""


class ConfigError(Exception):
    """A mistake in a configuration, a data file or on the command line; found before any work starts.

    What it quotes can hold line breaks and codes for the terminal: they are shown, not obeyed.
    """

    is_logged = False  # whether the log of a run has it already

    def __init__(self, sentence: str) -> None:
        super().__init__("".join(c if c.isprintable() else ascii(c)[1:-1] for c in sentence))


class RunError(Exception):
    """Numbers went wrong while working: says where, and what to try."""


def first_line(error: Exception, hide: Callable[[str], str] = str) -> str:
    """What an error of a library says, in short; ``hide`` sees it before it is cut."""
    return hide((str(error).strip().splitlines() or [type(error).__name__])[0])[:200]


def told(error: OSError) -> str:
    """A sentence for what the system refused."""
    return f"{error.strerror or error}: {error.filename or 'a file'}."


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return a hint that names the closest valid choice, or lists the choices when none is close."""
    options = sorted(set(choices))
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{close[0]}'?"
    return "choose one of " + ", ".join(options) if options else "nothing can be set here"
