"""Equations without a value at a point of the data are refused; what only some networks lack is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.config.problem_files import adopt_files
from sciuq_runner.errors import ConfigError
from sciuq_runner.target.checks import refuse_unusable

FILE = """
coordinates: {{x: [{low}, 1]}}
unknowns: {{u: [x]}}
equations: {{f: "{equation}"}}
observed:
  u: {{file: u.csv, noise: 0.1}}
  f: {observed}
"""
EVERYWHERE = "{value: 0, points: 5, noise: exact}"


def checked(choices: list[str]) -> Any:
    run = assemble(plain(compose(choices, None)))
    dataset, target = prepare(run)
    refuse_unusable(target, dataset, run.problem.scalars)
    return dataset, target


def prepared(folder: Path, equation: str, low: float = 0, observed: str = EVERYWHERE, *overrides: str) -> Any:
    (folder / "u.csv").write_text("x,u\n0.1,1\n0.4,2\n1,2\n")
    (folder / "f.csv").write_text("x,f\n0.1,1\n0.5,2\n1,2\n")
    file = folder / "defined.yaml"
    file.write_text(FILE.format(equation=equation, low=low, observed=observed))
    register_resolvers()
    choices = adopt_files([f"problem={file}", "fidelity=smoke", *overrides])
    return checked(choices)


@pytest.mark.parametrize(
    "equation", ["u_xx + u_x/x", "u*log(x)", "u_x*x**(-2)", "u/(x - 0.25)/(x - 0.5)", "u*sqrt(x - 1)"]
)
def test_an_equation_without_a_value_is_refused_with_the_point(tmp_path, equation):
    with pytest.raises(ConfigError) as found:
        prepared(tmp_path, equation)
    place = 0.25 if "0.25" in equation else 0
    assert f"the equation of f has no value at x = {place:g}, one of its readings: leave out" in str(found.value)


@pytest.mark.parametrize("equation", ["u_xx + u_x/x", "u*log(x)"])
def test_points_that_begin_beyond_are_not_refused(tmp_path, equation):
    dataset, _ = prepared(tmp_path, equation, 0.01)
    assert len(dataset["f"].train) == 5


def test_points_of_prediction_are_asked_too(tmp_path):
    with pytest.raises(ConfigError, match="no value at x = 0, one of its points of prediction"):
        prepared(tmp_path, "u/x", 0, "{file: f.csv, noise: 0.1}")


@pytest.mark.parametrize("equation", ["sqrt(u)", "log(u)", "1/u", "u_x/u"])
def test_what_only_some_networks_lack_is_left_to_training(tmp_path, equation):
    """Networks start with u(0) = 0, and do not stay there."""
    prepared(tmp_path, equation)


def test_where_unknown_numbers_begin_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"such as they start from: .* problem\.parameters\.k\.start, or"):
        prepared(
            tmp_path,
            "u_x - sqrt(k - 1)*u",
            0.01,
            EVERYWHERE,
            "+problem.parameters={k: {prior: uniform, low: 0, high: 1}}",
        )


def test_what_starting_networks_have_is_enough(tmp_path):
    """Wide networks are within one where they start, and far beyond with other weights."""
    prepared(tmp_path, "sqrt(1 - u**2)", 0.01, EVERYWHERE, "model.width=200", "model.depth=4")


def test_numbers_that_rounding_makes_the_same_are_refused(tmp_path):
    text = FILE.format(equation="u_x", low=1.7e9, observed="{value: 0, points: 5, noise: exact}")
    file = tmp_path / "late.yaml"
    file.write_text(text.replace(", 1]", ", 1700003600]"))
    (tmp_path / "u.csv").write_text("x,u\n1700000100,1\n1700000200,2\n1700003600,2\n")
    register_resolvers()
    choices = adopt_files([f"problem={file}", "fidelity=smoke"])
    with pytest.raises(ConfigError, match="x is read between 1700000100 and 1700003600, which float32 does not tell"):
        checked(choices)
    checked([*choices, "dtype=float64"])


def test_models_that_are_yet_to_learn_are_not_asked(tmp_path):
    prepared(tmp_path, "u/x", 0, EVERYWHERE, "model=gp_pi_gan")
