"""Units of fields and coordinates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """What counts as one: a number is ``offset`` and so many times ``scale``."""

    scale: float = 1.0
    offset: float = 0.0


PLAIN = Unit()
"""Numbers as they are."""
