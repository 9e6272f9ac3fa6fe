"""The language of equations: Python's precedence, torch's gradients, and a sentence for every mistake."""

from __future__ import annotations

import math
import random
import re
import time

import pytest
import torch

from sciuq_runner.errors import ConfigError
from sciuq_runner.physics.expression_names import check_name, check_names, derivative_of
from sciuq_runner.physics.expression_parser import MAX_DEPTH, MAX_LENGTH, parse
from sciuq_runner.physics.expressions import CONSTANTS, FUNCTIONS, Number

PYTHON = {
    **{name: getattr(math, name) for name in FUNCTIONS if hasattr(math, name)},
    **CONSTANTS,
    "abs": abs,
    "min": min,
    "max": max,
    "sign": lambda x: (x > 0) - (x < 0),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "heaviside": lambda x: 0.5 * ((x > 0) - (x < 0) + 1),
}
POINT = {"x": 0.7, "t": -1.3, "u_xx": 2.1, "lam": -0.4}


def double(**values: float) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


def written(rng: random.Random, depth: int) -> str:
    """A random expression, with few parentheses so that precedence decides."""
    if depth == 0 or rng.random() < 0.1:
        return rng.choice([*POINT, "pi", "e", "2", "3", "0.5", "1e-1", "2.5E+0", ".25", "1."])
    kind = rng.choice(["binary"] * 6 + ["unary", "call", "parentheses", "power"])
    first = written(rng, depth - 1)
    if kind == "binary":
        space = rng.choice(["", " "])
        return f"{first}{space}{rng.choice('+-*/')}{space}{written(rng, depth - 1)}"
    if kind == "power":
        return f"{first}**{rng.choice(['2', '3', '-1', '-x', '+2', '2**0.5', '-2**2', 'sin(x)'])}"
    if kind == "unary":
        return rng.choice("+-") + first
    if kind == "parentheses":
        return f"({first})"
    name = rng.choice(sorted(FUNCTIONS))
    return f"{name}({first}, {written(rng, depth - 1)})" if name in ("min", "max") else f"{name}({first})"


def by_python(text: str) -> float | None:
    """Python's own value, None where it has no finite real one."""
    try:
        value = eval(text, {"__builtins__": {}}, {**PYTHON, **POINT})  # noqa: S307  (only texts made here)
        return value if isinstance(value, int | float) and abs(value) < 1e100 else None
    except (ArithmeticError, ValueError, TypeError):
        return None


def test_random_expressions_agree_with_python():
    rng = random.Random(0)
    compared = 0
    while compared < 2000:
        text = written(rng, rng.randint(1, 5))
        expected = by_python(text)
        if expected is not None:
            value = parse(text, "f").evaluate(double(**POINT))
            assert value.dtype == torch.float64
            assert float(value) == pytest.approx(expected, rel=1e-9, abs=1e-9), text
            compared += 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-x**2", -9.0),
        ("(-x)**2", 9.0),
        ("2**-1", 0.5),
        ("2**3**2", 512.0),
        ("-2**2", -4.0),
        ("10 - 3 - 2", 5.0),
        ("12 / 3 / 2", 2.0),
        ("2 * -x", -6.0),
        ("x - -x", 6.0),
        ("- - + -x", -3.0),
        ("x**-x**0", 1 / 3),
        ("1e-3*x", 3e-3),
        ("1.5e2 + x", 153.0),
        ("min(x, 1) + max(2, x)", 4.0),
        ("max(x, min(x, 4))", 3.0),
        ("\n  x\n  + 1\t", 4.0),
    ],
)
def test_precedence(text, value):
    assert float(parse(text, "f").evaluate(double(x=3.0))) == pytest.approx(value)


def number_of(text, constants=None):
    """The value of an expression that is one number already when it has been read."""
    (step,) = parse(text, "f", constants).steps
    assert isinstance(step, Number)
    return step.value


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_of_numbers_and_tensors_agree(name):
    number, tensor = ("0.3, 0.4", "x, 0.4") if name in ("min", "max") else ("0.3", "x")
    expected = PYTHON[name](*(float(part) for part in number.split(",")))
    assert number_of(f"{name}({number})") == pytest.approx(expected)
    assert float(parse(f"{name}({tensor})", "f").evaluate(double(x=0.3))) == pytest.approx(expected)


def test_names_and_the_columns_of_their_first_use():
    expression = parse("u_t - D*u_xx + lambda*ν*pi", "f")
    assert expression.names == {"u_t", "D", "u_xx", "lambda", "ν"}
    assert [expression.column(name) for name in ("u_t", "D", "u_xx", "lambda")] == [1, 7, 9, 16]
    assert parse("y + x*(x + y)", "f").column("x") == 5
    assert isinstance(hash(expression), int)


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("2*pi", 2 * math.pi), ("-e**2", -(math.e**2))])
def test_an_expression_without_names_is_a_number(text, value):
    expression = parse(text, "f")
    assert number_of(text) == pytest.approx(value)
    assert expression.names == frozenset()
    result = expression.evaluate({})
    assert result.shape == ()
    assert result.dtype == torch.float64
    assert float(result) == pytest.approx(value)


def test_constants_of_a_problem_are_numbers():
    assert parse("2*D*x**n", "f", {"D": 0.5, "n": 3}).steps == parse("1.0*x**3", "f").steps
    assert number_of("sin(D) + e", {"D": 0.5}) == pytest.approx(math.sin(0.5) + math.e)


def test_numbers_inside_are_worked_out_once():
    assert parse("x**(1/2 + 3/2)*2**-1", "f").steps == parse("x**2*0.5", "f").steps
    assert parse("sin(pi/2)*x", "f").steps[0] == Number(1.0)
    assert len(parse("x + 2*pi", "f").steps) == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_tensors_decide_type_and_shape(dtype):
    x, t = torch.linspace(0, 1, 5, dtype=dtype)[:, None], torch.linspace(0, 1, 3, dtype=dtype)
    for text in ("2*x*t + pi", "max(x*t, 0.5)", "min(1, x + t)", "2**(x*t)", "heaviside(x - t)", "(x + t)**0.5"):
        value = parse(text, "f").evaluate({"x": x, "t": t})
        assert value.dtype == dtype
        assert value.shape == (5, 3)


def test_powers_of_negative_numbers_and_of_zero():
    u = torch.tensor([-2.0, 0.0, 3.0], dtype=torch.float64, requires_grad=True)
    for text, value, slope in (
        ("u**1", [-2, 0, 3], [1, 1, 1]),
        ("u**2", [4, 0, 9], [-4, 0, 6]),
        ("u**3", [-8, 0, 27], [12, 0, 27]),
        ("u**0", [1, 1, 1], [0, 0, 0]),
        ("u**(1 + 1)", [4, 0, 9], [-4, 0, 6]),
    ):
        result = parse(text, "f").evaluate({"u": u})
        (gradient,) = torch.autograd.grad(result.sum(), u)
        assert result.tolist() == value
        assert gradient.tolist() == slope
    curvature = torch.func.vmap(torch.func.hessian(lambda v: parse("v**2", "f").evaluate({"v": v})))(u.detach())
    assert curvature.tolist() == [2, 2, 2]
    assert parse("u**-2", "f").evaluate({"u": u}).tolist() == pytest.approx([0.25, math.inf, 1 / 9])
    assert parse("u**0.5", "f").evaluate({"u": u.detach() + 2}).tolist() == pytest.approx([0, 2**0.5, 5**0.5])


@pytest.mark.parametrize(
    "text",
    [
        "u_t + u*u_x - 0.01/pi*u_xx",
        "u**3 - 2*u**2 + u**-1 + u**0.5",
        "sin(u)*cos(u_x) + tan(u/3) - exp(-u_t)*log(u)",
        "asin(u/5) + acos(u/6) + atan(u_x) + sinh(u_t) + cosh(u) + tanh(u_xx)",
        "sqrt(u) + abs(u_x) + sigmoid(u_t) + sign(u) + heaviside(u_x)",
        "min(u, u_x) + max(u_t, 0.1) + min(2, u)",
        "2**u + u**u_x",
    ],
)
def test_gradients(text):
    expression = parse(text, "f")
    names = sorted(expression.names)
    generator = torch.Generator().manual_seed(0)
    points = [1 + torch.rand(4, dtype=torch.float64, generator=generator).requires_grad_() for _ in names]

    def value(*tensors: torch.Tensor) -> torch.Tensor:
        return expression.evaluate(dict(zip(names, tensors, strict=True)))

    assert torch.autograd.gradcheck(value, points, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(value, points)


@pytest.mark.parametrize("text", ["u_t - D*u_xx + sin(x)**2 - max(x, 0.5)*2**u_t", "2*pi", "(" * 40 + "x" + ")" * 40])
def test_compiled_without_a_break(text):
    expression = parse(text, "f")
    values = {name: torch.linspace(0.1, 1, 5) for name in ("u_t", "u_xx", "x")} | {"D": torch.tensor(0.3)}
    compiled = torch.compile(lambda v: expression.evaluate(v), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(values), expression.evaluate(values))


def test_over_a_batch_of_members():
    expression = parse("D*u**2 - max(u, 0.1) + min(0.3, D)", "f")
    u, scale = torch.rand(3, 7), torch.rand(3)
    batched = torch.func.vmap(lambda u, scale: expression.evaluate({"u": u, "D": scale}))(u, scale)
    torch.testing.assert_close(batched, expression.evaluate({"u": u, "D": scale[:, None]}))


MISTAKES = {
    "": "f is empty: write an expression such as u_t - D*u_xx.",
    " \n ": "f is empty: write an expression such as u_t - D*u_xx.",
    "x^2": "f: '^' at column 2 is not understood: write ** for powers, such as u**3.",
    "x²": "f: '²' at column 2 is not understood: write **2 for a square.",
    "u_t − x": "f: '−' at column 5 is not understood: write the minus sign of the keyboard, -.",
    "2×x": "f: '×' at column 2 is not understood: write * for products.",
    "k×u": "f: '×' at column 2 is not understood: write * for products.",
    "k·u": "f: '·' at column 2 is not understood: write * for products.",
    "k\u0387u": "f: '\u0387' at column 2 is not understood: write * for products.",
    "k⋅u": "f: '⋅' at column 2 is not understood: write * for products.",
    "k ∙ u": "f: '∙' at column 3 is not understood: write * for products.",
    "u_t = 0": "f: '=' at column 5 is not understood: bring all terms to one side.",
    "x +": "f: the expression ends at column 4, where a number, a name or ( should follow.",
    "sin(": "f: the expression ends at column 5, where a number, a name or ( should follow.",
    "*x": "f: '*' at column 1 is not understood there: a number, a name or ( should follow.",
    "x // 2": "f: '/' at column 4 is not understood there: a number, a name or ( should follow.",
    "x***2": "f: '*' at column 4 is not understood there: a number, a name or ( should follow.",
    "()": "f: ')' at column 2 is not understood there: a number, a name or ( should follow.",
    "min(x,)": "f: ')' at column 7 is not understood there: a number, a name or ( should follow.",
    "2*(x + 1": "f: the ( at column 3 is never closed: add a ).",
    "x) + 1": "f: the ) at column 2 closes nothing: remove it, or add a ( before it.",
    "2x": "f: 'x' at column 2 needs an operator before it: write * for products.",
    "(2 x)": "f: 'x' at column 4 needs an operator before it: write * for products.",
    "(x)(t)": "f: '(' at column 4 needs an operator before it: write * for products.",
    "1.2.3": "f: '.3' at column 4 needs an operator before it: write * for products.",
    "1_000": "f: '_000' at column 2 needs an operator before it: write * for products.",
    "0x10": "f: 'x10' at column 2 needs an operator before it: write * for products.",
    "1e": "f: 'e' at column 2 needs an operator before it: write * for products.",
    "1e+": "f: 'e' at column 2 needs an operator before it: write * for products.",
    "1,5*x": "f: ',' at column 2 is not understood there: only arguments have commas between them, "
    "decimals have a point.",
    "(1,5)": "f: ',' at column 3 is not understood there: only arguments have commas between them, "
    "decimals have a point.",
    "sin": "f: 'sin' at column 1 is a function: write sin( ).",
    "2*sin x": "f: 'sin' at column 3 is a function: write sin( ).",
    "sin()": "f: 'sin' at column 1 takes 1 argument, got 0.",
    "sin(x, t)": "f: 'sin' at column 1 takes 1 argument, got 2.",
    "1 + min(x)": "f: 'min' at column 5 takes 2 arguments, got 1.",
    "1 + sni(x)": "f: 'sni' at column 5 is not a function (names stand without arguments, products with *): "
    "did you mean 'sin'?",
    "ln(x)": "f: 'ln' at column 1 is not a function: write log( ).",
    "2*Log10(x)": "f: 'Log10' at column 3 is not a function: write log( )/log(10).",
    "1 + pow(u, 3)": "f: 'pow' at column 5 is not a function: write ** for powers, such as u**3.",
    "EXP(x)": "f: 'EXP' at column 1 is not a function (names stand without arguments, products with *): "
    "did you mean 'exp'?",
    "1e999": "f: '1e999' at column 1 is too large: numbers go up to 1.8e308.",
    "x + 1/0": "f: '/' at column 6 divides by zero.",
    "x/(1 - 1)": "f: '/' at column 2 divides by zero.",
    "log(0)": "f: 'log' at column 1 gives no finite number: check what it is applied to.",
    "sqrt(-1)*x": "f: 'sqrt' at column 1 gives no finite number: check what it is applied to.",
    "(-8)**(1/3)": "f: '**' at column 5 gives no finite number: check what it is applied to.",
    "9**9**9**9": "f: '**' at column 5 gives no finite number: check what it is applied to.",
    "10**400": "f: '**' at column 3 gives no finite number: check what it is applied to.",
    "a.b": "f: '.' at column 2 is not understood: names have no parts.",
    "().__class__": "f: '.' at column 3 is not understood: names have no parts.",
    "x[0]": "f: '[' at column 2 is not understood: names have no index, and parentheses are ( ).",
    "{x}": "f: '{' at column 1 is not understood: parentheses are ( ).",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_every_mistake_has_its_sentence(text):
    with pytest.raises(ConfigError) as caught:
        parse(text, "f")
    assert str(caught.value) == MISTAKES[text]


def test_a_field_written_with_arguments():
    with pytest.raises(
        ConfigError, match=r"^f: 'u' at column 3 is not a function \(names stand without arguments.* sin,"
    ):
        parse("2*u(x, t)", "f")


HOSTILE = [
    "__import__('os').system('true')",
    "__import__(os)",
    "(lambda: 1)()",
    "lambda: x",
    "[x for x in (1, 2)]",
    "'text'",
    '"text"',
    "f'{x}'",
    "x if x else t",
    "x and t",
    "x := 1",
    "x; t",
    "x # comment",
    "x\\\n+ 1",
    "x\0",
    "x & t",
    "x % 2",
    "x < t",
    "~x",
    "x @ t",
    "$x",
    "`x`",
    "${oc.env:HOME}",
    "x\u200bt",
    "x\u202et",
    "x ＋ t",
    "٣ + x",
    "𝟐x",
    "½",
    "∞",
    "😀",
    "1j",
    "1e9999999999999999999",
    "9" * 400,
    "exp(1e9)",
    "9**9**9**9*x",
    "(((9**9)**9)**9)**9**9",
    "(" * 9_999,
    "(" * 4_000 + "x" + ")" * 4_000,
    "-" * 9_999,
    "-" * 9_998 + "x",
    "2**" * 3_000 + "x",
    "sin(" * 2_000,
    "x" * (MAX_LENGTH + 1),
    "(" * 10**6,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_hostile_input_is_refused_in_a_sentence_and_at_once(text):
    start = time.process_time()
    with pytest.raises(ConfigError, match=r"^problem\.f\b[^\n]*$") as caught:
        parse(text, "problem.f")
    assert len(str(caught.value)) < 1000
    assert time.process_time() - start < 1


def test_limits():
    deepest = "(" * (MAX_DEPTH - 1) + "x" + ")" * (MAX_DEPTH - 1)
    assert float(parse(deepest, "f").evaluate(double(x=2.0))) == 2
    with pytest.raises(ConfigError, match=f"^f: more than {MAX_DEPTH} levels of nesting at column {MAX_DEPTH + 1}"):
        parse(f"({deepest})", "f")
    with pytest.raises(ConfigError, match=f"^f is {MAX_LENGTH + 1} characters long: .* at most {MAX_LENGTH}"):
        parse("x" * (MAX_LENGTH + 1), "f")
    longest = "+".join("x" * (MAX_LENGTH // 2))
    assert float(parse(longest, "f").evaluate(double(x=1.0))) == MAX_LENGTH // 2


FIELDS = {"u": ("t", "x"), "u_s": ("x",), "temp": ("x", "y"), "k": (), "w": ("time", "t", "x"), "v": ("a", "ab", "bc")}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("u_t", ("u", (1, 0))),
        ("u_x", ("u", (0, 1))),
        ("u_xx", ("u", (0, 2))),
        ("u_xt", ("u", (1, 1))),
        ("u_txtx", ("u", (2, 2))),
        ("temp_xx", ("temp", (2, 0))),
        ("temp_yxy", ("temp", (1, 2))),
        ("u_s_x", ("u_s", (1,))),
        ("w_timetime", ("w", (2, 0, 0))),
        ("w_ttimex", ("w", (1, 1, 1))),
        ("v_abc", ("v", (1, 0, 1))),  # a, bc: taking ab first leads nowhere
        ("v_aab", ("v", (1, 1, 0))),
        ("u_ttttttxxxx", ("u", (6, 4))),
        ("w_timetimetimetimetimetimetimetimetimetime", ("w", (10, 0, 0))),
        ("u_tttttttxxxx", None),
        ("u_xvalue", None),
        ("u", None),
        ("u_s", None),
        ("u_", None),
        ("u_z", None),
        ("u_xz", None),
        ("u_x_x", None),
        ("u_s_t", None),
        ("k_x", None),
        ("ux", None),
        ("q_x", None),
        ("x", None),
        ("_x", None),
        ("", None),
    ],
)
def test_derivatives(name, expected):
    assert derivative_of(name, FIELDS) == expected


def test_a_field_wins_over_the_derivative_of_the_same_name():
    fields = {"u": ("s", "t"), "u_s": ("t",)}
    assert derivative_of("u_s", fields) is None
    assert derivative_of("u_st", fields) == ("u", (1, 1))
    assert derivative_of("u_s_t", fields) == ("u_s", (1,))


def test_long_derivatives_do_not_take_long():
    start = time.process_time()
    fields = {"u": ("x", "xx", "xxx")}
    assert derivative_of("u_" + "x" * 9_000 + "z", fields) is None
    with pytest.raises(ConfigError, match="along z, and u depends on x, xx, xxx"):
        check_names(parse("u_" + "x" * 9_000 + "z", "f"), (), fields, "f")
    with pytest.raises(ConfigError, match="is a derivative of too high an order: the highest is 10"):
        check_names(parse("u_" + "x" * 9_000, "f"), (), {"u": ("x",)}, "f")
    assert derivative_of("u_" + "aba" * 2_000 + "c", {"u": ("a", "ab", "ba")}) is None
    assert time.process_time() - start < 1


def test_known_names_pass():
    text = "u_t - D*temp_xy + lambda*ν*u_s_x - pi*k*e + x + _a"
    check_names(parse(text, "f"), {"D", "lambda", "ν", "x", "_a"}, FIELDS, "f")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1 + u_z", "f: 'u_z' at column 5 is a derivative along z, and u depends on t, x."),
        ("u_xz", "f: 'u_xz' at column 1 is a derivative along z, and u depends on t, x."),
        ("u_s_t", "f: 'u_s_t' at column 1 is a derivative along t, and u_s depends on x."),
        ("v_aba", None),
        ("v_abx", "f: 'v_abx' at column 1 is a derivative along x, and v depends on a, ab, bc."),
        ("2*k_x", "f: 'k_x' at column 3 is a derivative along x, and k depends on no coordinate."),
        ("u_t + x - lamda", "f: 'lamda' at column 11 is not known: did you mean 'lambda'?"),
        ("b + a", "f: 'b' at column 1 is not known: choose one of D, D_x, e, k, lambda, pi, temp, u, u_s, v, w, x"),
        ("D_x + D_xx", "f: 'D_xx' at column 7 is not known: did you mean 'D_x'?"),
        (
            "\u0445",
            "f: '\u0445' at column 1 (with CYRILLIC SMALL LETTER HA) is not known: "
            "choose one of D, D_x, e, k, lambda, pi, temp, u, u_s, v, w, x",
        ),
    ],
)
def test_unknown_names(text, sentence):
    allowed = {"x", "lambda", "D", "D_x"}
    if sentence is None:
        check_names(parse(text, "f"), allowed, FIELDS, "f")
        return
    with pytest.raises(ConfigError) as caught:
        check_names(parse(text, "f"), allowed, FIELDS, "f")
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("uxx", "u_xx"),
        ("ut", "u_t"),
        ("u_x_x", "u_xx"),
        ("u_x_t", "u_xt"),
        ("uxxxt", "u_xxxt"),
        ("U_xx", "u_xx"),
        ("u_X", "u_x"),
        ("U", "u"),
        ("LAMBDA", "lambda"),
        ("temp_xx", "temperature_xx"),
        ("Tempreature_x", "temperature_x"),
    ],
)
def test_a_derivative_may_be_meant(name, meant):
    fields = {"u": ("t", "x"), "temperature": ("x",)}
    with pytest.raises(ConfigError, match=rf"^f: '{name}' at column 3 is not known: did you mean '{meant}'\?$"):
        check_names(parse(f"2*{name}", "f"), {"t", "x", "lambda", "D"}, fields, "f")


@pytest.mark.parametrize(
    ("text", "mistake", "derivative"),
    [
        ("diff(u,x,x)", "'diff' at column 3 is not a function", "u_xx"),
        ("diff(u, x, 2, t)", "'diff' at column 3 is not a function", "u_xxt"),
        ("diff(2*u, x)", "'diff' at column 3 is not a function", "u_x and u_xx"),
        ("Laplacian(temp)", "'Laplacian' at column 3 is not a function", "temp_y and temp_yy"),
        ("grad(u)", "'grad' at column 3 is not a function", "u_x and u_xx"),
        ("d2u_dx2", "'d2u_dx2' at column 3 is not known", "u_xx"),
        ("d2u_dxdt", "'d2u_dxdt' at column 3 is not known", "u_xt"),
        ("du_dx", "'du_dx' at column 3 is not known", "u_x"),
        ("dudt", "'dudt' at column 3 is not known", "u_t"),
        ("du_s_dx", "'du_s_dx' at column 3 is not known", "u_s_x"),
        ("du/dx", "'du' at column 3 is not known", "u_x"),
        ("d2u / dx**2", "'d2u' at column 3 is not known", "u_xx"),
        ("d2u/dx^2", "'^' at column 9 is not understood", "u_xx"),
        ("d^2u/dx^2", "'^' at column 4 is not understood", "u_xx"),
        ("d(u)/dx", "'d' at column 3 is not a function", "u_x"),
        ("∂²u/∂x²", "'∂' at column 3 is not understood", "u_xx"),
        ("du/dz", "'du' at column 3 is not known", "u_x and u_xx"),
        ("dud", "'dud' at column 3 is not known", None),
        ("u.xx", "'.' at column 4 is not understood", "u_xx"),
        ("u.value", "'.' at column 4 is not understood", "u_x and u_xx"),
        ("u'", '"\'" at column 4 is not understood', "u_x and u_xx"),
        ("temp''", '"\'" at column 7 is not understood', "temp_y and temp_yy"),
        ("u″", "'″' at column 4 is not understood", "u_x and u_xx"),
        ("∇²u", "'∇' at column 3 is not understood", "u_x and u_xx"),
        ("Δu", "'Δu' at column 3 is not known", "u_x and u_xx"),
    ],
)
def test_derivatives_of_other_notations(text, mistake, derivative):
    with pytest.raises(ConfigError) as caught:
        check_names(parse(f"2*{text}", "f", fields=FIELDS), {"t", "x"}, FIELDS, "f")
    if derivative is None:
        assert "derivatives are written" not in str(caught.value)
    else:
        assert str(caught.value) == f"f: {mistake}: derivatives are written like {derivative}."


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("u^3", "write ** for powers, such as u**3."),
        ("du_dx = 0", "bring all terms to one side."),  # one mistake at a time, the one at the column that is named
        ("x.xx", "names have no parts."),
        ("sni(u)", "did you mean 'sin'?"),
    ],
)
def test_other_mistakes_are_not_taken_for_derivatives(text, advice):
    with pytest.raises(ConfigError, match=rf": {re.escape(advice)}$"):
        parse(text, "f", fields=FIELDS)


def test_where_there_are_no_fields_there_are_no_derivatives():
    for text in ("diff(x, x)", "x'", "dx/dt", "∇x"):
        with pytest.raises(ConfigError) as caught:
            check_names(parse(text, "f"), {"x"}, {}, "f")
        assert "derivatives" not in str(caught.value)


@pytest.mark.parametrize("text", ["du" + " " * 9_000, "diff(" + " " * 9_000, "d" + "dx" * 4_000, "du/" + "dx9" * 3_000])
def test_other_notations_cost_no_time(text):
    start = time.process_time()
    with pytest.raises(ConfigError):
        check_names(parse(text, "f", fields=FIELDS), {"x"}, FIELDS, "f")
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("g - u", "'g' at column 1 is an equation"),
        ("u + f", "'f' at column 5 is an equation"),
        ("2*g_xt", "'g_xt' at column 3 is a derivative of the equation g"),
    ],
)
def test_an_equation_cannot_be_used_in_an_equation(text, mistake):
    with pytest.raises(ConfigError) as caught:
        check_names(parse(text, "f"), {"x", "t"}, FIELDS, "f", equations=["f", "g"])
    assert str(caught.value) == (
        f"f: {mistake}, which cannot be used in another one or in itself: write out what it stands for."
    )


def test_a_parameter_may_begin_like_an_equation():
    with pytest.raises(ConfigError, match=r"^f: 'g_0' at column 1 is not known: "):
        check_names(parse("g_0*u", "f"), {"x"}, FIELDS, "f", equations=["g"])
    check_names(parse("g_x*u", "f"), {"g_x"}, FIELDS, "f", equations=["g"])


def test_a_parameter_must_not_look_like_a_derivative():
    with pytest.raises(ConfigError, match=r"^f: 'u_x' at column 3 is also the derivative of u: choose another name"):
        check_names(parse("2*u_x", "f"), {"u_x"}, FIELDS, "f")


def test_names_that_can_be_declared():
    for name in ("u", "lambda", "ν", "u_s", "E", "x1", "_"):
        check_name(name, "problem.parameters")
    for name, sentence in {
        "e": "problem.parameters=e is the number 2.7183 in expressions: choose another name.",
        "sin": "problem.parameters=sin is a function in expressions: choose another name.",
        "a b": "problem.parameters='a b' cannot be used in expressions: a name has letters, digits and _ only.",
        "1x": "problem.parameters='1x' cannot be used in expressions: a name has letters, digits and _ only.",
        "k·u": "problem.parameters='k·u' cannot be used in expressions: a name has letters, digits and _ only.",
        "": "problem.parameters='' cannot be used in expressions: a name has letters, digits and _ only.",
    }.items():
        with pytest.raises(ConfigError) as caught:
            check_name(name, "problem.parameters")
        assert str(caught.value) == sentence
