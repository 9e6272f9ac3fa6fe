"""Time per gradient and chain: our batched HMC against Pyro's and NumPyro's on the same target.

    python scripts/bench_hmc.py [--chains 1 8] [--repeats 5]

The target is the posterior of the function problem (2 x 50 tanh network, 32 readings). All samplers make 50
leapfrog steps of a fixed size per transition; compiling and warm-up are timed apart, and a single chain is compiled
as for a run of a million gradients. NumPyro takes part where it is installed (the `bench` extra), with as many threads
as it takes. Ratios are of times measured in this run; seconds on another machine differ.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from sciuq_runner.problems.function import Function
from timing import elapsed

from sciuq_runner.autodiff import workers
from sciuq_runner.methods import hmc
from sciuq_runner.models import BNN
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.target import Target

LEAPFROG, STEP = 50, 1e-4


def make_target() -> Target:
    problem = Function()
    dataset = problem.dataset(stream(0, "data"))
    readings = {name: data.train for name, data in dataset.items()}
    return Target(BNN().bind(problem, problem.noise), problem.noise, readings)


def measure(call: Callable[[int], None], transitions: int, chains: int, repeats: int) -> tuple[float, float]:
    """Seconds of the first call (compiling, warm-up) and median microseconds per gradient and chain after it.

    The second is the difference between long and short runs, so that what a sampler does once per run does not count.
    """

    def seconds(count: int) -> float:
        return elapsed(lambda: call(count))

    first = seconds(transitions)
    call(3 * transitions)
    times = [seconds(3 * transitions) - seconds(transitions) for _ in range(repeats)]
    return first, statistics.median(times) / (2 * transitions) / LEAPFROG / chains * 1e6


def ours(target: Target, chains: int, compiled: bool) -> Callable[[int], None]:
    generator = torch_stream(0, "bench")
    transition = hmc.Transition(target.log_density, LEAPFROG, compiled, hmc.UNROLL if chains == 1 else 1)
    start = hmc.init(target.log_density, target.init(chains, generator))

    def call(transitions: int) -> None:
        state = start
        for _ in range(transitions):
            state, _ = transition(state, STEP, generator)

    return call


def pyro(target: Target) -> Callable[[int], None]:
    """One chain: more of them are processes, so that the time per gradient and chain is that of one."""
    from pyro.infer.mcmc import HMC, MCMC

    start = target.init(1, torch_stream(0, "bench"))[0]

    def call(transitions: int) -> None:
        kernel = HMC(
            potential_fn=lambda z: -target.log_density(z["theta"][None])[0],
            step_size=STEP,
            num_steps=LEAPFROG,
            adapt_step_size=False,
            adapt_mass_matrix=False,
        )
        sampler = MCMC(
            kernel,
            num_samples=transitions,
            warmup_steps=0,
            initial_params={"theta": start.clone()},
            disable_progbar=True,
        )
        sampler.run()

    return call


def numpyro(target: Target, chains: int) -> Callable[[int], None]:
    import jax
    import jax.numpy as jnp
    from numpyro.infer import HMC, MCMC

    x, y = (jnp.asarray(part.numpy()) for part in (target.terms[0].x, target.terms[0].y))
    shapes = [(1, 50), (50, 50), (50, 1)]

    def potential(theta: jax.Array) -> jax.Array:
        hidden, offset = x, 0
        for layer, (fan_in, fan_out) in enumerate(shapes):
            weight = theta[offset : offset + fan_in * fan_out].reshape(fan_in, fan_out)
            offset += fan_in * fan_out
            hidden = hidden @ weight + theta[offset : offset + fan_out]
            offset += fan_out
            hidden = jnp.tanh(hidden) if layer < 2 else hidden
        return 0.5 * (((y - hidden) / 0.1) ** 2).sum() + 0.5 * (theta**2).sum()

    start = target.init(chains, torch_stream(0, "bench"))
    both = torch.stack([target.log_density(start), -torch.tensor([float(potential(jnp.asarray(s))) for s in start])])
    difference = both[0] - both[1]
    assert torch.allclose(difference, difference[:1], rtol=1e-4), "the two targets differ by more than a constant"
    initial = jnp.asarray(start.numpy() if chains > 1 else start[0].numpy())
    samplers: dict[int, MCMC] = {}

    def call(transitions: int) -> None:
        if transitions not in samplers:
            kernel = HMC(
                potential_fn=potential,
                step_size=STEP,
                trajectory_length=STEP * LEAPFROG,
                adapt_step_size=False,
                adapt_mass_matrix=False,
            )
            samplers[transitions] = MCMC(
                kernel,
                num_warmup=0,
                num_samples=transitions,
                num_chains=chains,
                chain_method="vectorized",
                progress_bar=False,
            )
        samplers[transitions].run(jax.random.PRNGKey(0), init_params=initial)
        jax.block_until_ready(samplers[transitions].get_samples())

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, nargs="+", default=[8, 1])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--transitions", type=int, default=40)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="among which chains are shared")
    options = parser.parse_args()
    torch.set_num_threads(1)
    workers.set(options.threads)
    target = make_target()
    print(f"{options.threads} threads; {LEAPFROG} leapfrog steps; {target.size} parameters\n")
    print(f"{'sampler':<18}{'chains':>7}{'first call s':>14}{'us/grad/chain':>15}")

    def row(name: str, chains: int, call: Callable[[int], None], transitions: int) -> float:
        first, per_gradient = measure(call, transitions, chains, options.repeats)
        print(f"{name:<18}{chains:>7}{first:>14.1f}{per_gradient:>15.1f}", flush=True)
        return per_gradient

    baseline = row("pyro", 1, pyro(target), max(2, options.transitions // 10))
    ratios = []
    for chains in options.chains:
        compiled = row("ours, compiled", chains, ours(target, chains, True), options.transitions)
        eager = row("ours, eager", chains, ours(target, chains, False), max(2, options.transitions // 4))
        ratios.append((f"pyro / ours compiled, {chains} chains", baseline / compiled, "goal at least 8 with 8 chains"))
        ratios.append((f"pyro / ours eager, {chains} chains", baseline / eager, ""))
        try:
            theirs = row("numpyro", chains, numpyro(target, chains), options.transitions)
        except ImportError:
            print(f"{'numpyro':<18}{chains:>7}  not installed: pip install 'sciuq-runner[bench]'")
            continue
        goal = 0.6 if chains >= 8 else 1.0
        ratios.append((f"ours compiled / numpyro, {chains} chains", compiled / theirs, f"goal at most {goal}"))
    print()
    for name, value, goal in ratios:
        print(f"{name:<40}{value:>8.2f}  {goal}")


if __name__ == "__main__":
    main()
