"""A fuzzer's target: bytes become an expression, which is refused in one sentence or has a value.

python tests/slow/fuzz_expressions.py -max_total_time=60
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["sciuq_runner.physics.expressions"]):
    from sciuq_runner.physics.expression_names import check_names
    from sciuq_runner.physics.expression_parser import parse
    from sciuq_runner.physics.expressions import FUNCTIONS

import torch

from sciuq_runner.errors import ConfigError

FIELDS = {"u": ("t", "x"), "q": ("x",)}
WORDS = ("u", "q", "t", "x", "u_t", "u_xx", "q_x", "k", "pi", "e", "1", "0.5", "1e3", "**", *"+-*/(),. ", *FUNCTIONS)


def one_input(data: bytes) -> None:
    """Half of the inputs are letters, the others words of the language."""
    provider = atheris.FuzzedDataProvider(data)
    if provider.ConsumeBool():
        text = provider.ConsumeUnicodeNoSurrogates(200)
    else:
        text = "".join(provider.PickValueInList(list(WORDS)) for _ in range(provider.ConsumeIntInRange(0, 60)))
    try:
        found = parse(text, "problem.equations.f", {"c": 2.0})
        check_names(found, ["t", "x", "k"], FIELDS, "problem.equations.f")
    except ConfigError as error:
        if len(str(error).splitlines()) != 1:
            raise RuntimeError(f"more than one line: {error}") from error
        return
    values = {name: torch.linspace(-1, 1, 3, dtype=torch.float64) for name in found.names}
    if found.evaluate(values).shape not in ((), (3,)):
        raise RuntimeError(f"a value of another shape: {text!r}")


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
