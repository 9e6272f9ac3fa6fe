"""How much the variation of a band in distribution (`sdcv`) depends on where it is tested.

    python scripts/sdcv_points.py [--keep]

The exact posterior of the analogous Gaussian process, known noise, whose band needs no sampling: the same band on grids
of different density, and on grids that go a little beyond the readings. The paper gives neither.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from bench_hmc import make_target
from keeping import keep
from torch import Tensor

from sciuq_runner.seeds import torch_stream

N_PRIOR = 5000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="for the page beside the paper")
    options = parser.parse_args()
    target = make_target()
    term = target.terms[0]
    variance = float(term.known_scale) ** 2
    theta = target.tensor(
        torch.randn(N_PRIOR, target.n_weights, generator=torch_stream(0, "prior"), dtype=torch.float64)
    )

    def features(x: Tensor) -> Tensor:
        with torch.no_grad():
            parts = [target.model.observe(part, term.quantity, x)[..., 0] for part in theta.split(100)]
        return torch.cat(parts).double().T / N_PRIOR**0.5

    known = features(term.x)
    factor = torch.linalg.cholesky(known @ known.T + variance * torch.eye(len(known), dtype=torch.float64))

    kept: dict[str, dict[str, float]] = {}

    def show(low: float, high: float, n: int) -> None:
        side = np.linspace(low, high, n)
        new = features(target.tensor(np.concatenate([-side, side])[:, None]))
        explained = torch.linalg.solve_triangular(factor, known @ new.T, upper=False).square().sum(0)
        std = (new.square().sum(1) - explained + variance).sqrt()
        sdcv, piw = float(std.std(correction=0) / std.mean()), float(3.92 * std.mean())
        print(f"{low:>6.3g}{high:>6.3g}{n:>22}{sdcv:>10.4f}{piw:>10.4f}")
        kept.setdefault(f"from_{low:g}", {})[f"n_{n}"] = sdcv

    print(f"{'from':>6}{'to':>6}{'points on each side':>22}{'sdcv':>10}{'piw':>10}")
    for n in (301, 101, 61, 41, 31, 21):
        show(0.2, 0.8, n)
    for more in (0.005, 0.01, 0.02, 0.05):
        show(0.2 - more, 0.8 + more, 301)
    print(f"The noise alone makes a piw of {3.92 * variance**0.5:.4f}.")
    if options.keep:
        keep("sdcv_points", {**kept, "noise_alone": 3.92 * variance**0.5})


if __name__ == "__main__":
    main()
