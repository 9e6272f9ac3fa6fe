"""Expressions are no Python, and cost no time."""

from __future__ import annotations

import pytest

from sciuq_runner.errors import ConfigError
from sciuq_runner.physics.expression_parser import parse


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').mkdir('ATTACKED')",
        '__import__("os")',
        "u.__class__",
        "u.__class__.__mro__[1].__subclasses__()",
        "exec(u)",
        "eval(u)",
        "open(u)",
        "lambda: u",
        "(u for u in u)",
        "u if u else u",
        "u := 1",
        "[u]",
        "{u}",
        "f'{u}'",
        "u; u",
        "u\n\nimport os",
        "getattr(u, x)",
        "torch(u)",
        "@u",
        "u @ u",
        "\x00",
    ],
)
def test_expressions_are_no_python(text):
    with pytest.raises(ConfigError):
        parse(text, "problem.equations.f")


@pytest.mark.parametrize(
    "text", ["9**9**9**9", "2**1e308", "1e308*10", "10**10**10", "exp(exp(exp(9)))", "9**9**9**9**9**9 * u", "1e999"]
)
def test_huge_numbers_cost_no_time(text):
    with pytest.raises(ConfigError, match=r"no finite number|too large"):
        parse(text, "problem.equations.f")


@pytest.mark.parametrize(
    "text", ["(" * 5000 + "u" + ")" * 5000, "-" * 9000 + "u", "sin(" * 2000 + "u", "u**" * 3000 + "u"]
)
def test_deep_nesting_is_refused(text):
    with pytest.raises(ConfigError, match=r"levels of nesting|characters long"):
        parse(text, "problem.equations.f")
