"""HMC recovers exact posteriors and is the same kernel as Pyro's."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from pyro.infer.mcmc import HMC as PyroHMC
from pyro.infer.mcmc import MCMC
from pyro.ops.dual_averaging import DualAveraging as PyroDualAveraging
from pyro.ops.integrator import velocity_verlet

from sciuq_runner.errors import RunError
from sciuq_runner.methods import hmc
from sciuq_runner.methods.hmc import HMC, Chains, DualAveraging
from sciuq_runner.models.base import Prior
from sciuq_runner.models.bnn import BoundBNN
from sciuq_runner.networks import MLP
from sciuq_runner.physics.problem import InverseGamma, Noise, PointObservations
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import MaybeCompiled, value_and_grad, workers
from sciuq_runner.training.loop import Loop
from tests.exact import Warped, linear_regression, many_weights
from tests.montecarlo import assert_moments, effective


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_gradient_evaluations_are_counted_and_nothing_is_wrong_with_linear_regression():
    """That it recovers the posterior is in the table of all methods."""
    method = HMC(n_chains=8, n_burn=300, n_samples=800, thin=1, n_leapfrog=5, step_size=0.05, target_accept=0.8)
    posterior = method.run(linear_regression().target, generator(), Loop())
    assert posterior.theta.shape == (800, 3)
    assert posterior.diagnostics["divergences"] == 0
    assert posterior.gradient_evaluations == (300 + 100) * 5 * 8
    assert not posterior.warnings


@pytest.mark.parametrize("scales", [pytest.param("gibbs", marks=pytest.mark.full), "joint"])
def test_the_learned_scale_of_many_weights_settles(scales):
    """From a start far away, and with as many effective samples as a chain has that forgets within some transitions:
    draws given the weights alone, which know it to a thirtieth, have some twenty."""
    target, log_density = many_weights()
    grid = np.linspace(-4, 1.5, 4001)
    density = np.exp(log_density(grid) - log_density(grid).max())
    mean = np.average(grid, weights=density)
    variance = np.average((grid - mean) ** 2, weights=density)
    method = HMC(
        n_chains=4, n_burn=300, n_samples=2000, thin=1, n_leapfrog=20, target_accept=0.8, scales=scales, compile="never"
    )
    posterior = method.run(target, generator(), Loop())
    found = posterior.theta.view(4, -1, target.size)[..., -1:]
    assert effective(found).min() > 200
    assert_moments(found, np.array([mean]), np.array([[variance]]))


def hierarchical(temperature: float = 1.0) -> Target:
    """A small network with an unknown number, learned noise and a learned prior scale."""
    first = linear_regression().target.terms[0]
    model = BoundBNN(Warped(), {"u": MLP(2, 1, hidden=(4,))}, Prior(1.0, InverseGamma(2.0, 1.0)))
    readings = {"u": PointObservations(first.x.numpy(), first.y.numpy())}
    return Target(model, {"u": Noise("learned", 0.3)}, readings, temperature=temperature, dtype=torch.float64)


@pytest.mark.parametrize("gibbs", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_coordinates_of_trajectories_have_the_density_of_theta(gibbs, temperature):
    """There and back, and with the volume that theta has for them; scales that are drawn have no slope."""
    target = hierarchical(temperature)
    chains = Chains(target, 1, False, gibbs)
    theta = torch.randn(3, target.size, generator=generator(), dtype=torch.float64)
    position = chains.position(theta)
    torch.testing.assert_close(chains.original(position), theta)
    n = target.n_weights - 1
    torch.testing.assert_close(position[:, :n] * theta[:, -1:].exp(), theta[:, :n])
    assert torch.equal(position[:, n:-1], theta[:, n:-1])
    assert torch.equal(target.numbers(theta), theta[:, n:])
    for one, at in zip(theta, position, strict=True):
        volume = torch.func.jacrev(lambda p: chains.original(p[None])[0])(at)
        expected = target.log_density(one[None]) + torch.linalg.slogdet(volume)[1] + math.log(hmc.LOG_SCALE_FACTOR)
        torch.testing.assert_close(chains.log_density(at[None]), expected)
    _, gradient = value_and_grad(chains.log_density, position)
    assert (gradient[:, target.n_weights] == 0).all() == gibbs
    assert (gradient[:, -1] != 0).all()


@pytest.mark.parametrize("wanted", [0.6, 0.9])
def test_burn_in_reaches_the_wanted_acceptance(wanted):
    """With one leapfrog step acceptance falls smoothly with the step size, so that there is one to be found."""
    exact = linear_regression()
    method = HMC(n_chains=8, n_burn=1000, n_samples=4000, thin=1, n_leapfrog=1, target_accept=wanted, jitter=0.0)
    found = method.run(exact.target, generator(), Loop()).diagnostics["accept_rate"]
    assert found == pytest.approx(wanted, abs=0.05)


def test_thinning_keeps_the_number_of_samples():
    exact = linear_regression()
    thinned = HMC(n_chains=2, n_burn=10, n_samples=20, thin=3, n_leapfrog=2)
    every = HMC(n_chains=2, n_burn=10, n_samples=60, thin=1, n_leapfrog=2)
    a = thinned.run(exact.target, generator(), Loop()).theta.view(2, 10, 3)
    b = every.run(exact.target, generator(), Loop()).theta.view(2, 30, 3)
    assert torch.equal(a, b[:, 2::3])


def test_trajectories_are_those_of_pyro():
    """Same start, momentum, step size and length: same end, to rounding."""
    target = linear_regression().target
    theta, momentum = torch.randn(4, 3, generator=generator()).double(), torch.randn(4, 3).double()
    start = hmc.init(target.log_density, theta)
    step = 0.03
    end, final, value, _ = hmc.leapfrog(
        target.log_density, 23, theta, momentum, start.gradient, torch.tensor(step, dtype=torch.float64)
    )
    for chain in range(4):
        z, r, _, potential = velocity_verlet(
            {"theta": theta[chain]},
            {"theta": momentum[chain]},
            lambda z: -target.log_density(z["theta"][None])[0],
            lambda r: r,
            step,
            23,
        )
        torch.testing.assert_close(end[chain], z["theta"], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(final[chain], r["theta"], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(value[chain], -potential, rtol=1e-10, atol=1e-10)


def test_the_kernel_agrees_with_pyros_hmc_at_the_same_step_size_and_length():
    """Acceptance, mean and variance of both samplers agree within Monte Carlo error."""
    exact = linear_regression()
    step, length, n = 0.12, 4, 2000
    torch.manual_seed(0)
    kernel = PyroHMC(
        potential_fn=lambda z: -exact.target.log_density(z["theta"][None])[0],
        step_size=step,
        num_steps=length,
        adapt_step_size=False,
        adapt_mass_matrix=False,
    )
    accepted: list[float] = []
    start = torch.as_tensor(exact.mean)
    sampler = MCMC(
        kernel,
        num_samples=n,
        warmup_steps=0,
        initial_params={"theta": start},
        disable_progbar=True,
        hook_fn=lambda k, *_: accepted.append(k._accept_cnt),
    )
    sampler.run()
    theirs = sampler.get_samples()["theta"][None]
    method = HMC(n_chains=4, n_burn=0, n_samples=4 * n, thin=1, n_leapfrog=length, step_size=step, jitter=0.0)
    posterior = method.run(exact.target, generator(), Loop())
    ours = posterior.theta.view(4, n, 3)
    for chains in (theirs, ours[:, 100:]):
        assert_moments(chains, exact.mean, exact.covariance)
    rate = accepted[-1] / n
    error = math.sqrt(rate * (1 - rate) / n * 4)  # successive acceptances are correlated: four times the variance
    assert posterior.diagnostics["accept_rate"] == pytest.approx(rate, abs=5 * error)
    ratio = effective(ours) / 4 / effective(theirs)
    assert (ratio > 0.5).all()
    assert (ratio < 2.0).all()


def test_step_size_adaptation_is_pyros():
    theirs = PyroDualAveraging(prox_center=math.log(10 * 0.1))
    ours = DualAveraging.start(0.1)
    for error in np.random.default_rng(0).uniform(-0.5, 0.5, 50):
        theirs.step(error)
        ours = ours.update(error)
        log_step, log_average = theirs.get_state()
        assert ours.step_size == pytest.approx(math.exp(log_step), rel=1e-12)
        assert ours.averaged_step_size == pytest.approx(math.exp(log_average), rel=1e-12)


@pytest.fixture
def two_workers() -> Iterator[None]:
    workers.set(2)
    yield
    workers.set(1)


@pytest.mark.usefixtures("two_workers")
@pytest.mark.parametrize(
    ("gibbs", "n_chains", "unroll", "learned"),
    [
        (False, 4, 1, False),
        *(pytest.param(*case, marks=pytest.mark.full) for case in ((True, 3, 1, False), (False, 1, 3, False))),
        (True, 2, 1, True),
    ],
)
def test_compiled_transitions_are_the_eager_ones(gibbs, n_chains, unroll, learned):
    """The loop that runs without Python does what the plain one does: with chains shared out over threads where their
    number is even, where only the weights move, and with several steps in one pass."""
    target = hierarchical() if learned else linear_regression(noise=Noise("learned", 0.3) if gibbs else None).target
    theta = target.init(n_chains, generator())
    ends = []
    for compiled in (False, True):
        chains = Chains(target, 7, compiled, gibbs, unroll)
        state, source = chains.init(theta), generator(1)
        for _ in range(4):
            state, info = chains.advance(state, 0.05, source)
        assert chains.transition.call.compiled is compiled
        ends.append((state.position, state.log_density, state.gradient, info.accept_prob, info.diverged))
    for ours, theirs in zip(*ends, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_a_start_without_finite_density_is_named():
    target = linear_regression().target
    with pytest.raises(RunError, match="chain 1 starts"):
        hmc.init(target.log_density, torch.tensor([[0.0, 0, 0], [math.nan, 0, 0]]).double())


def test_divergences_are_counted_and_explained():
    exact = linear_regression()
    method = HMC(n_chains=2, n_burn=0, n_samples=20, thin=1, n_leapfrog=20, step_size=50.0)
    posterior = method.run(exact.target, generator(), Loop())
    assert posterior.diagnostics["divergences"] == 20
    assert torch.isfinite(posterior.theta).all()
    assert any("target_accept" in warning for warning in posterior.warnings)


class StopAfter(Loop):
    """Asks to stop in the middle of a phase."""

    def __init__(self, name: str, steps: int) -> None:
        super().__init__()
        self.name, self.limit = name, steps

    def show(self, **numbers: float) -> None:
        if self.done.get(self.name, 0) + 1 >= self.limit:
            self.request_stop()


def test_stopping_keeps_the_samples_so_far():
    method = HMC(n_chains=2, n_burn=10, n_samples=100, thin=1, n_leapfrog=2)
    posterior = method.run(linear_regression().target, generator(), StopAfter("sampling", 7))
    assert posterior.theta.shape == (14, 3)
    whole = method.run(linear_regression().target, generator(), Loop())
    assert torch.equal(posterior.theta.view(2, 7, 3), whole.theta.view(2, 50, 3)[:, :7])
    early = method.run(linear_regression().target, generator(), StopAfter("burn-in", 3))
    assert any("not samples" in warning for warning in early.warnings)


def test_stopping_in_burn_in_leaves_theta_itself():
    """Not the coordinates of trajectories: the states kept are those that a run without burn-in has sampled."""
    settings = {"n_chains": 2, "thin": 1, "n_leapfrog": 2, "step_size": 1e-3, "jitter": 0.0}
    early = HMC(n_burn=10, n_samples=2, **settings).run(hierarchical(), generator(), StopAfter("burn-in", 1))
    sampled = HMC(n_burn=0, n_samples=2, **settings).run(hierarchical(), generator(), Loop())
    torch.testing.assert_close(early.theta, sampled.theta)
    assert (early.theta[:, -1] != 0).all()


@pytest.mark.parametrize("broken_from", [1, 3])
def test_falls_back_to_eager_where_compiling_is_not_possible(caplog, broken_from):
    """At the first call, or at a later one whose shapes are new."""
    caplog.set_level("INFO")
    calls = []

    def compiled(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        if len(calls) >= broken_from:
            raise RuntimeError("no C++ compiler\nlong story")
        return x + 1

    function = MaybeCompiled(lambda x: x + 1, compiled=True)
    function.call = compiled
    for n in range(1, 6):
        assert torch.equal(function(torch.ones(n)), torch.full((n,), 2.0))
    assert not function.compiled
    assert len(calls) == broken_from
    assert caplog.text.count("no C++ compiler") == 1
    assert caplog.text.count("Compiling the inner loop") == 1
    assert "long story" not in caplog.text
