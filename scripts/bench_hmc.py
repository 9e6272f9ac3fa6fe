"""Time per gradient and chain: our batched HMC against Pyro's and NumPyro's on the same target.

    python scripts/bench_hmc.py [--chains 1 8] [--repeats 9]

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

from sciuq_runner.methods import hmc
from sciuq_runner.models import BNN
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import workers

LEAPFROG, STEP = 50, 1e-4


def make_target() -> Target:
    problem = Function()
    dataset = problem.dataset(stream(0, "data"))
    readings = {name: data.train for name, data in dataset.items()}
    return Target(BNN().bind(problem, problem.noise), problem.noise, readings)


Call = Callable[[int], None]
"""Make so many transitions."""


def warm_up(call: Call, transitions: int) -> float:
    """Seconds of the first call; run lengths that are timed later are compiled as well."""
    first = elapsed(lambda: call(transitions))
    call(3 * transitions)
    return first


def microseconds(call: Call, transitions: int, chains: int) -> float:
    """Time per gradient and chain: the difference between a long and a short run, so that what a sampler does once per
    run does not count."""
    seconds = elapsed(lambda: call(3 * transitions)) - elapsed(lambda: call(transitions))
    return seconds / (2 * transitions) / LEAPFROG / chains * 1e6


def ours(target: Target, chains: int, compiled: bool) -> Call:
    generator = torch_stream(0, "bench")
    transition = hmc.Transition(target.log_density, LEAPFROG, compiled, hmc.UNROLL if chains == 1 else 1)
    start = hmc.init(target.log_density, target.init(chains, generator))

    def call(transitions: int) -> None:
        state = start
        for _ in range(transitions):
            state, _ = transition(state, STEP, generator)

    return call


def pyro(target: Target, chains: int) -> Call:
    """One chain that makes the transitions of all: as processes, the only way to have several, they cost no less."""
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
            num_samples=transitions * chains,
            warmup_steps=0,
            initial_params={"theta": start.clone()},
            disable_progbar=True,
        )
        sampler.run()

    return call


def numpyro(target: Target, chains: int) -> Call:
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


def race(calls: dict[str, tuple[Call, int]], chains: int, repeats: int) -> dict[str, list[float]]:
    """Samplers in turn, round by round, so that a machine that becomes slower does so for all of them."""
    first = {name: warm_up(call, transitions) for name, (call, transitions) in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, (call, transitions) in calls.items():
            times[name].append(microseconds(call, transitions, chains))
    for name, values in times.items():
        low, high = min(values), max(values)
        median = statistics.median(values)
        print(f"{name:<18}{chains:>7}{first[name]:>14.1f}{median:>15.1f}{f'{low:.1f} .. {high:.1f}':>18}", flush=True)
    return times


def ratio(above: list[float], below: list[float]) -> float:
    """Median over rounds."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, nargs="+", default=[8, 1])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--transitions", type=int, default=400, help="of one chain; several make fewer of them")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="among which chains are shared")
    options = parser.parse_args()
    torch.set_num_threads(1)
    workers.set(options.threads)
    target = make_target()
    print(f"{options.threads} threads; {LEAPFROG} leapfrog steps; {target.size} parameters\n")
    print(f"{'sampler':<18}{'chains':>7}{'first call s':>14}{'us/grad/chain':>15}{'range':>18}")

    lines = []
    for chains in options.chains:
        many = max(4, options.transitions // chains)
        few = max(2, many // 20)
        calls = {
            "pyro": (pyro(target, chains), few),
            "ours, compiled": (ours(target, chains, True), many),
            "ours, eager": (ours(target, chains, False), few),
        }
        try:
            calls["numpyro"] = (numpyro(target, chains), many)
        except ImportError:
            print(f"{'numpyro':<18}{chains:>7}  not installed: pip install 'sciuq-runner[bench]'")
        times = race(calls, chains, options.repeats)
        compiled, eager = times["ours, compiled"], times["ours, eager"]
        lines.append((f"pyro / ours compiled, {chains} chains", ratio(times["pyro"], compiled), "goal at least 8"))
        lines.append((f"pyro / ours eager, {chains} chains", ratio(times["pyro"], eager), ""))
        if "numpyro" in times:
            goal = 0.6 if chains >= 8 else 1.0
            name = f"ours compiled / numpyro, {chains} chains"
            lines.append((name, ratio(compiled, times["numpyro"]), f"goal at most {goal}"))
    print()
    for name, value, goal in lines:
        print(f"{name:<40}{value:>8.2f}  {goal}")


if __name__ == "__main__":
    main()
