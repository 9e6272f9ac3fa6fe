"""Our metrics against those of uncertainty-toolbox.

    python scripts/bench_metrics.py [--points 40000] [--repeats 20]

Gaussian predictions that are a little over-confident, the same arrays for both. The goal is a ratio of at least 5.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import uncertainty_toolbox as toolbox
from timing import seconds
from uncertainty_toolbox.metrics_calibration import get_prediction_interval

from sciuq_runner.evaluation import metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(options.points)
    std = rng.uniform(0.2, 1.5, options.points)
    y = mean + 1.3 * std * rng.standard_normal(options.points)

    def their_rmsce() -> float:
        return toolbox.root_mean_squared_calibration_error(mean, std, y, vectorized=True, prop_type="quantile")

    def their_piw() -> float:
        bounds = get_prediction_interval(mean, std, 0.95)
        return float(np.mean(bounds.upper - bounds.lower))

    pairs: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
        "rmsce": (lambda: metrics.rmsce(mean, std, y), their_rmsce),
        "piw": (lambda: metrics.piw(std), their_piw),
        "sharpness": (lambda: metrics.sharpness(std), lambda: toolbox.sharpness(std)),
        "crps": (lambda: metrics.crps(mean, std, y), lambda: toolbox.crps_gaussian(mean, std, y)),
    }
    for name, (ours, theirs) in pairs.items():
        difference = abs(ours() - theirs())
        fast, slow = seconds(ours, options.repeats), seconds(theirs, options.repeats)
        print(
            f"{name:<10} {options.points} points: {1e3 * fast:.3f} ms, theirs {1e3 * slow:.3f} ms, "
            f"difference {difference:.1e}, theirs / ours: {slow / fast:.1f}  (goal at least 5)"
        )


if __name__ == "__main__":
    main()
