"""What the person at the terminal sees of a sweep."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from sciuq_runner.sweeps.table import Row
from sciuq_runner.runs.console import _number


def print_sweep(
    rows: Sequence[Row], folder: Path, ui_command: str | None, best: tuple[list[str], float] | None
) -> None:
    """How every job of a sweep ended, and what to do about those that failed."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    table = Table(title="Sweep", title_justify="left")
    table.add_column("job", justify="right")
    table.add_column("settings", overflow="fold")
    table.add_column("status", no_wrap=True)
    table.add_column(next((row.metric for row in rows if row.metric), "rl2e"), justify="right", no_wrap=True)
    table.add_column("validation nll", justify="right", no_wrap=True)
    table.add_column("run", overflow="fold")
    for row in rows:
        where = row.run or (row.folder if row.value is not None else "")
        table.add_row(str(row.job), row.settings, row.status, _number(row.value), _number(row.score), where)
    console.print(table)
    failed = [row for row in rows if not row.status.startswith("finished")]
    for row in failed:
        print(f"job {row.job} {row.status}: {row.sentence or 'before it began'}")
    if best is not None:
        print(f"best settings: {' '.join(best[0])} (validation nll {_number(best[1])})")
    print(f"results: {folder}")
    if ui_command:
        print(f"compare runs: {ui_command}")
    if failed:
        print("to go on with what is left, give the same command with sweep.resume=true")
