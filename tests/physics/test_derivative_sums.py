"""Sums of derivatives in equations are found, and collecting them changes nothing."""

from __future__ import annotations

import random

import pytest
import torch

from sciuq_runner.errors import ConfigError
from sciuq_runner.physics.derivative_sums import combined
from sciuq_runner.physics.expression_parser import parse
from tests.physics.test_expressions import POINT, double, written

OWNERS = {"u_t": "u", "u_xx": "u", "v_x": "v", "v_xx": "v"}


@pytest.mark.parametrize(
    ("text", "sums"),
    [
        ("u_t - 0.1*u_xx + u**3", [{"u_t": 1.0, "u_xx": -0.1}]),
        ("-(u_xx/4 - u_t) * 2", [{"u_xx": 1.0, "u_t": -4.0}]),
        ("u_t + u*u_x - u_xx", [{"u_t": 1.0, "u_xx": -1.0}]),
        ("u_t + v_x - 2*v_xx + u_xx", [{"u_t": 1.0, "u_xx": 1.0}, {"v_x": 1.0, "v_xx": -2.0}]),
        ("sin(u_t + u_xx) * (u_t - u_xx)", [{"u_t": 1.0, "u_xx": 1.0}, {"u_t": 1.0, "u_xx": -1.0}]),
        ("(u_t + u_xx)**2 - 3*(u_t + u_xx)", [{"u_t": 1.0, "u_xx": 1.0}]),
        ("u_t - u_t + 0*u_xx", [{"u_t": 0.0, "u_xx": 0.0}]),
        ("x*u_t - k*u_xx", []),
        ("u_t + v_x", []),
        ("u_t * u_xx", []),
    ],
)
def test_sums_of_derivatives_are_found(text, sums):
    _, found = combined(parse(text, "f"), OWNERS)
    assert list(found.values()) == sums


def test_collected_sums_do_not_change_an_expression():
    """Random expressions, most names of which are derivatives of one field."""
    rng = random.Random(1)
    values = double(**POINT)
    owners = dict.fromkeys(("u_xx", "t", "lam"), "u")
    many = 0
    for _ in range(3000):
        try:
            expression = parse(" + ".join(written(rng, 2) for _ in range(3)), "f")
        except ConfigError:  # numbers alone, without a finite result
            continue
        new, sums = combined(expression, owners)
        many += bool(sums)
        known = values | {name: sum(c * values[part] for part, c in parts.items()) for name, parts in sums.items()}
        torch.testing.assert_close(
            new.evaluate(known), expression.evaluate(values), rtol=1e-9, atol=1e-9, equal_nan=True
        )
    assert many > 300
