"""Measure what the jobs of sciuq-reproduce cost, for sciuq_runner/reproduction/costs.yaml.

    python scripts/costs.py [--fidelity quick] [--recorded] [NAME ...]

Runs every job that the file has no time of, one after the other, seed 0, on one thread, as sciuq-reproduce does in the
current folder, and adds its CPU seconds: those do not depend on what else the machine is doing. With ``--recorded``
times are those of the runs that MLflow has of them, with the start of their process; take it where sciuq-reproduce had
the machine for itself.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
from pathlib import Path

import yaml

from sciuq_runner.errors import OK
from sciuq_runner.reproduction.job_costs import spent
from sciuq_runner.reproduction.job_plan import recorded
from sciuq_runner.reproduction.job_processes import command
from sciuq_runner.reproduction.paper_jobs import FIDELITIES, Job, check_names, jobs_of, presets

FILE = Path(__file__).parent.parent / "sciuq_runner" / "reproduction" / "costs.yaml"
HEAD = """\
# Seconds of one run on one thread, with the start of its process, by fidelity and job; written by scripts/costs.py.
# The first job of several that share a pre-trained part pays for it: that is what most of its time is.
"""


def cpu_seconds() -> float:
    """CPU time of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--fidelity", choices=FIDELITIES, default="quick")
    parser.add_argument("--recorded", action="store_true", help="take the times of runs that there are")
    options = parser.parse_args()
    runs = recorded() if options.recorded else []
    known = yaml.safe_load(FILE.read_text(encoding="utf-8"))["seconds"]
    times = known.setdefault(options.fidelity, {})
    every = [job for name in presets() for job in jobs_of(name, options.fidelity) if job.config["device"] != "cuda"]
    by_hash = {job.hash(0): times[job.name] for job in every if job.name in times and not options.recorded}
    for job in every:
        if job.preset in check_names(options.names) and job.hash(0) not in by_hash:
            seconds = spent(job, runs) if options.recorded else measure(job)
            if seconds is not None:
                by_hash[job.hash(0)] = round(seconds, 1)
        if job.hash(0) in by_hash:
            times[job.name] = by_hash[job.hash(0)]
            FILE.write_text(HEAD + yaml.safe_dump({"seconds": known}, sort_keys=True, width=120), encoding="utf-8")


def measure(job: Job) -> float | None:
    """CPU seconds of one run; None if it fails."""
    before = cpu_seconds()
    arguments = command([*job.arguments(0), "threads=1"])
    status = subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
    seconds = cpu_seconds() - before
    print(f"{job.name}: {seconds:.1f} s, exit status {status}", flush=True)
    return seconds if status == OK else None


if __name__ == "__main__":
    main()
