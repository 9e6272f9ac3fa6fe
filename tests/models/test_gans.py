"""Models that are trained against a critic, through the physics of a problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sciuq_runner.problems.forward_pde import ForwardPDE
from sciuq_runner.problems.spde import SPDE
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sciuq_runner import files, layout
from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.errors import ConfigError, RunError
from sciuq_runner.evaluation.prior_posterior import before_and_after
from sciuq_runner.methods.dens import DEns
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.models.gan_fp import BoundGenerators
from sciuq_runner.models.gan_training import JUDGED_EVERY, Adversarial
from sciuq_runner.models.gp_pi_gan import GPPIGAN
from sciuq_runner.models.pi_gan import PIGAN, BoundPIGAN
from sciuq_runner.models.prior_training import Samples
from sciuq_runner.physics.problem import Noise, Observations, PointObservations
from sciuq_runner.seeds import stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop

SMALL = Adversarial(n_steps=6, batch=8, critic_width=8, compile="never")


def settings_of(*overrides: str) -> dict:
    register_resolvers()
    return plain(compose(["fidelity=smoke", *overrides], None))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_realisations_have_the_moments_of_the_gaussian_process():
    """Mean and variance of the draws against a process fitted here, within Monte Carlo error."""
    problem = ForwardPDE()
    data = problem.dataset(stream(0, "data"))
    train = {name: item.train for name, item in data.items()}
    n = 20_000
    history = GPPIGAN(n_realisations=n, n_places=11).history(problem, train)
    mean, std = independent_process(train["f"]).predict(history["f"].x, return_std=True)
    np.testing.assert_allclose(history["f"].y.mean(1), mean, atol=5 * std.max() / n**0.5 + 1e-3)
    np.testing.assert_allclose(history["f"].y.std(1), std, rtol=5 / (2 * n) ** 0.5 + 1e-2, atol=1e-3)
    np.testing.assert_allclose(history["u"].y.mean(1), train["u"].y[:, 0], atol=5 * 0.1 / n**0.5)


def test_a_process_is_not_finer_than_what_is_read():
    x = np.linspace(-1, 1, 9)[:, None]
    white = np.random.default_rng(0).standard_normal((9, 1))
    settings, rng = GPPIGAN(n_realisations=4000), np.random.default_rng(1)
    process = settings.fit(PointObservations(x, white), Noise("known", 0.01), 2.0, rng)
    draws = settings.posterior_draws(process, np.linspace(-1, 1, 65)[:, None], rng)
    neighbours = np.corrcoef(draws[12], draws[13])[0, 1]  # 1/32 apart, a quarter of the shortest length
    assert neighbours > np.exp(-0.5 * 0.25**2) - 0.05


def test_what_is_learned_from_readings_is_not_counted_twice():
    target = prepare(assemble(settings_of("problem=forward_pde", "model=gp_pi_gan")))[1]
    assert target.terms == []
    theta = torch.randn(3, target.size)
    torch.testing.assert_close(target.log_density(theta), target.log_prior(theta))


def independent_process(train: Observations) -> GaussianProcessRegressor:
    spacing = np.median(np.diff(train.x[:, 0]))
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(0.2, (spacing / 2, 20))
    process = GaussianProcessRegressor(kernel, alpha=0.1**2, n_restarts_optimizer=20, random_state=1)
    return process.fit(train.x, train.y[:, 0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_prior_of_a_gaussian_process_is_that_without_readings():
    run = assemble(settings_of("problem=forward_pde", "model=gp_pi_gan"))
    data, target = prepare(run)
    (stage,) = target.model.pretraining()
    stage.load(stage.run(Loop()))
    posterior = Posterior(torch.randn(2000, target.size, generator=torch.Generator().manual_seed(0)))
    panel = before_and_after(target, posterior, stream(0, "figures"), run.problem.probes)["f(1)"]
    variance = independent_process(data["f"].train).kernel_.diag(np.ones((1, 1)))[0]
    n = len(panel["prior"])
    assert panel["prior"].var() == pytest.approx(variance, rel=5 * (2 / n) ** 0.5 + 1e-2)
    assert panel["prior"].mean() == pytest.approx(0, abs=5 * (variance / n) ** 0.5)
    with torch.no_grad():
        made = target.model.observe(posterior.theta, "f", torch.ones(1, 1))[:, 0, 0]
    np.testing.assert_allclose(panel["posterior"], made, rtol=1e-5)
    (other,) = before_and_after(target, posterior, stream(0, "figures"), {"u": (1.0,)}).values()
    assert set(other) == {"posterior"}  # what was assumed of u is not known


def test_a_saved_gp_pi_gan_needs_no_readings():
    problem = ForwardPDE()
    train = {name: item.train for name, item in problem.dataset(stream(0, "data")).items()}
    settings = GPPIGAN(latent=3, width=8, n_realisations=50, n_places=9, gan=SMALL)
    model, again = settings.bind(problem, problem.noise, train), settings.bind(problem, problem.noise)
    assert isinstance(model, BoundGenerators)
    (stage,) = model.pretraining()
    stage.load(stage.run(Loop()))
    again.load_state(model.state())
    theta, x = torch.randn(2, 3), torch.linspace(-1, 1, 5)[:, None]
    torch.testing.assert_close(again.observe(theta, "f", x), model.observe(theta, "f", x))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["problem=forward_pde", "model=gp_pi_gan", "method=dens"], "use method=hmc"),
        (["problem=forward_pde", "model=gp_pi_gan", "model.process=g"], "model.process=g"),
        (["problem=mixed_pde", "model=gp_pi_gan"], "model.process=f"),
        (["problem=spde", "model=pi_gan", "method=hmc"], "use method=dens"),
        (["problem=function", "model=pi_gan", "method=dens"], "use model=bnn"),
    ],
)
def test_combinations_without_meaning_are_refused(overrides, said):
    with pytest.raises(ConfigError, match=said):
        prepare(assemble(settings_of(*overrides)))


def test_members_of_a_pi_gan_train_apart_and_make_the_source_by_physics():
    problem = SPDE(n_realisations=60, n_test_realisations=20, n_calibration=0, n_test=11)
    train = {name: item.train for name, item in problem.dataset(stream(0, "data")).items()}
    model = PIGAN(latent=3, width=8, n_draws=7, gan=SMALL).bind(problem, problem.noise, train)
    assert isinstance(model, BoundPIGAN)
    target = Target(model, problem.noise, train, dtype=torch.float64)
    posterior = DEns(n_members=2).run(target, torch.Generator().manual_seed(0), Loop())
    assert posterior.theta.shape == (2, model.n_params)
    assert not torch.equal(posterior.theta[0], posterior.theta[1])
    x = torch.linspace(-1, 1, 41, dtype=torch.float64)[:, None]
    u, rate, source = (model.observe(posterior.theta, name, x) for name in ("u", "lambda", "f"))
    assert u.shape == (2, 41, 7)
    flux = rate * torch.gradient(u, spacing=(x[:, 0],), dim=1, edge_order=2)[0]
    by_differences = -0.1 * torch.gradient(flux, spacing=(x[:, 0],), dim=1, edge_order=2)[0]
    inner = slice(4, -4)  # differences of second order: a few times step^2 of a smooth function
    error = (source - by_differences)[:, inner].abs().max() / source[:, inner].abs().max()
    assert error < 0.1


@pytest.mark.parametrize(("factor", "said"), [(float("nan"), "NaN or infinite"), (0.0, "collapsed")])
@pytest.mark.parametrize("start", [0, JUDGED_EVERY + 5], ids=["at once", "later"])
def test_a_pi_gan_that_fails_keeps_its_last_good_members(tmp_path, monkeypatch, factor, said, start):
    problem = SPDE(n_realisations=60, n_test_realisations=20, n_calibration=0, n_test=11)
    train = {name: item.train for name, item in problem.dataset(stream(0, "data")).items()}
    settings = PIGAN(latent=3, width=8, n_draws=7, gan=replace(SMALL, n_steps=2 * JUDGED_EVERY))
    model, again = (settings.bind(problem, problem.noise, part) for part in (train, None))
    target = Target(model, problem.noise, train, dtype=torch.float64)
    loop = Loop(None, tmp_path / "checkpoint.safetensors")
    good = Samples.made
    monkeypatch.setattr(
        Samples,
        "made",
        lambda *inputs: good(*inputs) * (factor if loop.done.get("training", 0) >= start else 1.0),
    )
    kept = (
        f"The last good weights are in {tmp_path / layout.LAST_GOOD}" if start else "None of its weights were good yet"
    )
    with pytest.raises(RunError, match=f"{said}.* {kept}"):
        DEns(n_members=2).run(target, torch.Generator().manual_seed(0), loop)
    assert (tmp_path / layout.LAST_GOOD).exists() == bool(start)
    if start:
        found = files.read_tensors(tmp_path / layout.LAST_GOOD)[0]
        again.load_state(found)
        assert again.generated.units == model.generated.units
        assert torch.isfinite(again.observe(found["theta"], "u", torch.zeros(1, 1))).all()
        begin = target.init(2, torch.Generator().manual_seed(0))
        assert found["theta"].shape == begin.shape
        assert not torch.equal(found["theta"], begin)


def test_known_noise_of_realisations_is_added_to_what_is_made():
    problem = SPDE(case="noisy", n_realisations=60, n_test_realisations=20, n_calibration=0, n_test=11)
    train = {name: item.train for name, item in problem.dataset(stream(0, "data")).items()}
    noisy = PIGAN().bind(problem, problem.noise, train)
    clean = PIGAN().bind(problem, replace(problem, case="clean").noise, train)
    assert isinstance(noisy, BoundPIGAN)
    assert isinstance(clean, BoundPIGAN)
    assert {item.noise for item in noisy.past.values()} == {problem.noise_scale}
    assert {item.noise for item in clean.past.values()} == {0.0}
