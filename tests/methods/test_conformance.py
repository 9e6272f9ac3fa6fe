"""Every method of the table against what is known exactly.

(a) Bayesian linear regression: samplers recover mean and covariance within Monte Carlo error; approximations get
    what theory says they get.
(b) A learned noise scale is recovered.
(c) A noise function is recovered where there are data.
(d) A colder posterior is narrower, by the factor that theory gives.
(e) An unknown number beside the weights, with a prior of its own, and readings in copies that count once.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from sciuq_runner.methods.hmc import HMC
from sciuq_runner.methods.ld import LD
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.models.base import Prior
from sciuq_runner.models.bnn import BoundBNN
from sciuq_runner.networks import MLP
from sciuq_runner.physics.problem import InverseGamma, Noise, PointObservations
from sciuq_runner.predict.predictive import predict
from sciuq_runner.target.batches import Batches
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop
from tests.exact import ExactRegression, Plane, linear_regression, warped_regression
from tests.table import ROWS


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_every_method_has_a_row():
    methods = {path.stem for path in (Path(__file__).parents[2] / "conf" / "method").glob("*.yaml")}
    assert methods == {name.split()[0] for name in ROWS}


def run(name: str, target: Target) -> Posterior:
    method = ROWS[name].method
    assert method.objection(target) is None
    return method.run(target, generator(), Loop())


def weights(name: str, exact: ExactRegression, posterior: Posterior) -> Posterior:
    """Samples of the three coefficients; a GP's are read off its functions."""
    if name != "gp":
        return posterior
    probes = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    values = predict(exact.target, posterior, "u", probes).members[..., 0]
    return Posterior(
        torch.as_tensor(np.column_stack([values[:, 0] - values[:, 2], values[:, 1] - values[:, 2], values[:, 2]]))
    )


QUICK_AND_SLOW = [pytest.param(name, marks=pytest.mark.full) if name == "nuts" else name for name in ROWS]
SLOW_ONES = [pytest.param(name, marks=pytest.mark.full) for name in ("nuts", "dens anchored")]


@pytest.mark.parametrize("name", [*["hmc", "mfvi", "la", "la diag", "dens"], *SLOW_ONES])
def test_unknown_number_beside_the_weights(name):
    """Each way in which methods use the prior: its density, its gradient, its scales, its draws."""
    row, exact = ROWS[name], warped_regression()
    method = dataclasses.replace(row.method, **row.warped)
    assert method.objection(exact.target) is None
    row.exact(exact, method.run(exact.target, generator(), Loop()))


@pytest.mark.parametrize("name", ROWS)
def test_linear_regression(name):
    exact = linear_regression()
    ROWS[name].exact(exact, weights(name, exact, run(name, exact.target)))


@pytest.mark.parametrize("name", QUICK_AND_SLOW)
def test_temperature(name):
    """Half the temperature: half the variance, where a method has a variance to temper."""
    row = ROWS[name]
    exact = linear_regression(temperature=0.5)
    if name == "mfvi":  # the paper tempers the divergence: readings count twice, the prior once
        posterior = run(name, exact.target)
        std = 1 / np.sqrt(np.diag(exact.features.T @ exact.features) / 0.09 / 0.5 + 1)
        np.testing.assert_allclose(posterior.theta.numpy().std(0), std, rtol=5 / np.sqrt(2 * 4000) + 0.05)
    elif row.tempered is None:
        assert "temperature" in str(row.method.objection(exact.target))
    else:
        method = dataclasses.replace(row.method, **row.cold)
        row.tempered(exact, weights(name, exact, method.run(exact.target, generator(), Loop())))


N_NOISE = 200
LIKE = ("nuts", "ld", "sgld", "sghmc", "la kron", "la diag", "sens")
"""Methods that use a noise function as others do, or take long with it."""


@pytest.mark.parametrize("name", ROWS)
def test_a_learned_noise_scale_is_recovered(name):
    """With 200 readings the scale 0.3 is known to about 5 %; five standard errors are allowed."""
    noise = Noise("learned", 0.3, hyperprior=InverseGamma(2.0, 10.0))
    target = linear_regression(n=N_NOISE, noise=noise).target
    row = ROWS[name]
    if row.noisy is None:
        assert "known scale" in str(row.method.objection(target))
        return
    start = target.init
    target.init = lambda n, g: start(n, g) + torch.tensor([0.0, 0, 0, 0.7]).double()  # begin at twice the truth
    posterior = dataclasses.replace(row.method, **row.noisy).run(target, generator(), Loop())
    scale = posterior.evaluate_scale(lambda theta: target.log_noise_scales(theta)[:, 0].exp()).mean().item()
    assert scale == pytest.approx(0.3, rel=5 / np.sqrt(2 * N_NOISE))


def test_learned_scales_that_cannot_be_are_refused():
    student = linear_regression(noise=Noise("learned", 0.3, "student_t")).target
    assert "joint" in str(HMC().objection(student))
    assert HMC(scales="joint").objection(student) is None
    assert "method=hmc" in str(LD().objection(student))


def noisy_line(n: int = 160) -> Target:
    """A line whose noise grows from 0.1 to 0.7 along x."""
    rng = np.random.default_rng(3)
    x = np.column_stack([np.linspace(-1, 1, n), np.zeros(n)])
    y = 0.5 * x[:, :1] + (0.4 + 0.3 * x[:, :1]) * rng.standard_normal((n, 1))
    noise = {"u": Noise("heteroscedastic", 0.4)}
    model = BoundBNN(Plane(), {"u": MLP(2, 2, (8,))}, Prior(1.0), noise)
    return Target(model, noise, {"u": PointObservations(x, y)}, dtype=torch.float64)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.full if name in LIKE else ()) for name in ROWS])
def test_a_noise_function_is_recovered_where_there_are_data(name):
    """The predicted scale rises along x as the true one does, within what 160 readings can tell."""
    target, row = noisy_line(), ROWS[name]
    if row.nonlinear is None:
        assert "noise" in str(row.method.objection(target))
        return
    method = row.with_settings(row.nonlinear)
    assert method.objection(target) is None
    posterior = method.run(target, generator(), Loop())
    x = np.column_stack([np.linspace(-0.8, 0.8, 9), np.zeros(9)])
    found = predict(target, posterior, "u", x).aleatoric_std[:, 0]
    true = 0.4 + 0.3 * x[:, 0]
    # each ninth of the interval holds some 18 readings: a relative error of 1 / sqrt(36), and five of them allowed
    assert (np.abs(found / true - 1) < 5 / 6).all()
    assert np.corrcoef(found, true)[0, 1] > 0.9
    assert np.sqrt(np.mean((found - true) ** 2)) < 0.1


OTHERS = [pytest.param(name, marks=pytest.mark.full) for name in ("ld", "mfvi", "la", "mcd")]


@pytest.mark.parametrize("name", ["hmc", "dens", "dens anchored", *OTHERS])
def test_compiled_in_pieces_a_method_finds_what_it_does_of_all_readings(name, monkeypatch, caplog):
    """All that compile do, sens and swag as dens; but not the anchored, whose members have readings of their own."""
    monkeypatch.setattr("sciuq_runner.target.batches.PIECE_ROWS", 20)
    monkeypatch.setattr("sciuq_runner.target.batches.PIECE_POINTS", 20)
    compiler, pieces_of, used = torch.compile, Batches.pieces, []

    def spied(batches, n_members):
        used.append(pieces_of(batches, n_members))
        return used[-1]

    monkeypatch.setattr(Batches, "pieces", spied)
    monkeypatch.setattr(torch, "compile", lambda call, **_: compiler(call, fullgraph=True, backend="aot_eager"))
    row, target = ROWS[name], linear_regression(n=60).target
    whole, pieces = (
        row.with_settings({**row.brief, "compile": choice}).run(target, generator(), Loop()).theta
        for choice in ("never", "always")
    )
    assert "not possible" not in caplog.text
    assert [picks.shape for (picks,) in used] == ([] if name == "dens anchored" else [(3, 20)] * 2)
    torch.testing.assert_close(pieces, whole, rtol=1e-6, atol=1e-8)
