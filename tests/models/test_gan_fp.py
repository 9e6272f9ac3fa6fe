"""Adversarial training: the critic's slope, a process with known covariance, and what happens when it goes wrong."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from sciuq_runner.problems.forward_pde import ForwardPDE
from sciuq_runner.problems.function import Function
from sciuq_runner.problems.mixed_pde import MixedPDE

from sciuq_runner import files, layout
from sciuq_runner.errors import ConfigError, RunError
from sciuq_runner.methods.hmc import HMC
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.models.gan_fp import GANFP, BoundGenerators
from sciuq_runner.models.gan_training import JUDGED_EVERY, Adversarial, sliced_distance
from sciuq_runner.models.pretraining import Store, pretrain
from sciuq_runner.models.prior_training import PriorTraining, unlikeness
from sciuq_runner.networks.critic import LEAK, Critic
from sciuq_runner.physics.problem import FieldSpec, History, Noise, PointObservations
from sciuq_runner.predict.predictive import predict
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop, Silent
from tests.exact import Plane
from tests.montecarlo import assert_moments

SMALL = Adversarial(n_steps=12, batch=16, critic_width=8, compile="never")


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_slope_of_the_critic_and_its_penalty_agree_with_double_differentiation():
    critic = Critic(5, (7, 6, 4))
    gamma = critic.init(2, random())
    samples = torch.randn(2, 9, 5, generator=random(1), dtype=torch.float64)
    leaf, weights = samples.clone().requires_grad_(True), gamma.clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(critic.value(weights, leaf).sum(), leaf, create_graph=True)
    torch.testing.assert_close(critic.slope(gamma, samples), slope.detach())
    (by_graph,) = torch.autograd.grad((slope.norm(dim=-1) - 1).square().mean(), weights)
    weights = gamma.clone().requires_grad_(True)
    (ours,) = torch.autograd.grad((critic.slope(weights, samples).norm(dim=-1) - 1).square().mean(), weights)
    torch.testing.assert_close(ours, by_graph)


def test_the_critic_leaks_as_tensorflow_does():
    critic = Critic(1, (1,))
    gamma = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    assert critic.value(gamma, torch.tensor([[[-2.0], [3.0]]])).tolist() == [[pytest.approx(-2 * LEAK), 3.0]]


def test_sliced_distance_of_shifted_samples():
    """A shift moves every projection by its component; their mean over directions is known in closed form."""
    real = torch.randn(4000, 3, generator=random())
    shift = torch.tensor([0.6, 0.0, -0.8])
    same, moved = real[torch.randperm(4000, generator=random(1))], real + shift
    assert sliced_distance(same[None], real).item() == pytest.approx(0, abs=1e-6)
    # E|cos| of the angle between a fixed and a random direction in three dimensions is 1/2; 200 directions
    assert sliced_distance(moved[None], real).item() == pytest.approx(0.5, abs=4 * 0.29 / 200**0.5)


@dataclass(frozen=True)
class Lines(Plane):
    """Straight lines in place of planes, with a history of others."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", {"u": FieldSpec(("x",))})

    def history(self, rng: np.random.Generator, n: int) -> Mapping[str, History]:
        x = np.linspace(-1, 1, 5)
        slope, offset = rng.standard_normal((2, n))
        return {"u": History(x[:, None], np.outer(x, slope) + offset)}


@dataclass(frozen=True)
class Process(Lines):
    """A Gaussian process in place of lines."""

    x: ClassVar = np.linspace(-1, 1, 11)
    mean: ClassVar = np.sin(np.pi * x)
    covariance: ClassVar = np.exp(-np.square(x[:, None] - x) / (2 * 0.5**2))

    def history(self, rng: np.random.Generator, n: int) -> Mapping[str, History]:
        return {"u": History(self.x[:, None], rng.multivariate_normal(self.mean, self.covariance, n).T)}


@pytest.mark.full
def test_learns_a_gaussian_process_with_known_covariance():
    """Mean and leading eigenvalues within 15 %, against the process and not against its sample."""
    problem = Process()
    settings = Adversarial(n_steps=3000, learning_rate=1e-3, batch=64, critic_width=64)
    model = GANFP(latent=10, width=64, n_realisations=5000, gan=settings).bind(problem, problem.noise)
    assert isinstance(model, BoundGenerators)
    (stage,) = model.pretraining()
    stage.load(stage.run(Loop()))
    z = torch.randn(20_000, 10, generator=random(), dtype=torch.float64)
    with torch.no_grad():
        made = model.observe(z, "u", torch.tensor(problem.x[:, None]))[..., 0].numpy()
    assert np.linalg.norm(made.mean(0) - problem.mean) < 0.15 * np.linalg.norm(problem.mean)
    ours, theirs = (np.linalg.eigvalsh(part)[::-1][:3] for part in (np.cov(made.T), problem.covariance))
    np.testing.assert_allclose(ours, theirs, rtol=0.15)


def bound(**settings: object) -> BoundGenerators:
    problem = Lines()
    model = GANFP(latent=3, width=8, n_realisations=100, gan=SMALL, **settings).bind(problem, problem.noise)  # type: ignore[arg-type]
    assert isinstance(model, BoundGenerators)
    return model


def test_posterior_over_a_linear_generator_is_the_exact_gaussian_one():
    """Without hidden layers u is linear in z: Bayesian linear regression in the features of the generator."""
    model = bound(depth=0)
    model.beta = model.generated.init(1, random(3)) + 0.3
    x = np.linspace(-1, 1, 6)[:, None]
    y = 0.5 * x + 0.2
    target = Target(model, model.problem.noise, {"u": PointObservations(x, y)}, dtype=torch.float64)
    basis = torch.cat([torch.zeros(1, 3), torch.eye(3)]).double()
    values = model.observe(basis, "u", torch.tensor(x))[..., 0].numpy()
    features, offset = (values[1:] - values[0]).T, values[0]
    precision = np.eye(3) + features.T @ features / 0.3**2
    covariance = np.linalg.inv(precision)
    mean = covariance @ features.T @ (y[:, 0] - offset) / 0.3**2
    method = HMC(n_chains=8, n_burn=300, n_samples=2400, n_leapfrog=10, thin=1, step_size=0.1, compile="never")
    posterior = method.run(target, random(4), Loop())
    assert_moments(posterior.theta.unflatten(0, (8, -1)), mean, covariance)


def test_derivatives_of_generated_fields_reach_the_physics():
    problem = MixedPDE()
    model = GANFP(latent=3, width=8).bind(problem, replace_noise(problem))
    assert isinstance(model, BoundGenerators)
    model.beta = model.generated.init(1, random())
    theta = torch.randn(2, 3, generator=random(1), dtype=torch.float64)
    points = torch.rand(4, 2, generator=random(2), dtype=torch.float64)

    def u(x: torch.Tensor) -> torch.Tensor:
        return model.observe(theta, "u", x)

    step = 1e-4
    t, x = (torch.tensor(unit, dtype=torch.float64) * step for unit in ([1.0, 0.0], [0.0, 1.0]))
    u_t = (u(points + t) - u(points - t)) / (2 * step)
    u_xx = (u(points + x) - 2 * u(points) + u(points - x)) / step**2
    rate = model.observe(theta, "lambda", points[:, 1:])
    # differences of second order: an error of step^2 and rounding of 1e-16 / step^2
    torch.testing.assert_close(
        model.observe(theta, "f", points), u_t - 0.01 * u_xx + rate * u(points) ** 3, rtol=1e-5, atol=1e-6
    )


def replace_noise(problem: MixedPDE) -> Mapping[str, Noise]:
    return replace(problem, learn_noise=False).noise


def test_pretraining_is_found_again_by_what_made_it(tmp_path, caplog):
    store = Store(tmp_path / "store")
    first, again, other = bound(), bound(), bound(pretrain_seed=1)
    found = pretrain(first, store, tmp_path, Loop())
    assert found["reused"] == 0
    assert pretrain(again, store, tmp_path, Loop())["reused"] == 1
    torch.testing.assert_close(again.weights, first.weights)
    keys = [model.pretraining()[0].key() for model in (first, other)]
    assert keys[0] != keys[1]
    assert {"distance", "u_mean_error", "u_spectrum_error", "u_value_distance"} < set(found)
    store.path(keys[0]).write_bytes(b"half")
    assert pretrain(bound(), store, tmp_path, Loop())["reused"] == 0  # a damaged file is made anew


SLOW_DIFFUSION = """
from dataclasses import dataclass

from sciuq_runner.problems.mixed_pde import MixedPDE

@dataclass(frozen=True)
class Mine(MixedPDE):
    diffusion: float = 0.1

    def observe(self, quantity, unknowns, x):
        u = unknowns["u"].at(x)
        return u.t - self.diffusion * u.xx if quantity == "f" else unknowns[quantity](x)
"""


def test_generators_of_ones_own_problem_know_its_equations(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def key(source: str, **settings: float) -> str:
        (tmp_path / "my_physics.py").write_text(source)
        monkeypatch.delitem(sys.modules, "my_physics", raising=False)
        importlib.invalidate_caches()
        linecache.clearcache()
        problem = importlib.import_module("my_physics").Mine(**settings)
        return GANFP(latent=3, n_realisations=20).bind(problem, problem.noise).pretraining()[0].key()

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    first = key(SLOW_DIFFUSION)
    assert key(SLOW_DIFFUSION) == first
    assert key(SLOW_DIFFUSION, diffusion=0.2) != first
    assert key(SLOW_DIFFUSION.replace("u.t - ", "u.t + ")) != first


def test_pretraining_goes_on_where_it_was_interrupted(tmp_path):
    class Stop(Silent):
        def update(self, done: int, numbers: dict[str, float]) -> None:
            if done == 5:
                loop.request_stop()

    whole = bound()
    pretrain(whole, Store(tmp_path / "a"), tmp_path / "a", Loop())
    loop = Loop(Stop(), tmp_path / "b" / "checkpoint.safetensors", 1e9)
    with pytest.raises(KeyboardInterrupt):
        pretrain(bound(), Store(tmp_path / "b"), tmp_path / "b", loop)
    resumed = bound()
    pretrain(resumed, Store(tmp_path / "b"), tmp_path / "b", Loop(None, tmp_path / "b" / "checkpoint.safetensors", 1e9))
    torch.testing.assert_close(resumed.weights, whole.weights, rtol=0, atol=0)


def test_a_checkpoint_can_be_written_at_any_step(tmp_path):
    settings = replace(SMALL, n_steps=JUDGED_EVERY + 1)
    problem = Lines()
    model = GANFP(latent=3, width=8, n_realisations=100, gan=settings).bind(problem, problem.noise)
    loop = Loop(None, tmp_path / "run" / "checkpoint.safetensors", 0)  # after every step
    assert pretrain(model, Store(tmp_path / "store"), tmp_path / "run", loop)["reused"] == 0


FAULTS = [(float("nan"), "NaN or infinite"), (0.0, "collapsed")]


def failing(n_steps: int, factor: float, start: int) -> BoundGenerators:
    """A model of whose training what is made is multiplied by a factor from a step on."""
    problem = Lines()
    settings = replace(SMALL, n_steps=n_steps)
    model = GANFP(latent=3, width=8, n_realisations=100, gan=settings).bind(problem, problem.noise)
    assert isinstance(model, BoundGenerators)
    (stage,) = model.pretraining()
    assert isinstance(stage, PriorTraining)
    good = stage.simulate

    def simulate(beta: torch.Tensor, z: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        assert stage.game is not None
        done = stage.game.loop.done.get(stage.game.name, 0)
        return good(beta, z, noise) * (factor if done >= start else 1.0)

    stage.simulate = simulate  # type: ignore[method-assign]
    model.pretraining = lambda: [stage]  # type: ignore[method-assign]
    return model


class StopAt(Silent):
    """Asks for a stop after some steps."""

    def __init__(self, step: int) -> None:
        self.step, self.loop = step, Loop(self)

    def update(self, done: int, numbers: dict[str, float]) -> None:
        if done == self.step:
            self.loop.request_stop()


@pytest.mark.parametrize(("factor", "said"), FAULTS)
def test_a_training_that_goes_wrong_ends_in_a_sentence_and_keeps_the_last_good_weights(tmp_path, factor, said):
    """They are those of the look before, and can be loaded."""
    model, early, again = (failing(2 * JUDGED_EVERY, factor, JUDGED_EVERY + 5) for _ in range(3))
    with pytest.raises(RunError, match=rf"{said}.* The last good weights are in {tmp_path / layout.LAST_GOOD}\."):
        pretrain(model, Store(tmp_path / "store"), tmp_path, Loop())
    assert not list((tmp_path / "store").glob("*.safetensors"))
    again.load_state(files.read_tensors(tmp_path / layout.LAST_GOOD)[0])
    (stage,) = early.pretraining()
    torch.testing.assert_close(again.weights, stage.run(StopAt(JUDGED_EVERY).loop)["beta"], rtol=0, atol=0)
    assert torch.isfinite(again.weights).all()
    assert again.generated.units == early.generated.units != {"u": 1.0}


@pytest.mark.parametrize(("factor", "said"), FAULTS)
def test_weights_that_nobody_has_looked_at_are_not_called_good(tmp_path, factor, said):
    with pytest.raises(RunError, match=rf"{said}.* None of its weights were good yet: none are kept\."):
        pretrain(failing(12, factor, 5), Store(tmp_path / "store"), tmp_path, Loop())
    assert not (tmp_path / layout.LAST_GOOD).exists()


def test_weights_without_variety_are_not_called_good_either(tmp_path):
    """Early looks are patient with a generator that does not vary yet."""
    with pytest.raises(RunError, match=r"collapsed.* None of its weights were good yet: none are kept\."):
        pretrain(failing(5 * JUDGED_EVERY, 0.0, 0), Store(tmp_path / "store"), tmp_path, Loop())


@dataclass(frozen=True)
class NoisyLines(Lines):
    """Lines whose history has noise, of a scale that is told or not."""

    scale: float = 0.5
    told: bool = True

    def history(self, rng: np.random.Generator, n: int) -> Mapping[str, History]:
        clean = super().history(rng, n)["u"]
        noise = self.scale * rng.standard_normal(clean.y.shape)
        return {"u": History(clean.x, clean.y + noise, self.scale if self.told else None)}


def noisy_stage(scale: float = 0.5, told: bool = True) -> PriorTraining:
    problem = NoisyLines(scale=scale, told=told)
    noise = {"u": Noise("known", scale) if told else Noise("heteroscedastic", scale)}
    model = GANFP(latent=3, width=8, n_realisations=400, gan=SMALL).bind(problem, noise)
    (stage,) = model.pretraining()
    assert isinstance(stage, PriorTraining)
    return stage


@pytest.mark.parametrize("told", [True, False], ids=["known", "learned"])
def test_noise_does_not_hide_that_a_generator_gives_always_the_same(told):
    stage = noisy_stage(told=told)
    physics = stage.model.generated
    good = physics.observe
    physics.observe = lambda beta, z, *rest: good(beta, 0 * z, *rest)  # type: ignore[method-assign]
    with pytest.raises(RunError, match=r"collapsed .* without noise its realisations vary 0.0%"):
        stage.run(Loop())


@pytest.mark.parametrize("scale", [0.5, 10.0])
@pytest.mark.parametrize("told", [True, False], ids=["known", "learned"])
def test_a_generator_of_the_true_realisations_is_never_refused(told, scale, caplog):
    """Be they small beside their noise."""
    stage = noisy_stage(scale, told)

    def observe(beta: torch.Tensor, z: torch.Tensor, name: str, x: torch.Tensor) -> torch.Tensor:
        line = x[:, :1] * z[..., None, :, 0] + z[..., None, :, 1]
        return line + 0 * beta.sum()

    stage.model.generated.observe = observe  # type: ignore[method-assign,assignment]
    stage.run(Loop())
    if told:
        assert "vary" not in caplog.text


@pytest.mark.parametrize("scale", [0.0, 0.5])
def test_known_noise_is_added_to_what_is_made(scale):
    """For one z, all that varies is the noise, independently at every place."""
    stage, n = noisy_stage(scale), 20_000
    beta = stage.model.generated.init(1, random()).float()
    z = torch.randn(1, 1, 3, generator=random(1)).expand(1, n, 3)
    noise = torch.randn(1, n, 5, generator=random(2))
    with torch.no_grad():
        values = stage.samples.values(stage.model.generated, beta, z, noise)["u"][0]
        clean = stage.samples.values(stage.model.generated, beta, z, 0 * noise)["u"][0]
    assert clean.std(1).max() < 1e-6
    # entries of the covariance of a sample are known to sqrt(2 / n) of the variance, or better
    wanted = scale**2 * np.eye(5)
    np.testing.assert_allclose(np.cov(values.double()), wanted, atol=5 * scale**2 * (2 / n) ** 0.5 + 1e-12)
    np.testing.assert_allclose(values.mean(1), clean.mean(1), atol=5 * scale / n**0.5 + 1e-6)


def test_comparing_with_a_history_sees_shifts_and_scales():
    """Each number reacts to what it is about, by as much as it should."""
    real = np.random.default_rng(0).multivariate_normal(Process.mean, Process.covariance, 2000)
    spread, centred = real.std(), real - real.mean(0)
    same = unlikeness(real[::-1], real)
    assert same == pytest.approx(dict.fromkeys(("mean_error", "value_distance", "spectrum_error"), 0.0), abs=1e-9)
    shifted = unlikeness(real + 0.3, real)
    assert shifted == pytest.approx(
        {"mean_error": 0.3 / spread, "value_distance": 0.3 / spread, "spectrum_error": 0.0}, abs=1e-9
    )
    wider = unlikeness(real.mean(0) + 1.5 * centred, real)
    assert wider["mean_error"] == pytest.approx(0, abs=1e-9)
    assert wider["spectrum_error"] == pytest.approx(1.5**2 - 1)
    # quantiles move by half of their distance from the mean
    assert wider["value_distance"] == pytest.approx(0.5 * np.abs(centred).mean() / spread)
    constant = unlikeness(real + 0.3, np.broadcast_to(real[:1], real.shape))
    assert "spectrum_error" not in constant


@pytest.mark.parametrize(
    "problem", [ForwardPDE(), MixedPDE(case="steep"), MixedPDE(case="heteroscedastic")], ids=["none", "steep", "noise"]
)
def test_problems_without_a_fitting_history_are_refused(problem):
    with pytest.raises(ConfigError, match="use model=bnn"):
        GANFP().bind(problem, problem.noise)


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
def test_learned_noise_is_predicted_with_the_standard_deviation_that_the_game_gave_it(likelihood):
    """Student-t noise of the scale that is handed on has it too."""
    problem = Function(case="student_t", likelihood=likelihood)
    model = GANFP(latent=3, width=8).bind(problem, problem.noise)
    assert isinstance(model, BoundGenerators)
    model.beta = model.generated.init(1, random())
    target = Target(model, problem.noise, {}, dtype=torch.float64)
    posterior = Posterior(torch.randn(4, 3, generator=random(1), dtype=torch.float64))
    x = np.linspace(-1, 1, 5)[:, None]
    learned = model.generated.noise_scale(model.beta, "u", torch.tensor(x))[0]
    np.testing.assert_allclose(predict(target, posterior, "u", x).aleatoric_std, learned)
    factor = (3 / 5) ** 0.5 if likelihood == "student_t" else 1.0
    torch.testing.assert_close(model.noise_scale(posterior.theta, "u", torch.tensor(x))[2], factor * learned)


def test_historical_noise_is_that_of_the_case():
    history = Function(case="heteroscedastic").history(np.random.default_rng(0), 4000)["u"]
    clean = Function().history(np.random.default_rng(0), 4000)["u"]
    assert history.noise is None
    assert clean.noise == 0
    scale = (history.y - clean.y).std(1)
    # the standard deviation of a sample of 4000 is known to one part in sqrt(8000)
    np.testing.assert_allclose(scale, 0.5 * np.abs(history.x[:, 0]), rtol=4 / 8000**0.5, atol=1e-12)


def test_the_history_of_the_mixed_problem_holds_the_truth_at_the_end_of_its_range():
    problem = MixedPDE()
    history = problem.history(np.random.default_rng(0), 1000)
    x = history["lambda"].x[:, 0]
    assert np.ptp(history["u"].y, axis=1).max() == 0
    np.testing.assert_allclose(history["u"].y[:21, 0], problem.solution(x, np.zeros(1))[0], atol=1e-8)
    nearest = np.abs(history["lambda"].y - problem.reaction(x)[:, None]).max(0).min()
    assert nearest < 0.1


def test_a_saved_prior_draws_no_history():
    model, again = bound(), bound()
    (stage,) = model.pretraining()
    stage.load(stage.run(Loop()))
    again.load_state(model.state())
    theta, x = torch.randn(2, 3), torch.linspace(-1, 1, 5)[:, None]
    torch.testing.assert_close(again.observe(theta, "u", x), model.observe(theta, "u", x))
    assert "past" not in vars(again)
