"""Measure what the jobs of sciuq-reproduce cost, for sciuq_runner/reproduction/costs.yaml.

    python scripts/costs.py [--fidelity quick] [NAME ...]

Runs every job that the file has no time of, one after the other, seed 0, on one thread, as sciuq-reproduce does in the
current folder, and adds its CPU seconds: those do not depend on what else the machine is doing.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
from pathlib import Path

import yaml

from sciuq_runner.cli import OK
from sciuq_runner.reproduction.jobs import FIDELITIES, check_names, jobs
from sciuq_runner.reproduction.work import command

FILE = Path(__file__).parent.parent / "sciuq_runner" / "reproduction" / "costs.yaml"
HEAD = """\
# CPU seconds of one run on one thread, with the start of its process, by fidelity and job; written by scripts/costs.py.
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
    options = parser.parse_args()
    known = yaml.safe_load(FILE.read_text(encoding="utf-8"))["seconds"]
    for job in jobs(check_names(options.names), options.fidelity):
        if job.name in known.get(options.fidelity, {}) or job.config["device"] == "cuda":
            continue
        before = cpu_seconds()
        status = subprocess.run(
            command([*job.arguments(0), "threads=1"]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        ).returncode
        print(f"{job.name}: {cpu_seconds() - before:.0f} s, exit status {status}", flush=True)
        if status == OK:
            known.setdefault(options.fidelity, {})[job.name] = round(cpu_seconds() - before, 1)
            FILE.write_text(HEAD + yaml.safe_dump({"seconds": known}, sort_keys=True, width=120), encoding="utf-8")


if __name__ == "__main__":
    main()
