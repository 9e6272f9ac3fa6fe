"""Polynomial chaos with networks as modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from sciuq_runner.problems.spde import DIFFUSION, SPDE
from torch import Tensor

from sciuq_runner.config.build import assemble
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.errors import ConfigError
from sciuq_runner.methods.dens import DEns
from sciuq_runner.models.nnpc import BALANCE, NNPC, NNPCPlus, even
from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.problem import Dataset, FieldSpec, Noise, Observations, Problem, Realisations
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import value_and_grad
from sciuq_runner.training.loop import Loop
from tests.exact import along

SMALL = SPDE(case="noisy", n_realisations=80, n_test_realisations=20)
MODELS = {"nnpc": NNPC(width=8), "nnpc_plus": NNPCPlus(width=8, n_collocation=7)}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return SMALL.dataset(stream(0, "data"))


def readings(data: Dataset) -> dict[str, Observations]:
    return {name: item.train for name, item in data.items()}


@dataclass(frozen=True)
class Bar(Problem):
    r""":math:`-u'' = 1 + \xi / 2` with u = 0 at both ends of [-1, 1]: u is linear in the one random variable."""

    random_inputs: ClassVar = ("f",)
    fields: ClassVar = {"u": FieldSpec(("x",))}

    @property
    def noise(self) -> Mapping[str, Noise]:
        return dict.fromkeys(("u", "f"), Noise("exact", 0.01))

    @property
    def n_calibration_points(self) -> int:
        return 0

    def coordinates_of(self, quantity: str) -> tuple[str, ...]:
        return ("x",)

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        return -unknowns["u"].at(x).xx if quantity == "f" else unknowns["u"](x)

    def dataset(self, rng: np.random.Generator) -> Dataset:
        raise AssertionError("the test brings its own data")


def weights(size: int, n: int) -> Tensor:
    """Any weights: those that models start from are a fit of some seconds."""
    return 0.3 * torch.randn(n, size, generator=torch_stream(0, "test"), dtype=torch.float64)


@pytest.mark.parametrize(
    ("model", "kind"),
    [(NNPC(width=16, depth=2), "gaussian"), (NNPCPlus(width=16, depth=2, n_collocation=9), "uniform")],
    ids=MODELS,
)
def test_the_chaos_of_a_linear_equation_is_recovered(model, kind):
    r"""The coefficients are :math:`(1 - x^2)/2` times mean and deviation of the source, and zero.

    By the maximum principle a mode is off by no more than its values at the ends and half the largest misfit of its
    second derivative: that is the tolerance, and it has to be small.
    """
    rng = np.random.default_rng(1)
    xi = rng.standard_normal(100) if kind == "gaussian" else rng.uniform(-np.sqrt(3), np.sqrt(3), 100)
    sensors, ends = np.linspace(-1, 1, 9)[:, None], np.array([[-1.0], [1.0]])
    seen = {"u": Realisations(ends, np.zeros((2, 100))), "f": Realisations(sensors, 1 + xi / 2 * np.ones((9, 1)))}
    problem = Bar()
    bound = model.bind(problem, problem.noise, seen)
    target = Target(bound, problem.noise, seen, dtype=torch.float64)
    assert len(bound.matrices["u"]) == 3
    trained = DEns(n_members=1, n_steps=1500, learning_rate=5e-3, final_rate=5e-5, weight_decay=0.0)
    theta = trained.run(target, torch_stream(0, "test"), Loop()).theta
    x = torch.linspace(-1, 1, 101, dtype=torch.float64)[:, None]
    f = seen["f"].y[0]
    strength = torch.tensor([f.mean(), f.std(), 0.0])

    def modes(points: Tensor) -> Tensor:
        return bound.networks["u"](bound.parts(theta)["u"], points)[0]

    with torch.no_grad():
        misfit = (-along(along(modes))(x) - strength).abs().amax(0)
        tolerance = modes(x)[[0, -1]].abs().amax(0) + misfit / 2
        assert (tolerance < 0.05).all()
        exact = (1 - x**2) / 2 * strength
        assert ((modes(x) - exact).abs() <= tolerance + 1e-12).all()


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_field_is_the_sum_of_its_modes(model, data):
    bound = model.bind(SMALL, SMALL.noise, readings(data))
    theta = weights(bound.n_params, 2)
    x = torch.rand(6, 1, dtype=torch.float64)
    parts = bound.parts(theta)
    for name in ("u", "lambda"):
        modes = bound.networks[name](parts[name], x)
        expected = torch.einsum("mnp,pr->mnr", modes, bound.matrices[name])
        torch.testing.assert_close(bound.observe(theta, name, x), expected)
        assert expected.shape == (2, 6, 80)
    pca = bound.encoding.inputs["lambda"]
    encoded = np.sqrt(pca.values)[:, None] * pca.encode(data["lambda"].train.y)
    np.testing.assert_allclose(bound.matrices["lambda"][1:], encoded)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_physics_is_the_equation_of_every_realisation(model, data):
    """Against derivatives of the realisations themselves."""
    bound = model.bind(SMALL, SMALL.noise, readings(data))
    theta = weights(bound.n_params, 2)
    x = torch.rand(5, 1, dtype=torch.float64)

    def flux(points: Tensor) -> Tensor:
        slope = along(lambda place: bound.observe(theta, "u", place))(points)
        return -DIFFUSION * bound.observe(theta, "lambda", points) * slope

    physics = along(flux)(x)
    if model is MODELS["nnpc_plus"]:
        decoded = bound.observe(theta, "f", x)
        assert decoded.shape == physics.shape
        torch.testing.assert_close(bound.observe(theta, f"{BALANCE}f", x), physics - decoded, rtol=1e-8, atol=1e-8)
    else:
        torch.testing.assert_close(bound.observe(theta, "f", x), physics, rtol=1e-8, atol=1e-8)


def test_the_decoder_adds_a_condition_to_the_target(data):
    target = Target(
        MODELS["nnpc_plus"].bind(SMALL, SMALL.noise, readings(data)), SMALL.noise, readings(data), dtype=torch.float64
    )
    names = [term.quantity for term in target.terms]
    assert names == ["u", "f", "lambda", f"{BALANCE}f"]
    condition = target.terms[-1]
    assert condition.y.shape == (7, 80)
    assert not condition.y.any()
    assert condition.noise == Noise("exact", 0.01)
    np.testing.assert_allclose(condition.x[:, 0], np.linspace(-1, 1, 7))
    theta = weights(target.size, 1)
    misfit = target.model.observe(theta, f"{BALANCE}f", condition.x)
    expected = torch.distributions.Normal(0.0, 0.01).log_prob(misfit.double()).sum()
    torch.testing.assert_close(target.term_log_likelihood(theta, condition)[0], expected)


def test_gradients_agree_with_differences(data):
    for model in MODELS.values():
        target = Target(
            model.bind(SMALL, SMALL.noise, readings(data)), SMALL.noise, readings(data), dtype=torch.float64
        )
        theta = weights(target.size, 2)
        value, gradient = value_and_grad(target.log_density, theta)
        direction = torch.randn(theta.shape, generator=torch_stream(1, "test"), dtype=torch.float64)
        step = 1e-5
        with torch.no_grad():
            ahead, behind = (target.log_density(theta + sign * step * direction) for sign in (1, -1))
        expected = (ahead - behind) / (2 * step)  # off by step^2 and by rounding, 1e-16 value / step
        scale = value.abs().max() * 1e-9
        torch.testing.assert_close((gradient * direction).sum(1), expected, rtol=1e-6, atol=scale.item())


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_training_realisations_are_realised_as_they_are_observed(model, data):
    bound = model.bind(SMALL, SMALL.noise, readings(data))
    theta = weights(bound.n_params, 1)
    x = torch.rand(4, 1, dtype=torch.float64)
    sensed = {name: data[name].train.y for name in ("f", "lambda")}
    for name in SMALL.noise:
        torch.testing.assert_close(bound.realise(theta, name, x, sensed), bound.observe(theta, name, x))
    unseen = {name: data[name].sensed.y for name in ("f", "lambda")}
    assert bound.realise(theta, "u", x, unseen).shape == (1, 4, 20)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_state_is_all_that_is_needed(model, data):
    bound = model.bind(SMALL, SMALL.noise, readings(data))
    again = model.bind(SMALL, SMALL.noise)
    again.load_state(bound.state())
    assert again.n_params == bound.n_params
    theta = weights(bound.n_params, 1)
    x = torch.rand(4, 1, dtype=torch.float64)
    for name in SMALL.noise:
        torch.testing.assert_close(again.observe(theta, name, x), bound.observe(theta, name, x), rtol=0, atol=0)


def test_layout_of_theta_is_that_of_its_networks(data):
    bound = MODELS["nnpc_plus"].bind(SMALL, SMALL.noise, readings(data))
    assert set(bound.networks) == {"u", "lambda", "f"}
    assert sum(rows * columns for rows, columns in bound.blocks()) == bound.n_params
    last = sum(9 * len(bound.matrices[name][1:]) + 33 for name in bound.networks)  # modes of 8, a mean of 32 units
    assert int(bound.last_layer().sum()) == last
    masks = bound.dropout_masks(3, 0.5, "units", torch_stream(0, "test"))
    assert masks.shape == (3, bound.n_params)


def test_too_few_realisations_end_in_a_sentence():
    problem = SPDE(n_realisations=20)
    data = readings(problem.dataset(stream(0, "data")))
    with pytest.raises(ConfigError, match=r"20 realisations .* smaller model\.order"):
        NNPC().bind(problem, problem.noise, data)


def test_points_of_the_condition_fill_the_range():
    found = even(np.array([[0.0, 1.0], [2.0, 5.0], [1.0, 2.0]]), 3)
    assert found.shape == (9, 2)
    assert found.min(0).tolist() == [0, 1]
    assert found.max(0).tolist() == [2, 5]


def test_the_paper_decides_networks_and_training():
    register_resolvers()
    for model in ("nnpc", "nnpc_plus"):
        run = assemble(plain(compose(["problem=spde", f"model={model}", "method=dens", "fidelity=paper"], None)))
        method, found = run.method, run.model
        assert (method.n_members, method.n_steps, method.learning_rate, method.weight_decay) == (3, 10001, 2e-3, 1e-3)
        assert (found.mean_width, found.mean_depth, found.width, found.depth, found.input_depth) == (32, 2, 32, 4, 2)
        assert (found.activation, found.init) == ("tanh", "xavier_normal")


def test_the_problem_brings_its_model():
    register_resolvers()
    assert type(assemble(plain(compose(["problem=spde"], None))).model) is NNPC
