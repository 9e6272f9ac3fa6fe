"""What a job must know of the process that started it, wherever it runs: variables of the environment."""

from __future__ import annotations

import os
import socket

NOTES_VARIABLE = "SCIUQ_NOTES"
PARENT_VARIABLE = "SCIUQ_PARENT_RUN"
RESUME_VARIABLE = "SCIUQ_RESUME"
SWEEPER_VARIABLE = "SCIUQ_SWEEPER"
TRUST_VARIABLE = "SCIUQ_TRUST"
QUIET_VARIABLE = "SCIUQ_QUIET"
VARIABLES = (NOTES_VARIABLE, PARENT_VARIABLE, RESUME_VARIABLE, SWEEPER_VARIABLE, TRUST_VARIABLE, QUIET_VARIABLE)


def trusted() -> list[str]:
    """The modules outside the package that the person allows, on the command line or in the environment."""
    return [module for module in os.environ.get(TRUST_VARIABLE, "").split(",") if module]


def sweeper_id() -> str:
    """Machine and process of whoever starts a sweep."""
    return f"{socket.gethostname()}:{os.getpid()}"


def beside_others() -> bool:
    """Whether this is a job in another process than that of the sweep."""
    return os.environ.get(SWEEPER_VARIABLE, "") not in ("", sweeper_id())
