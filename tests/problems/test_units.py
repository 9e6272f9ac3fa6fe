"""Units: the same problem in other numbers is the same problem."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from sciuq_runner.problems.user_units import advice_on_units

from sciuq_runner.errors import ConfigError
from sciuq_runner.methods.compatibility import refuse_combination
from sciuq_runner.methods.dens import Objective
from sciuq_runner.methods.gp import GP
from sciuq_runner.methods.hmc import HMC
from sciuq_runner.models.bnn import BNN
from sciuq_runner.models.gp_pi_gan import GPPIGAN
from sciuq_runner.networks import MLP
from sciuq_runner.networks.base import Network, derive
from sciuq_runner.networks.scaled import Scaled
from sciuq_runner.physics.problem import Unit
from sciuq_runner.predict.emulator import Emulator
from sciuq_runner.predict.predictive import predict
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import MaybeCompiled, value_and_grad
from sciuq_runner.training.loop import Loop
from tests.conftest import Inside
from tests.problems.conftest import problem, save

T, X, U, ZERO = 3600.0, 0.05, 20.0, 293.0
"""An hour, five centimetres, twenty degrees, and where they begin."""


def temperatures(folder: Path, name: str, t: float, x: float, scale: float, offset: float) -> None:
    rng = np.random.default_rng(3)
    times, places, values = rng.uniform(0, 1, 9), rng.uniform(-1, 1, 9), rng.normal(size=9)
    save(folder / name, t=t * times, x=x * places, u=offset + scale * values)


def plain(noise: Any) -> dict[str, Any]:
    return {
        "coordinates": {"t": [0, 1], "x": [-1, 1]},
        "unknowns": {"u": ["t", "x"], "q": ["x"]},
        "equations": {"heat": "u_t - 0.1*u_xx - q", "jump": "u_x*u - q"},
        "observed": {
            "u": {"file": "one.csv", "noise": noise},
            "heat": {"value": 0, "points": 12, "noise": "exact"},
            "jump": {"value": "t", "points": 5, "at": {"x": 0.5}, "noise": {"kind": "exact", "scale": 0.3}},
        },
    }


def in_si(noise: Any) -> dict[str, Any]:
    """The same in seconds, metres and kelvin; q and the first equation in kelvin per second."""
    return {
        "coordinates": {"t": [0, T], "x": [-X, X]},
        "unknowns": {"u": ["t", "x"], "q": ["x"]},
        "constants": {"D": 0.1 * X**2 / T},
        "equations": {"heat": "u_t - D*u_xx - q", "jump": f"u_x*(u - {ZERO}) - {T * U / X}*q"},
        "observed": {
            "u": {"file": "si.csv", "noise": noise},
            "heat": {"value": 0, "points": 12, "noise": "exact"},
            "jump": {
                "value": f"{U**2 / X}*t/{T}",
                "points": 5,
                "at": {"x": 0.5 * X},
                "noise": {"kind": "exact", "scale": 0.3 * U**2 / X},
            },
        },
        "units": {"t": T, "x": X, "u": {"scale": U, "offset": ZERO}, "q": U / T, "heat": U / T},
    }


def target_of(folder: Path, node: dict[str, Any]) -> Target:
    own = problem(folder, node)
    readings = {name: data.train for name, data in own.dataset(np.random.default_rng(0)).items()}
    model = BNN(width=6, learn_prior=True).bind(own, own.noise)
    return Target(model, own.noise, readings, dtype=torch.float64)


NOISES = [
    (0.1, 0.1 * U),
    ("learned", "learned"),
    ("heteroscedastic", "heteroscedastic"),
    (
        {"kind": "learned", "scale": 0.2, "hyper_scale": 3},
        {"kind": "learned", "scale": 0.2 * U, "hyper_scale": 3 / U**2},
    ),
]


@pytest.mark.parametrize(("noise", "noise_in_si"), NOISES, ids=["known", "learned", "varying", "settings"])
def test_another_unit_changes_the_density_by_a_constant(tmp_path, noise, noise_in_si):
    temperatures(tmp_path, "one.csv", 1, 1, 1, 0)
    temperatures(tmp_path, "si.csv", T, X, U, ZERO)
    one, si = target_of(tmp_path, plain(noise)), target_of(tmp_path, in_si(noise_in_si))
    assert one.size == si.size
    theta = one.init(5, torch.Generator().manual_seed(0))
    theta = theta + 0.3 * torch.randn(theta.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    other = theta.clone()
    if one.noise_groups:
        other[:, one.n_weights] += math.log(U)  # the logarithm of the same noise
    value, gradient = value_and_grad(one.log_density, theta)
    value_si, gradient_si = value_and_grad(si.log_density, other)
    densities = 9 * math.log(U) + 12 * math.log(U / T) + 5 * math.log(U**2 / X)
    torch.testing.assert_close(value_si, value - densities, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradient_si, gradient, rtol=1e-8, atol=1e-8)


def test_compiled_it_is_the_same(tmp_path):
    temperatures(tmp_path, "si.csv", T, X, U, ZERO)
    target = target_of(tmp_path, in_si("learned"))
    theta = target.init(2, torch.Generator().manual_seed(0))
    eager = value_and_grad(target.log_density, theta)
    compiled = MaybeCompiled(lambda theta: value_and_grad(target.log_density, theta), True)(theta)
    for found, expected in zip(compiled, eager, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_predictions_and_their_noise_are_in_the_unit_of_the_field(tmp_path):
    temperatures(tmp_path, "one.csv", 1, 1, 1, 0)
    temperatures(tmp_path, "si.csv", T, X, U, ZERO)
    one, si = target_of(tmp_path, plain("heteroscedastic")), target_of(tmp_path, in_si("heteroscedastic"))
    theta = one.init(3, torch.Generator().manual_seed(0))
    x = torch.rand(7, 2, dtype=torch.float64)
    scaled = x * torch.tensor([T, X])
    torch.testing.assert_close(si.observe(theta, "u", scaled), ZERO + U * one.observe(theta, "u", x))
    torch.testing.assert_close(si.observe(theta, "heat", scaled), U / T * one.observe(theta, "heat", x))
    torch.testing.assert_close(si.noise_scale(theta, "u", scaled), U * one.noise_scale(theta, "u", x))


ORDERS = [(0, 0), (1, 0), (0, 2), (1, 1), (0, 4), (((1, 0), 1.0), ((0, 2), -0.3)), (((2, 1), 0.5),)]


@pytest.mark.parametrize("n_scaled", [1, 2])
def test_derivatives_in_units_agree_with_nested_ones(n_scaled):
    inner = MLP(2, 2, (7, 7), "tanh")
    network = Scaled(inner, [Unit(3.0, 0.5), Unit(0.2, -1.0)], Unit(5.0, 7.0), n_scaled)
    theta = network.init(3, torch.Generator().manual_seed(0))
    x = torch.randn(4, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = network.derivatives(theta, x, ORDERS)
    expected = Network.derivatives(network, theta, x, ORDERS)  # of the scaled function itself
    for order, ours, theirs in zip(ORDERS, found, expected, strict=True):
        torch.testing.assert_close(ours[..., :n_scaled], theirs[..., :n_scaled], rtol=1e-9, atol=1e-9, msg=str(order))
    torch.testing.assert_close(found[0], network(theta, x))
    by_hand = 7 + 5 * inner(theta, torch.stack([(x[:, 0] - 0.5) / 3, (x[:, 1] + 1) / 0.2], dim=1))[..., :1]
    torch.testing.assert_close(found[0][..., :1], by_hand)
    torch.testing.assert_close(found[1][..., :1], derive(lambda x: network(theta, x), [0])(x)[..., :1])


def test_defaults_are_in_the_unit_of_a_quantity(tmp_path):
    temperatures(tmp_path, "si.csv", T, X, U, ZERO)
    noise = problem(tmp_path, in_si("learned")).noise
    assert noise["u"].scale == pytest.approx(0.1 * U)
    assert noise["u"].hyperprior.scale == pytest.approx(10 / U**2)
    assert noise["heat"].scale == pytest.approx(0.01 * U / T)
    assert noise["jump"].scale == pytest.approx(0.3 * U**2 / X)


@pytest.mark.parametrize(
    ("units", "sentence"),
    [
        ({"y": 2}, "problem.units.y is neither a coordinate nor a field nor an equation: "),
        ({"u": 0}, "problem.units.u.scale=0 is not valid: it should be"),
        ({"u": 1e-200}, "problem.units.u.scale=1e-200 is not valid: it should be"),
        ({"u": {"offset": 1e40}}, "problem.units.u.offset=1e+40 is not valid: it should be"),
        ({"u": -3}, "problem.units.u.scale=-3 is not valid: it should be"),
        ({"u": "kelvin"}, "problem.units.u.scale='kelvin' is not valid: it should be a valid number"),
        ({"u": {"origin": 3}}, "problem.units.u.origin is not a setting of problem.units.u: "),
        ({"heat": {"offset": 3}}, "problem.units.heat.offset has no meaning for an equation: give its scale alone."),
    ],
)
def test_mistakes_in_units(tmp_path, units, sentence):
    temperatures(tmp_path, "one.csv", 1, 1, 1, 0)
    with pytest.raises(ConfigError) as found:
        problem(tmp_path, {**plain(0.1), "units": units})
    assert sentence in str(found.value)


def test_a_model_without_units_is_refused(tmp_path):
    temperatures(tmp_path, "si.csv", T, X, U, ZERO)
    with pytest.raises(
        ConfigError, match=r"model: GPPIGAN knows no units .* leave out problem.units, or use model=bnn"
    ):
        refuse_combination(problem(tmp_path, in_si(0.1)), GPPIGAN(process="u"), HMC())


def test_numbers_far_from_one_are_answered_with_units_that_help(tmp_path):
    temperatures(tmp_path, "one.csv", 1, 1, 1, 0)
    temperatures(tmp_path, "si.csv", T, X, U, ZERO)
    fine = problem(tmp_path, plain(0.1))
    assert fine.advice(fine.dataset(np.random.default_rng(0))) == []
    si = problem(tmp_path, in_si(2.0))
    dataset = si.dataset(np.random.default_rng(0))
    assert si.advice(dataset) == []
    bare = problem(tmp_path, {**in_si(2.0), "units": {}})
    (sentence,) = bare.advice(dataset)
    assert sentence.startswith("Numbers of t and u are far from the order of one")
    assert "write units: {t: 3600, u: {scale: " in sentence
    some = problem(tmp_path, {**in_si(2.0), "units": {"t": T, "x": X}})
    more, unread = some.advice(dataset)
    assert "add u: {scale: " in more
    assert "and q none, which nothing is read of" in unread


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([0, 1], None),
        ([0, 12], None),
        ([0, 0], None),
        ([-0.3, 0.2], None),
        ([0, 3600], "3600"),
        ([0, 0.001], "0.001"),
        ([290, 310], "{scale: 10, offset: 300}"),
        ([0.99, 1.01], None),  # a field may hardly change
        ([9.9, 10], "{scale: 0.05, offset: 9.95}"),
        ([1234, 1234.1], "{scale: 0.05, offset: 1234.05}"),
        ([50, 50], "50"),
        ([-4e6, 1e6], "4e+06"),
    ],
)
def test_units_that_fit(values, unit):
    found = advice_on_units({}, {"u": np.array(values)}, {})
    if unit is None:
        assert found == []
    else:
        assert f"units: {{u: {unit}}} into the file" in found[0]


def test_a_coordinate_with_a_narrow_range_is_answered_too():
    (sentence,) = advice_on_units({"x": np.array([0.99, 1.01])}, {}, {})
    assert "units: {x: {scale: 0.01, offset: 1}}" in sentence


def test_the_unit_of_an_equation_follows_from_those_of_its_fields(tmp_path):
    """Sums of independent terms: of u_t with 20/3600 and D u_xx with a tenth of that, less q of 20/3600; the product
    u_x (u - 293) is not normal, and its quartiles are nearer."""
    temperatures(tmp_path, "si.csv", T, X, U, ZERO)
    node = in_si(2.0)
    del node["units"]["heat"]
    found = problem(tmp_path, node)
    assert found.unit_of("heat").scale == pytest.approx(U / T * math.sqrt(1 + 0.1**2 + 1), rel=0.03)
    assert found.noise["heat"].scale == pytest.approx(0.01 * found.unit_of("heat").scale)
    assert 0.5 < found.unit_of("jump").scale / (U**2 / X) < 1.5
    assert problem(tmp_path, {**node, "units": {}}).unit_of("heat") == Unit()


def test_noise_that_varies_is_in_the_unit_of_its_quantity_whoever_carries_it(tmp_path):
    """A pressure, whose noise the network of a field of the order of one predicts."""
    rng = np.random.default_rng(0)
    x, values = rng.uniform(-1, 1, 5), rng.normal(size=5)
    save(tmp_path / "one.csv", x=x, u=values, p=values)
    save(tmp_path / "pascal.csv", x=x, u=values, p=1e5 * values)

    def target(file: str, units: dict[str, Any]) -> Target:
        noise = {"kind": "heteroscedastic", "group": "u"}
        node = {
            "coordinates": {"x": [-1, 1]},
            "unknowns": {"u": ["x"], "p": ["x"]},
            "observed": {"u": {"file": file, "noise": 0.1}, "p": {"file": file, "noise": noise}},
            "units": units,
        }
        return target_of(tmp_path, node)

    one, pascal = target("one.csv", {}), target("pascal.csv", {"p": 1e5})
    theta = one.init(3, torch.Generator().manual_seed(0))
    places = torch.linspace(-1, 1, 6, dtype=torch.float64)[:, None]
    expected = one.noise_scale(theta, "p", places)
    assert expected.max() > 1.2 * expected.min()
    torch.testing.assert_close(pascal.noise_scale(theta, "p", places), 1e5 * expected)


def line(folder: Path, scale: float, offset: float, noise: Any, units: dict[str, Any]) -> Target:
    rng = np.random.default_rng(1)
    save(folder / "line.csv", x=rng.uniform(-1, 1, 6), u=offset + scale * rng.normal(size=6))
    node = {
        "coordinates": {"x": [-1, 1]},
        "unknowns": {"u": ["x"]},
        "observed": {"u": {"file": "line.csv", "noise": noise}},
        "units": units,
    }
    own = problem(folder, node)
    readings = {name: data.train for name, data in own.dataset(np.random.default_rng(0)).items()}
    return Target(BNN(width=6).bind(own, own.noise), own.noise, readings, dtype=torch.float64)


def test_the_gaussian_process_of_a_network_has_its_origin(tmp_path):
    one = line(tmp_path, 1, 0, 0.1, {})
    kelvin = line(tmp_path, U, ZERO, 0.1 * U, {"u": {"scale": U, "offset": ZERO}})
    x = np.linspace(-1, 1, 9)[:, None]
    method = GP(n_samples=50, n_prior=40)
    found = [method.run(target, torch.Generator().manual_seed(0), Loop()) for target in (one, kelvin)]
    first, second = (
        predict(target, posterior, "u", x).members for target, posterior in zip((one, kelvin), found, strict=True)
    )
    np.testing.assert_allclose(second, ZERO + U * first, rtol=1e-8)
    evidence = [posterior.diagnostics["log_evidence"] for posterior in found]
    assert evidence[1] == pytest.approx(evidence[0] - 6 * math.log(U))


def test_weight_decay_is_that_of_numbers_in_units(tmp_path):
    one = line(tmp_path, 1, 0, 0.1, {})
    kelvin = line(tmp_path, U, ZERO, 0.1 * U, {"u": {"scale": U, "offset": ZERO}})
    theta = one.init(2, torch.Generator().manual_seed(0))
    gradients = [value_and_grad(Objective(target, 0.1), theta)[1] for target in (one, kelvin)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-8, atol=1e-8)


def test_slices_are_found_in_any_unit(tmp_path):
    low, high = 1.7e9, 1.7e9 + 3600
    save(tmp_path / "late.csv", t=np.linspace(low, high, 5), x=np.linspace(0, 1e-7, 5), u=np.zeros(5))
    node = {
        "coordinates": {"t": [low, high], "x": [0, 1e-7]},
        "unknowns": {"u": ["t", "x"]},
        "observed": {"u": {"file": "late.csv", "noise": 0.1}},
        "grid": {"t": 11, "x": 7},
        "slices": {"end": {"t": high}, "middle": {"x": 4e-8}},
    }
    splits = problem(tmp_path, node).dataset(np.random.default_rng(0))["u"].splits
    assert splits["end"].sum() == 8  # the value of the other slice among them
    assert splits["middle"].sum() == 11


@pytest.mark.full
@pytest.mark.cli
def test_a_run_in_units(inside: Inside, tmp_path):
    """Figures, model and all, in single precision."""
    temperatures(tmp_path, "si.csv", T, X, U, ZERO)
    (tmp_path / "si.yaml").write_text(yaml.safe_dump(in_si("learned")))
    (tmp_path / "si_bare.yaml").write_text(yaml.safe_dump({**in_si("learned"), "units": {}}))
    found = inside("problem=si.yaml", "method=la", "fidelity=smoke", "tracking=none", "hydra.run.dir=run")
    assert found.status == 0, found.out + found.err
    assert "far from the order of one" not in found.out + found.err
    assert (tmp_path / "run" / "figures" / "u_maps.png").is_file()
    (mean,) = Emulator(tmp_path / "run" / "model").predict(np.array([[T / 2, 0.0]]), "u")["mean"].ravel()
    assert ZERO - 5 * U < mean < ZERO + 5 * U
    bare = inside("problem=si_bare.yaml", "method=dens", "fidelity=smoke", "tracking=none")
    assert bare.status == 0
    assert "Numbers of t and u are far from the order of one" in bare.out + bare.err
