"""Twelve jobs side by side on all cores against the same jobs one after another.

    python scripts/bench_sweep.py [--jobs 12] [--steps 30000]

Ensembles on the function problem, one thread each, into a new SQLite database; both sweeps with all that belongs to
them: processes that start, figures, MLflow. The goal is a ratio of at least 1.5 on two cores that have nothing else to
do. It depends on how long a job is, since starting two processes takes some seconds: 1.46 with 20 000 steps (13 s
each), 1.54 with 30 000 (18 s each), one run of both.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import elapsed


def sweep(folder: Path, jobs: int, steps: int, launcher: str) -> None:
    """One sweep of the real program in a folder of its own."""
    settings = ["fidelity=smoke", "method=dens", f"method.n_steps={steps}", "threads=1", "gold=null"]
    command = [
        sys.executable,
        "-m",
        "sciuq_runner.cli.run",
        "-m",
        *settings,
        f"seed=range(0,{jobs})",
        f"sweep={launcher}",
    ]
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MLFLOW", "SCIUQ"))}
    environment = {**kept, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    found = len(list(folder.glob("runs/*/*/metrics.json")))
    if found != jobs:
        raise SystemExit(f"sweep={launcher} finished {found} of {jobs} jobs.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=30_000)
    options = parser.parse_args()
    taken = {}
    for launcher in ("basic", "local"):
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            taken[launcher] = elapsed(lambda: sweep(here, options.jobs, options.steps, launcher))  # noqa: B023
        print(f"sweep={launcher:<6} {options.jobs} jobs: {taken[launcher]:.1f} s", flush=True)
    print(f"basic / local on {os.cpu_count()} cores: {taken['basic'] / taken['local']:.2f}  (goal at least 1.5)")
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
