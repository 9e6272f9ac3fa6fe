"""Ctrl-C, SIGTERM and a closed terminal: work ends after its current step."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from sciuq_runner.runs.closed_output import silence_output

HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none
STOPPING = [number for number in (signal.SIGINT, signal.SIGTERM, HANGUP) if number is not None]
STOPPABLE: list[Callable[[], None]] = []  # how to end each piece of work of this process after its current step


@contextmanager
def stop_on_signal(request_stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the work after its current step, the second at once.

    A closed terminal (SIGHUP) ends the work after its current step too. It may be told twice, by the shell and by the
    system, and nobody is there to ask for more haste: every further SIGHUP is ignored. A program that was started to
    outlive its terminal (nohup) goes on.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        request_stop()
        if number == HANGUP:
            signal.signal(number, signal.SIG_IGN)
            silence_output()
            return
        with suppress(OSError):
            print("\nStopping after this step; once more to stop at once.", flush=True)
        for watched in (signal.SIGINT, signal.SIGTERM):
            signal.signal(watched, signal.default_int_handler)

    known = {number: signal.getsignal(number) for number in STOPPING}
    previous = {number: handler for number, handler in known.items() if (number, handler) != (HANGUP, signal.SIG_IGN)}
    for number in previous:
        signal.signal(number, handle)
    STOPPABLE.append(request_stop)
    try:
        yield
    finally:
        STOPPABLE.remove(request_stop)
        for number, handler in previous.items():
            if signal.getsignal(number) != signal.SIG_IGN:  # the rest, too, is done without a terminal
                signal.signal(number, handler)
