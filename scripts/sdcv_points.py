"""How much the variation of a band in distribution (`sdcv`) depends on where it is tested.

    python scripts/sdcv_points.py

The exact posterior of the analogous Gaussian process, known noise, whose band needs no sampling: the same band on grids
of different density, and on grids that go a little beyond the readings. The paper gives neither.
"""

from __future__ import annotations

import numpy as np
import torch
from bench_hmc import make_target
from torch import Tensor

from sciuq_runner.seeds import torch_stream

N_PRIOR = 5000


def main() -> None:
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

    def band(low: float, high: float, n: int) -> str:
        side = np.linspace(low, high, n)
        new = features(target.tensor(np.concatenate([-side, side])[:, None]))
        explained = torch.linalg.solve_triangular(factor, known @ new.T, upper=False).square().sum(0)
        std = (new.square().sum(1) - explained + variance).sqrt()
        return f"{std.std(correction=0) / std.mean():.4f}{3.92 * std.mean():>10.4f}"

    print(f"{'from':>6}{'to':>6}{'points on each side':>22}{'sdcv':>10}{'piw':>10}")
    for n in (301, 101, 61, 41, 31, 21):
        print(f"{0.2:>6}{0.8:>6}{n:>22}{band(0.2, 0.8, n):>20}")
    for more in (0.005, 0.01, 0.02, 0.05):
        print(f"{0.2 - more:>6.3g}{0.8 + more:>6.3g}{301:>22}{band(0.2 - more, 0.8 + more, 301):>20}")


if __name__ == "__main__":
    main()
