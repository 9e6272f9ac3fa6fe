"""What can go wrong in a night, on the real program: each ends in a sentence, and nothing that was written is lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

SMOKE = ("fidelity=smoke", "method=dens")
ALONE = (*SMOKE, "tracking=none", "gold=null")


def copy(finished: Path, folder: Path) -> Path:
    """A copy of a finished run."""
    subprocess.run(["cp", "-r", finished, folder / "run"], check=True)
    return folder / "run"
