"""Ctrl-C and SIGTERM: work ends after its current step."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STOPPABLE: list[Callable[[], None]] = []  # how to end each piece of work of this process after its current step


@contextmanager
def stop_on_signal(request_stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the work after its current step, the second at once."""

    def handle(number: int, frame: Any) -> None:
        request_stop()
        print("\nStopping after this step; once more to stop at once.", flush=True)
        for watched in previous:
            signal.signal(watched, signal.default_int_handler)

    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in previous:
        signal.signal(number, handle)
    STOPPABLE.append(request_stop)
    try:
        yield
    finally:
        STOPPABLE.remove(request_stop)
        for number, handler in previous.items():
            signal.signal(number, handler)
