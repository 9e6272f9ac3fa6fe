"""Operators that are learned, and functions in front of one that was learned before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.errors import ConfigError
from sciuq_runner.methods.dens import DEns
from sciuq_runner.methods.hmc import HMC
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.models.base import BoundModel, Model, Prior
from sciuq_runner.models.bnn import BoundBNN
from sciuq_runner.models.deeponet import DeepONet
from sciuq_runner.models.fno import FNO
from sciuq_runner.models.operator_fields import (
    BoundOperatorField,
    OperatorFieldModel,
)
from sciuq_runner.models.operators import BoundOperatorNetwork, OperatorModel
from sciuq_runner.networks import MLP
from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.problem import (
    Array,
    Dataset,
    FieldSpec,
    History,
    Noise,
    Observations,
    Operator,
    OperatorPairs,
    PointObservations,
    Problem,
)
from sciuq_runner.physics.standardisation import Standardisation
from sciuq_runner.predict import predictive
from sciuq_runner.predict.predictive import predict
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import STEPS_PER_CALL
from tests.montecarlo import assert_moments
from tests.operators import TINY, Counting, OneWeight


def generator(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


@dataclass(frozen=True)
class Integration(Problem):
    """u(x) is the integral of f from 0 to x, f a smooth random function on the unit interval."""

    n_pairs: int = 200
    n_sensors: int = 12
    direct: ClassVar = ("f",)
    fields: ClassVar = {"f": FieldSpec(("x",))}

    @property
    def operator(self) -> Operator:
        return Operator("f", "u")

    @property
    def noise(self) -> Mapping[str, Noise]:
        return {"f": Noise("known", 0.3), "u": Noise("known", 0.2)}

    @property
    def n_calibration_points(self) -> int:
        return 0

    def coordinates_of(self, quantity: str) -> tuple[str, ...]:
        return ("x",)

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        return unknowns[quantity](x)

    def dataset(self, rng: np.random.Generator) -> Dataset:
        raise AssertionError("the tests bring their own data")

    @property
    def sensors(self) -> Array:
        return np.linspace(0, 1, self.n_sensors)[:, None]

    def draw(self, n: int, seed: int) -> OperatorPairs:
        """Functions that are sums of the first cosines, and their exact integrals."""
        k, x = np.pi * np.arange(1, 5), self.sensors
        weights = np.random.default_rng(seed).standard_normal((n, 5)) / (1 + np.arange(5))
        f = np.concatenate([np.ones_like(x), np.cos(k * x)], axis=1)
        u = np.concatenate([x, np.sin(k * x) / k], axis=1)
        return OperatorPairs(x, u @ weights.T + 0.5 * x, weights @ f.T + 0.5)

    @cached_property
    def known(self) -> OperatorPairs:
        return self.draw(self.n_pairs, 0)

    def pairs(self) -> OperatorPairs:
        return self.known

    def transforms(self) -> Mapping[str, Standardisation]:
        x, inputs = self.sensors, self.known.inputs
        return {"f": Standardisation.fit(x, inputs.T), "u": Standardisation.fit(x, self.known.y)}

    def history(self, rng: np.random.Generator, n: int) -> Mapping[str, History]:
        return {"f": History(self.sensors, self.known.inputs.T[:, :n])}


def learned_target(problem: Integration, noise: Noise | None = None, model: DeepONet = TINY) -> Target:
    known = {"u": noise or Noise("exact", 0.05)}
    bound = model.bind(problem, known, {"u": problem.pairs()})
    options = {"transforms": problem.transforms(), "operator": problem.operator}
    return Target(bound, known, {"u": problem.pairs()}, dtype=torch.float64, **options)


# Mini-batches


@pytest.mark.parametrize("scale", [0.3, np.linspace(0.2, 0.6, 12)[:, None]], ids=["one scale", "a scale of each point"])
def test_the_likelihood_of_mini_batches_is_unbiased(monkeypatch, scale):
    """Its mean over many is that of all readings within Monte Carlo error, and all readings are as likely in it."""
    monkeypatch.setattr("sciuq_runner.target.batches.OPERATOR_POINTS", 5)
    made = learned_target(Integration(n_pairs=9), Noise("known", scale))
    theta, n, random = made.init(2, generator()), 1500, generator(1)
    picks = made.batches.draw_several(3, n, random)
    assert [part.shape for part in picks] == [(n, 5), (n, 3)]
    batches = (made.batches.unpack([part[i] for part in picks]) for i in range(n))
    found = torch.stack([made.log_likelihood(theta, batch) for batch in batches])
    exact = made.log_likelihood(theta)
    assert ((found.mean(0) - exact).abs() < 5 * found.std(0) / n**0.5).all()
    times = torch.zeros(12, 9)
    for points, functions in zip(*picks, strict=True):
        assert len(points.unique()) == 5
        assert len(functions.unique()) == 3
        times[points[:, None], functions] += 1
    share = 5 / 12 * 3 / 9
    assert ((times / n - share).abs() < 5 * (share * (1 - share) / n) ** 0.5).all()


def test_a_mini_batch_of_everything_is_the_likelihood():
    made = learned_target(Integration(n_pairs=9))
    theta = made.init(2, generator())
    batch = made.batches.draw(100, generator(1))
    torch.testing.assert_close(made.log_likelihood(theta, batch), made.log_likelihood(theta), rtol=1e-12, atol=0)


# Learning


@pytest.mark.parametrize("batch_size", [None, 32])
def test_a_deeponet_learns_a_linear_operator(batch_size):
    """Of new functions, in original units; what the mean of all pairs would give is the error to beat."""
    problem = Integration()
    made = learned_target(problem)
    method = DEns(3, 600, 3e-3, 3e-5, weight_decay=1e-6, batch_size=batch_size, compile="never")
    posterior = method.run(made, generator(), Loop())
    new = problem.draw(50, seed=1)
    found = predict(made, posterior, "u", new.x, clean=True, inputs=new.inputs)
    assert found.mean.shape == (12, 50)
    assert found.members.shape == (3, 12, 50)
    by_mean = np.linalg.norm(new.y - problem.pairs().y.mean(1, keepdims=True))
    assert np.linalg.norm(new.y - found.mean) < 0.25 * by_mean
    np.testing.assert_allclose(found.mean, found.members.mean(0), atol=1e-5)
    np.testing.assert_allclose(found.epistemic_std, found.members.std(0), atol=1e-5)
    assert not found.aleatoric_std.any()


def test_training_in_mini_batches_goes_on_where_it_was_interrupted(tmp_path):
    problem = Integration(n_pairs=20)
    method = DEns(n_members=2, n_steps=3 * STEPS_PER_CALL, batch_size=4, compile="never")
    whole = method.run(learned_target(problem), generator(), Loop())
    display = Counting("training")
    display.loop = Loop(display, tmp_path / "checkpoint.safetensors", 1e9)
    method.run(learned_target(problem), generator(), display.loop)
    display.loop.save()
    resumed = method.run(learned_target(problem), generator(5), Loop(None, tmp_path / "checkpoint.safetensors", 1e9))
    assert display.made == {"training": 1}
    torch.testing.assert_close(resumed.theta, whole.theta, rtol=0, atol=0)


def test_predictions_are_the_same_in_parts(monkeypatch):
    """However many functions and members are evaluated at once."""
    problem = Integration()
    made, new = learned_target(problem), problem.draw(7, seed=1)
    posterior = Posterior(made.init(5, generator()))
    whole = predict(made, posterior, "u", new.x, inputs=new.inputs)
    monkeypatch.setattr(predictive, "REALISED", 2 * 5 * 12)
    monkeypatch.setattr(predictive, "OPERATED", 2)
    parts = predict(made, posterior, "u", new.x, inputs=new.inputs)
    for name in ("mean", "aleatoric_std", "epistemic_std", "members"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-6, atol=1e-7)


def test_points_between_those_of_training_are_predicted():
    problem = Integration()
    made, new = learned_target(problem), problem.draw(4, seed=1)
    posterior = Posterior(made.init(2, generator()))
    near = np.array([[0.5], [0.5 + 1e-7]])
    found = predict(made, posterior, "u", near, inputs=new.inputs)
    np.testing.assert_allclose(found.mean[1], found.mean[0], atol=1e-5)


def test_the_places_of_a_learned_operator_are_saved():
    problem = Integration()
    made = learned_target(problem)
    again = TINY.bind(problem, made.noise)
    again.load_state(made.model.state())
    theta, x = made.init(2, generator()), torch.rand(5, 1, dtype=torch.float64)
    inputs = torch.randn(3, 12, dtype=torch.float64)
    assert isinstance(again, BoundOperatorNetwork)
    torch.testing.assert_close(again.operate(theta, "u", x, inputs), made.operate(theta, "u", x, inputs))


def grid(first: Array, second: Array, order: str = "ij") -> Array:
    return np.stack([part.ravel() for part in np.meshgrid(first, second, indexing=order)], axis=1)


EVEN, LONGER = np.linspace(0, 1, 8), np.linspace(0, 3, 12)


@pytest.mark.parametrize(
    ("sensors", "said"),
    [
        (grid(EVEN, LONGER), ""),
        (np.round(grid(EVEN, LONGER), 5), ""),
        (grid(EVEN, LONGER**2), "evenly spaced along both coordinates"),
        (grid(np.append(EVEN, 2.0), LONGER), "evenly spaced along both coordinates"),
        (grid(EVEN[:1], LONGER), "evenly spaced along both coordinates"),
        (grid(EVEN, LONGER, "xy"), "the last coordinate running fastest: sort the sensors"),
        (grid(EVEN, LONGER)[1:], "a rectangular grid in two dimensions"),
        (LONGER[:, None], "a rectangular grid in two dimensions"),
    ],
)
def test_grids_that_operators_cannot_use_are_named(sensors, said):
    models = {"model=deeponet": FNO(width=2, modes=1, depth=1, hidden=2), "mlp": DeepONet(channels=[2], width=4)}
    for other, model in models.items():
        if not said or ("evenly" in said and other == "mlp"):  # convolutions do not ask for distances
            assert model.make_network(sensors, sensors.min(0), sensors.max(0)).n_params > 0
        else:
            with pytest.raises(ConfigError, match=f"{said}.*; otherwise use {other}"):
                model.make_network(sensors, sensors.min(0), sensors.max(0))


# A function in front of an operator, both linear


class Smoothing(OneWeight):
    """The weighted sum of the values at the sensors with a Gaussian around the point, times the only weight."""

    def __init__(self, sensors: Array) -> None:
        self.sensors = torch.tensor(sensors)

    def kernel(self, x: Tensor) -> Tensor:
        return torch.exp(-10 * (x - self.sensors[:, 0].to(x)) ** 2) / len(self.sensors)

    def __call__(self, theta: Tensor, x: Tensor, inputs: Tensor) -> Tensor:
        return theta[:, :, None] * (self.kernel(x) @ inputs.transpose(-1, -2))


@dataclass(frozen=True)
class LinearOperator(OperatorModel):
    @property
    def prior(self) -> Prior:
        return Prior()

    def make_network(self, sensors: Array, low: Array, high: Array) -> Smoothing:
        return Smoothing(sensors)


@dataclass(frozen=True)
class Line(Model):
    """f = w x + b."""

    def bind(
        self, problem: Problem, noise: Mapping[str, Noise], readings: Mapping[str, Observations] | None = None
    ) -> BoundModel:
        return BoundBNN(problem, {"f": MLP(1, 1, hidden=())}, Prior(1.0))


@dataclass(frozen=True)
class LinearField(OperatorFieldModel):
    operator: OperatorModel = field(default_factory=LinearOperator)

    def prior_model(self) -> Model:
        return Line()


GAINS = (2.0, 3.0, 5.0)


def linear_field(n_operators: int, readings: Mapping[str, Observations], problem: Integration) -> Target:
    """A line and operators that are known."""
    model = LinearField(n_operators=n_operators).bind(problem, problem.noise, readings)
    assert isinstance(model, BoundOperatorField)
    places = {"sensors": problem.sensors, "low": np.zeros(1), "high": np.ones(1)}
    model.load_operator(
        {
            "operator": torch.tensor(GAINS[:n_operators], dtype=torch.float64)[:, None],
            **{name: torch.tensor(part) for name, part in places.items()},
        }
    )
    options = {"transforms": problem.transforms(), "operator": problem.operator}
    return Target(model, problem.noise, readings, dtype=torch.float64, **options)


def features(problem: Integration, quantity: str, x: Array, gain: float = GAINS[0]) -> Array:
    """The standardised quantity at ``x[N, 1]`` as a linear function of theta, ``[N, 2]``."""
    line = np.hstack([x, np.ones_like(x)])
    if quantity == "f":
        return line
    kernel = Smoothing(problem.sensors).kernel(torch.tensor(x)).numpy()
    return gain * kernel @ features(problem, "f", problem.sensors)


def new_readings(problem: Integration, n: Mapping[str, int]) -> dict[str, Observations]:
    """In original units, at places between those of the pairs."""
    rng, found = np.random.default_rng(3), {}
    for name, count in n.items():
        x = rng.random((count, 1))
        z = features(problem, name, x) @ [[1.5], [-0.4]] + problem.noise[name].scale * rng.standard_normal((count, 1))
        centre, scale = problem.transforms()[name].at(x)
        found[name] = PointObservations(x, centre + scale * z)
    return found


@pytest.mark.parametrize("counts", [{"f": 6, "u": 5}, {"f": 0, "u": 5}], ids=str)
def test_the_posterior_through_a_linear_operator_is_the_exact_one(counts):
    problem = Integration()
    readings = new_readings(problem, counts)
    made = linear_field(1, readings, problem)
    noise, units = problem.noise, problem.transforms()
    rows = np.concatenate([features(problem, name, part.x) / noise[name].scale for name, part in readings.items()])
    values = [units[name].apply(part.y, part.x) / noise[name].scale for name, part in readings.items()]
    covariance = np.linalg.inv(rows.T @ rows + np.eye(2))
    mean = covariance @ rows.T @ np.concatenate(values)[:, 0]
    method = HMC(n_chains=16, n_burn=100, n_samples=2400, thin=1, n_leapfrog=5, step_size=0.1, target_accept=0.8)
    posterior = method.run(made, generator(), Loop())
    assert_moments(posterior.theta.view(16, -1, 2), mean, covariance)
    x = np.linspace(0, 1, 9)[:, None]
    for name in ("f", "u"):
        found, (centre, scale) = predict(made, posterior, name, x), units[name].at(x)
        members = centre + scale * (features(problem, name, x) @ posterior.theta.numpy().T)
        np.testing.assert_allclose(found.members[..., 0], members.T, rtol=1e-9)
        np.testing.assert_allclose(found.aleatoric_std, scale * noise[name].scale)


def test_every_sample_goes_through_each_of_several_operators():
    """In place of components of the model, and as members of what is predicted."""
    problem = Integration()
    made = linear_field(3, new_readings(problem, {"f": 6, "u": 0}), problem)
    theta = torch.randn(8, 2, dtype=torch.float64, generator=generator())
    x = np.linspace(0, 1, 4)[:, None]
    found = made.model.observe(theta, "u", torch.tensor(x)).numpy()
    expected = [[features(problem, "u", x, gain) @ sample for gain in GAINS] for sample in theta.numpy()]
    np.testing.assert_allclose(found, np.swapaxes(expected, 1, 2), rtol=1e-12)
    assert [made.model.alternatives(name) for name in ("f", "u")] == [1, 3]
    read = made.model.observe(theta, "f", torch.tensor(x))[..., 0].numpy()
    np.testing.assert_allclose(read, theta.numpy() @ features(problem, "f", x).T, rtol=1e-12)
    predicted = predict(made, Posterior(theta), "u", x)
    centre, scale = problem.transforms()["u"].at(x)
    members = centre[:, 0] + scale[:, 0] * np.reshape(expected, (24, 4))  # all of one sample beside each other
    np.testing.assert_allclose(predicted.members[..., 0], members, rtol=1e-9)
    np.testing.assert_allclose(predicted.aleatoric_std, scale * problem.noise["u"].scale)


def test_members_are_the_same_however_many_samples_are_evaluated_at_once(monkeypatch):
    """Else those at different sets of points are not the same functions."""
    problem = Integration()
    made = linear_field(3, new_readings(problem, {"f": 6, "u": 0}), problem)
    theta, x = torch.randn(8, 2, dtype=torch.float64, generator=generator()), np.linspace(0, 1, 4)[:, None]
    whole = predict(made, Posterior(theta), "u", x).members
    monkeypatch.setattr(predictive, "CPU_CHUNK", 2 * len(x))  # two samples at once
    np.testing.assert_allclose(predict(made, Posterior(theta), "u", x).members, whole, rtol=1e-12)


def test_the_spread_of_several_operators_is_a_part_of_that_of_their_output():
    problem = Integration()
    one, several = (linear_field(n, new_readings(problem, {"f": 6, "u": 0}), problem) for n in (1, 3))
    posterior, x = Posterior(torch.tensor([[1.0, 0.5]]).double().expand(9, 2)), np.array([[0.3]])
    assert predict(one, posterior, "u", x).epistemic_std.max() < 1e-12
    value = features(problem, "u", x, 1.0) @ [1.0, 0.5] * problem.transforms()["u"].at(x)[1]
    np.testing.assert_allclose(predict(several, posterior, "u", x).epistemic_std, np.abs(value) * np.std(GAINS))


# Refusals


def settings_of(*overrides: str) -> dict:
    register_resolvers()
    return plain(compose(["fidelity=smoke", *overrides], None))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["problem=darcy", "problem.case=noisy", "model=deeponet"], "use model=pa_gan_fp"),
        (["problem=darcy", "model=pa_bnn_fp"], "problem.case=noisy"),
        (["problem=darcy", "model=pa_gan_fp"], "problem.case=noisy"),
        (["problem=darcy", "problem.case=noisy", "model=pa_bnn_fp", "model.n_operators=2"], "model.n_operators=2"),
        (["problem=function", "model=deeponet"], "use model=bnn"),
        (["problem=function", "model=pa_bnn_fp"], "use model=bnn"),
        (["problem=darcy", "model=bnn"], "use model=deeponet"),
        (["problem=darcy", "model=gan_fp"], "use model=deeponet"),
        (["problem=darcy", "model=nnpc"], "use model=deeponet"),
        (["problem=spde", "model=deeponet"], "use model="),
        (["problem=darcy", "method=gp"], "method=gp is for function approximation"),
        (["problem=darcy", "problem.test_lengths=[]"], "test_lengths"),
        (["problem=darcy", "problem.n_terms=101"], "n_terms=101"),
        (["problem=darcy", "detection.score=gan_mse"], "use detection=gan"),
        (["problem=darcy", "detection.level=1.5"], "detection.level=1.5"),
        (["problem=darcy", "problem.n_calibration=0", "calibration=var"], "problem.n_calibration"),
        (["problem=darcy", "problem.n_lambda=2"], "n_lambda=2"),
        (["problem=darcy", "problem.n_lambda=101"], "n_lambda=101"),
        (["problem=darcy", "problem.case=noisy", "model=pa_bnn_fp", "problem.n_lambda=95"], "n_lambda=95"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)
def test_combinations_without_meaning_are_refused_in_a_sentence(overrides, said):
    with pytest.raises(ConfigError) as refused:
        prepare(assemble(settings_of(*overrides)))
    sentence = str(refused.value)
    assert said in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_convolutions_need_a_grid_in_two_dimensions():
    convolutions = replace(TINY, branch="cnn", channels=[4])
    for sensors in (np.random.default_rng(0).random((25, 2)), np.linspace(0, 1, 25)[:, None]):
        with pytest.raises(ConfigError, match=r"model\.branch=cnn needs .* use mlp\.$"):
            convolutions.make_network(sensors, sensors.min(0), sensors.max(0))
