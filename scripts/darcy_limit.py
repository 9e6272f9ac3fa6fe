"""What a perfect functional prior would give on `problem=darcy problem.case=noisy`.

    python scripts/darcy_limit.py [seed ...] [--length 0.25] [--keep]

Conductivities are drawn from a Gaussian process. Here the prior is this process itself, with the variance and the
correlation length of training, in front of the same operator as in runs of `experiment=paper/darcy_noisy` (found in
`pretrained/` of the working folder, or trained). No prior that is learned from realisations can be expected to do
better, on average over fields like those of training. `solved` is what a perfect operator would give as well, with the
equation solved for every sample: an estimate of the exact posterior mean, and no method can do better on average.

Samples are drawn as in the runs, with readings of u that count less, and weighed by importance, to serve both. On the
number of samples that the weights leave rests the accuracy of each.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from keeping import by_name, keep
from scipy.special import softmax
from sciuq_runner.problems.darcy import HEAD, LOG_CONDUCTIVITY, SOURCE, Darcy
from sciuq_runner.problems.darcy_flow import Flow

from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.evaluation.metrics import rl2e
from sciuq_runner.models.operator_fields import BoundOperatorField
from sciuq_runner.models.pa_gp_fp import BoundGaussianProcess
from sciuq_runner.models.pretraining import Store, pretrain
from sciuq_runner.physics.problem import Array, Noise
from sciuq_runner.predict.predictive import predict
from sciuq_runner.seeds import torch_stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop

WIDER = 1.7
"""How much larger than it is the noise of u is taken to be while samples are drawn."""


def errors(seed: int, length: float) -> dict[str, float]:
    """Relative errors of the means of both quantities, in standardised units, by the operator and by the equation."""
    chosen = ["experiment=paper/darcy_noisy", "model=pa_gp_fp", f"problem.new_length={length}", f"seed={seed}"]
    run = assemble(plain(compose([*chosen, "method.n_burn=1500", "method.n_samples=4000", "method.thin=1"], None)))
    dataset, whole = prepare(run)
    model, problem = whole.model, run.problem
    assert isinstance(problem, Darcy)
    assert isinstance(model, BoundOperatorField)
    assert isinstance(model.inner, BoundGaussianProcess)
    model.inner.set_process(model.inner.places.numpy(), 1.0, problem.length)
    with TemporaryDirectory() as folder:
        pretrain(model, Store(Path("pretrained")), Path(folder), Loop())
    noise = {**problem.noise, HEAD: Noise("known", WIDER * problem.noise_scale)}
    readings = {name: data.train for name, data in dataset.items()}
    target = Target(model, noise, readings, transforms=whole.transforms, operator=problem.operator)
    posterior = run.method.run(target, torch_stream(seed, "method"), Loop())
    x = problem.grid.points
    members = {name: predict(target, posterior, name, x).members[..., 0].T for name in dataset}
    solved = {
        LOG_CONDUCTIVITY: members[LOG_CONDUCTIVITY],
        HEAD: Flow(problem.grid).solve(np.exp(members[LOG_CONDUCTIVITY]), SOURCE),
    }

    def standardised(name: str, values: Array, places: Array = x) -> Array:
        return target.transforms[name].apply(values, places)

    read = dataset[HEAD].train
    cells = [int(np.square(x - place).sum(1).argmin()) for place in read.x]
    assert np.allclose(x[cells], read.x), "heads are read at places of the grid"
    by_operator, by_equation = (
        np.square(standardised(HEAD, part[cells], read.x) - standardised(HEAD, read.y, read.x)).sum(0)
        for part in (members[HEAD], solved[HEAD])
    )
    drawn = by_operator / WIDER**2
    found = {}
    for label, values, misfit in (("", members, by_operator), ("_solved", solved, by_equation)):
        weights = softmax((drawn - misfit) / (2 * problem.noise_scale**2))
        for name, data in dataset.items():
            mean = values[name] @ weights[:, None]
            found[name + label] = rl2e(standardised(name, mean), standardised(name, data.reference))
        found[f"samples_left{label}"] = 1 / float(np.square(weights).sum())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="*", type=int, default=list(range(10)))
    parser.add_argument("--length", type=float, default=0.25, help="correlation length of the new fields")
    parser.add_argument("--keep", action="store_true", help="for the page beside the paper")
    options = parser.parse_args()
    if options.keep and options.length != parser.get_default("length"):
        parser.error("--keep is for fields like those of training: leave out --length.")
    register_resolvers()
    found: dict[int, dict[str, float]] = {}
    for seed in options.seeds:
        found[seed] = errors(seed, options.length)
        print(f"seed {seed}: " + ", ".join(f"{name} {value:.4g}" for name, value in found[seed].items()), flush=True)
        if options.keep:
            keep("darcy_limit", by_name(found))
    medians = {name: np.median(list(by.values())) for name, by in by_name(found).items()}
    print("median: " + ", ".join(f"{name} {value:.4g}" for name, value in medians.items()))


if __name__ == "__main__":
    main()
