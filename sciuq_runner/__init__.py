"""Uncertainty quantification for scientific machine learning.

>>> import sciuq_runner as sq
>>> run = sq.run("function", method="dens", fidelity="smoke", progress=False)
>>> sorted(run.metrics["u"])
['id', 'ood']

Names are imported when they are first used: importing the package itself takes no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sciuq_runner.errors import ConfigError, RunError

if TYPE_CHECKING:
    from sciuq_runner.api import Run, load, resume, run, sweep

__version__ = "0.2.0"
__all__ = ["ConfigError", "Run", "RunError", "__version__", "load", "resume", "run", "sweep"]


def __getattr__(name: str) -> Any:
    if name in ("Run", "load", "resume", "run", "sweep"):
        from sciuq_runner import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
