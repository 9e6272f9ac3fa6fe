"""How far statistics of a thousand realisations are from those of five hundred others: no model can be expected nearer.

    python scripts/spde_floor.py [seed ...] [--keep]

Relative errors of the mean and the standard deviation of u and of the conductivity of `problem=spde problem.case=clean`
at the sensors, where the realisations that train are known without error, against the unseen ones.
"""

from __future__ import annotations

import argparse

import numpy as np
from keeping import by_name, keep
from sciuq_runner.problems.spde import SPDE

from sciuq_runner.evaluation.metrics import rl2e
from sciuq_runner.seeds import stream

STATISTICS = {"mean": np.mean, "std": np.std}


def floor(seed: int) -> dict[str, float]:
    """The errors of the draw of one seed."""
    dataset = SPDE(case="clean").dataset(stream(seed, "data"))
    found = {}
    for name in ("u", "lambda"):
        data = dataset[name]
        for kind, statistic in STATISTICS.items():
            unseen = np.interp(data.train.x[:, 0], data.test.x[:, 0], statistic(data.reference, axis=1))
            found[f"{name}_{kind}"] = rl2e(statistic(data.train.y, axis=1), unseen)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--keep", action="store_true", help="for the page beside the paper")
    options = parser.parse_args()
    found = {seed: floor(seed) for seed in options.seeds}
    for seed, values in found.items():
        print(f"seed {seed}: " + ", ".join(f"{name} {value:.3f}" for name, value in values.items()))
    if options.keep:
        keep("spde_floor", by_name(found))


if __name__ == "__main__":
    main()
