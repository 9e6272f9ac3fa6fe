"""What a perfect functional prior would give on `problem=function problem.case=heteroscedastic`.

    python scripts/prior_limit.py [seed ...] [--keep]

The history of this case is made of random networks and of the true noise, so that a GAN that learned both without error
would be the networks themselves with the noise known: they are sampled here, and the metrics printed that a run has.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from keeping import by_name, keep
from sciuq_runner.problems.function import Function

from sciuq_runner.evaluation.metrics import mpl, rl2e, rmsce
from sciuq_runner.methods.hmc import HMC
from sciuq_runner.models.bnn import BNN
from sciuq_runner.physics.problem import Noise
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop

N_CHAINS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="*", type=int, default=list(range(5)))
    parser.add_argument("--keep", action="store_true", help="for the page beside the paper")
    options = parser.parse_args()
    found: dict[int, dict[str, float]] = {}
    problem = Function(case="heteroscedastic")
    for seed in options.seeds:
        data = problem.dataset(stream(seed, "data"))["u"]
        noise, readings = {"u": Noise("known", problem.true_noise_scale(data.train.x))}, {"u": data.train}
        model = BNN().bind(Function(case="known"), noise, readings)
        method = HMC(n_chains=N_CHAINS, n_burn=1500, n_samples=1000, thin=6, target_accept=0.8)
        posterior = method.run(Target(model, noise, readings, {}), torch_stream(seed, "method"), Loop())
        with torch.no_grad():
            x = torch.tensor(data.test.x, dtype=torch.float32)
            u = model.observe(posterior.theta, "u", x)[..., 0].double().numpy()
        chains = u.reshape(N_CHAINS, -1, u.shape[1])
        rhat = np.sqrt(1 + chains.mean(1).var(0, ddof=1) / chains.var(1).mean(0)).max()
        mean, std = u.mean(0), np.hypot(u.std(0), problem.true_noise_scale(data.test.x[:, 0]))
        parts = [f"seed {seed}: R-hat {rhat:.2f}"]
        for split, inside in data.splits.items():
            part = mean[inside], std[inside], data.test.y[inside, 0]
            found.setdefault(seed, {})[f"{split}_rmsce"] = rmsce(*part)
            parts.append(f"{split}: rl2e {rl2e(part[0], part[2]):.3f}, mpl {mpl(*part):.2f}, rmsce {rmsce(*part):.3f}")
        print("; ".join(parts), flush=True)
    if options.keep:
        keep("prior_limit", by_name(found))


if __name__ == "__main__":
    main()
