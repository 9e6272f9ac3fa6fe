"""What a store fails with: said in a sentence, and no reason to lose a result."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sciuq_runner.config.uris import hide_password
from sciuq_runner.errors import first_line

log = logging.getLogger(__name__)


def is_missing(error: Exception) -> bool:
    """Whether the store says that it has no such thing."""
    return getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST"


def complaint(error: Exception) -> str:
    """What MLflow says, in short and without passwords."""
    return first_line(error, hide_password)


def guarded(action: Callable[[], object], what: str) -> bool:
    """Do something with MLflow; if that fails say so and go on."""
    try:
        action()
    except Exception as error:  # a store can fail in any way; a trained model must survive all of them
        reason = complaint(error)
        log.warning("MLflow could not %s (%s); sciuq-sync RUN uploads the run folder later.", what, reason)
        return False
    return True
