"""Where runs are: the run folders at or below a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sciuq_runner import layout

COPIES = {"mlartifacts", "mlruns"}  # where MLflow keeps its copies of run folders


def run_folders(top: Path) -> Iterator[Path]:
    """Folders of runs, finished or not, at or below ``top``."""
    for here, folders, files in os.walk(top):
        if {layout.METRICS, layout.RESUME} & set(files):
            folders.clear()
            yield Path(here)
        folders[:] = sorted(set(folders) - COPIES)
