"""The small language in which equations are written: numbers, names, ``+ - * / **`` and a few functions."""

from __future__ import annotations

import difflib
import math
import operator
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor

from sciuq_runner.errors import ConfigError, nearest
from sciuq_runner.physics.fields import RESERVED, order_of

MAX_LENGTH = 10_000
MAX_DEPTH = 50
"""Parentheses, signs and powers inside each other; the parser goes some seven calls deep for each."""

MAX_ORDER = 10
"""Of a derivative along all coordinates together: the derivatives below it, which are needed too, become very many."""

CONSTANTS = {"pi": math.pi, "e": math.e}


def _paired(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Tensor]:
    """``torch.minimum`` and ``torch.maximum`` take no plain numbers."""

    def call(a: Any, b: Any) -> Tensor:
        like = a if isinstance(a, Tensor) else b
        first, second = (side if isinstance(side, Tensor) else torch.full_like(like, side) for side in (a, b))
        return function(first, second)

    return call


def _heaviside(x: Tensor) -> Tensor:
    return 0.5 * (torch.sign(x) + 1)  # one half at zero; torch.heaviside has no gradient


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
            *("exp", "log", "sqrt", "abs", "sign", "sigmoid"),
        )
    },
    "heaviside": _heaviside,
    "min": _paired(torch.minimum),
    "max": _paired(torch.maximum),
}
ARITY = {name: 2 if name in ("min", "max") else 1 for name in FUNCTIONS}
OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": torch.pow,  # with a plain number as exponent, negative bases and the gradient at zero are right
    "negative": operator.neg,
}

POWERS = "write ** for powers, such as u**3"
ADVICE = {
    "^": POWERS,
    "²": "write **2 for a square",
    "³": "write **3 for a cube",
    "−": "write the minus sign of the keyboard, -",
    "–": "write the minus sign of the keyboard, -",
    **dict.fromkeys("×·\u0387⋅∙•∗", "write * for products"),
    "÷": "write / for quotients",
    "√": "write sqrt( )",
    "=": "bring all terms to one side",
    ".": "names have no parts",
    "[": "names have no index, and parentheses are ( )",
    "{": "parentheses are ( )",
}
OTHER_FUNCTIONS = {
    "ln": "write log( )",
    "log2": "write log( )/log(2)",
    "log10": "write log( )/log(10)",
    "pow": POWERS,
    "power": POWERS,
}
"""Functions as they are called elsewhere, where the name that is most like them is not the one that is meant."""

OTHER_DERIVATIVES = (
    r"d{power}\s*\(?(?P<field>{field})\)?[\s_/(]*"
    r"(?P<along>d({coordinate}){power}([\s_*]*d({coordinate}){power})*|(?<=[\s_/(])d\w)",  # d2u_dx2, du/dx
    r"(?P<field>{field})\s*[.'](?P<along>\w*)",  # u.xx, u''
    r"(?i:diff|derivative|partial|grad|gradient|div|laplace|laplacian|nabla|hessian|jacobian)\s*"
    r"\(\s*(?P<field>{field})?(?P<along>(\s*,\s*({coordinate}|[0-9]))*)",  # diff(u, x, x)
    r"[∇Δ∆][\^*2·⋅]*\s*\(?\s*(?P<field>{field})(?P<along>)",  # ∇²u
)
"""Derivatives as they are written elsewhere: of which field and along what; in letters of the keyboard."""

KEYBOARD = str.maketrans("∂²³′″’", "d23'''")
"""Letters of derivatives that no keyboard has; one for one, so that columns stay."""


@dataclass(frozen=True)
class Number:
    """A number; parts of an expression without names become one while parsing."""

    value: float


@dataclass(frozen=True)
class Name:
    """A free name and where it stands."""

    name: str
    column: int


@dataclass(frozen=True)
class Operation:
    """An operator or function, applied to the last ``arity`` results."""

    name: str
    arity: int


@dataclass(frozen=True)
class Expression:
    """A parsed expression in postfix order: ``a + b*c`` is a, b, c, ``*``, ``+``; no depth, hence no recursion."""

    text: str
    steps: tuple[Number | Name | Operation, ...]

    @property
    def names(self) -> frozenset[str]:
        """All free names."""
        return frozenset(step.name for step in self.steps if isinstance(step, Name))

    def column(self, name: str) -> int:
        """Where ``name`` is used first, counted from 1."""
        return min(step.column for step in self.steps if isinstance(step, Name) and step.name == name)

    def evaluate(self, values: Mapping[str, Tensor]) -> Tensor:
        """The value for tensors that broadcast; without names a number of no dimension, in double precision."""
        results: list[Any] = []
        for step in self.steps:
            if isinstance(step, Number):
                results.append(step.value)
            elif isinstance(step, Name):
                results.append(values[step.name])
            else:
                arguments = results[-step.arity :]
                del results[-step.arity :]
                results.append(_apply(step.name, arguments))
        (result,) = results
        return result if isinstance(result, Tensor) else torch.tensor(result, dtype=torch.float64)


def parse(
    text: str,
    label: str,
    constants: Mapping[str, float] | None = None,
    fields: Mapping[str, Sequence[str]] | None = None,
) -> Expression:
    """Read an expression; ``label`` says in mistakes which setting it is, such as ``problem.equations.f``.

    ``constants`` are further names of numbers, beside pi and e. ``fields`` maps a field to its coordinates, for advice
    alone: how a derivative of theirs is written.
    """
    if len(text) > MAX_LENGTH:
        raise ConfigError(f"{label} is {len(text)} characters long: an expression has at most {MAX_LENGTH}.")
    if not text.strip():
        raise ConfigError(f"{label} is empty: write an expression such as u_t - D*u_xx.")
    return Expression(text, tuple(_Parser(text, label, {**CONSTANTS, **(constants or {})}, fields or {}).parse()))


def check_name(name: str, label: str) -> None:
    """A coordinate, field or parameter must be a word that means nothing else in an expression."""
    if not name.isidentifier() or not ADVICE.keys().isdisjoint(name):  # Python takes k·u for one name
        raise ConfigError(f"{label}={name!r} cannot be used in expressions: a name has letters, digits and _ only.")
    if name in CONSTANTS:
        raise ConfigError(f"{label}={name} is the number {CONSTANTS[name]:.5g} in expressions: choose another name.")
    if name in FUNCTIONS:
        raise ConfigError(f"{label}={name} is a function in expressions: choose another name.")


def derivative_of(name: str, fields: Mapping[str, Sequence[str]]) -> tuple[str, tuple[int, ...]] | None:
    """Read ``u_xxt`` as the field u and the order along each of its coordinates; None if it is no derivative.

    ``fields`` maps a field to its coordinates. A field of that very name, and the longest field that fits, come first.
    """
    if name in fields:
        return None
    for field in _fields_before(name, fields):
        along = name[len(field) + 1 :]
        order = None if along in RESERVED else order_of(along, fields[field])
        if order is not None and sum(order) <= MAX_ORDER:
            return field, order
    return None


def check_names(
    expression: Expression,
    allowed: Collection[str],
    fields: Mapping[str, Sequence[str]],
    label: str,
    equations: Iterable[str] = (),
) -> None:
    """Every free name must be in ``allowed`` (coordinates, parameters), a field, or a derivative of a field.

    ``equations`` are the names of all equations, none of which can be used.
    """
    derived = dict.fromkeys(equations, tuple(dict.fromkeys(chain(*fields.values()))))
    for name in sorted(expression.names, key=expression.column):
        derivative = derivative_of(name, fields)
        where = f"{label}: '{name}' at column {expression.column(name)}"
        if name in allowed and derivative:
            raise ConfigError(f"{where} is also the derivative of {derivative[0]}: choose another name for it.")
        if name in allowed or name in fields or derivative:
            continue
        equation = derivative_of(name, derived)
        if name in derived or equation:
            what = f"a derivative of the equation {equation[0]}" if equation else "an equation"
            raise ConfigError(
                f"{where} is {what}, which cannot be used in another one or in itself: write out what it stands for."
            )
        derivatives = _on_derivatives(expression.text, expression.column(name) - 1, fields)
        if derivatives:
            raise ConfigError(f"{where} is not known: {derivatives}.")
        raise ConfigError(f"{where}{_mistake(name, {*allowed, *fields, *CONSTANTS}, fields)}")


def _on_derivatives(text: str, start: int, fields: Mapping[str, Sequence[str]], past: int = 0) -> str | None:
    """How to write what stands at ``start`` in one of ``OTHER_DERIVATIVES`` and goes on past ``past``; None if nothing.

    Where the notation does not say along what, or is not of a field alone, there are examples.
    """
    fields = {field: coordinates for field, coordinates in fields.items() if coordinates}
    coordinate = _any_of(chain(*fields.values()))
    parts = {"field": _any_of(fields), "coordinate": coordinate, "power": r"(\^|\*\*)?[0-9]?"}
    for notation in OTHER_DERIVATIVES if fields else ():
        found = re.compile(notation.format(**parts)).match(text.translate(KEYBOARD), start)
        if found and found.end() > past:
            field = found["field"] or next(iter(fields))
            orders = re.findall(rf"({coordinate})(?:\^|\*\*|\s*,\s*)?([0-9]?)", found["along"])
            meant = f"{field}_{''.join(name * int(times or 1) for name, times in orders)}"
            last = fields[field][-1]
            known = derivative_of(meant, fields) is not None
            return f"derivatives are written like {meant if known else f'{field}_{last} and {field}_{last}{last}'}"
    return None


def _any_of(names: Iterable[str]) -> str:
    """A pattern for one of the names, the longest that fits."""
    return "|".join(map(re.escape, sorted(set(names), key=lambda name: (-len(name), name))))


def _mistake(name: str, words: Collection[str], fields: Mapping[str, Sequence[str]]) -> str:
    """What is wrong with a name that is not known, and what may be meant."""
    meant = _spelt_otherwise(name, words, fields)
    candidates = _fields_before(name, fields)
    if candidates and meant is None:
        field = candidates[0]
        along = _remainder(name[len(field) + 1 :], fields[field])
        depends = ", ".join(fields[field]) or "no coordinate"
        if not along:
            return f" is a derivative of too high an order: the highest is {MAX_ORDER}."
        return f" is a derivative along {along}, and {field} depends on {depends}."
    meant = meant or _closest(name, words, fields)
    hint = nearest(name, words) if meant is None else nearest(meant, [meant])
    return f"{_letters(name)} is not known: {hint}"


def _spelt_otherwise(name: str, words: Collection[str], fields: Mapping[str, Sequence[str]]) -> str | None:
    """What ``name`` is with other capitals and underscores: u_xx for uxx, u_x_x and U_xx."""
    plain = _plain(name)
    longer = [f"{field}_{plain.removeprefix(_plain(field))}" for field in fields]  # of any order
    possible = (*sorted(words), *_derivatives(fields), *(other for other in longer if derivative_of(other, fields)))
    return next((other for other in possible if _plain(other) == plain), None)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _closest(name: str, words: Collection[str], fields: Mapping[str, Sequence[str]]) -> str | None:
    """The word or derivative that is most like ``name``, whatever the capitals."""
    possible = {other.lower(): other for other in (*_derivatives(fields), *sorted(words))}
    close = difflib.get_close_matches(name.lower(), possible, n=1, cutoff=0.5)
    return possible[close[0]] if close else None


def _derivatives(fields: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The first and second derivatives of all fields."""
    for field, coordinates in fields.items():
        for order in (1, 2):
            yield from (f"{field}_{''.join(along)}" for along in combinations_with_replacement(coordinates, order))


def _fields_before(name: str, fields: Iterable[str]) -> list[str]:
    """Fields of which ``name`` looks like a derivative, the longest first."""
    found = [field for field in fields if name.startswith(f"{field}_") and len(name) > len(field) + 1]
    return sorted(found, key=len, reverse=True)


def _remainder(text: str, coordinates: Sequence[str]) -> str:
    """What is left of ``text`` after as many coordinates as it starts with."""
    reached = {0}
    for start in range(len(text)):
        if start in reached:
            reached |= {start + len(name) for name in coordinates if text.startswith(name, start)}
    return text[max(reached) :]


def _letters(name: str) -> str:
    """Spell out letters that may look like others, such as a Cyrillic x."""
    foreign = [unicodedata.name(letter, "an unnamed letter") for letter in name if not letter.isascii()]
    return f" (with {', '.join(dict.fromkeys(foreign))})" if foreign else ""


def _apply(name: str, arguments: Sequence[Any]) -> Any:
    return (OPERATORS[name] if name in OPERATORS else FUNCTIONS[name])(*arguments)


@dataclass(frozen=True)
class _Token:
    kind: Literal["number", "name", "symbol", "end"]
    text: str
    column: int


def _tokens(text: str, label: str, fields: Mapping[str, Sequence[str]]) -> list[_Token]:
    tokens: list[_Token] = []
    start = 0
    while start < len(text):
        letter, end = text[start], start + 1
        kind: Literal["number", "name", "symbol"] = "symbol"
        if letter.isspace():
            start = end
            continue
        if letter.isidentifier():
            kind = "name"
            while end < len(text) and f"a{text[end]}".isidentifier() and text[end] not in ADVICE:
                end += 1
        elif _is_digit(text, start) or (letter == "." and _is_digit(text, end)):
            kind, end = "number", _end_of_number(text, start)
        elif text.startswith("**", start):
            end = start + 2
        elif letter not in "+-*/(),":
            before = [token.column - 1 for token in tokens[-3:]]  # the symbol may be inside a derivative: d2u/dx^2
            derivatives = (_on_derivatives(text, at, fields, past=start) for at in (*before, start))
            other = ADVICE.get(letter, "an expression has numbers, names, + - * / ** and ( ) only")
            advice = next(filter(None, derivatives), other)
            raise ConfigError(f"{label}: {letter!r} at column {start + 1} is not understood: {advice}.")
        tokens.append(_Token(kind, text[start:end], start + 1))
        start = end
    return [*tokens, _Token("end", "", len(text.rstrip()) + 1)]


def _is_digit(text: str, at: int) -> bool:
    return text[at : at + 1] in set("0123456789")


def _end_of_number(text: str, at: int) -> int:
    """Where the number ends that starts here: digits with at most one point, perhaps with an exponent."""
    point = False
    while _is_digit(text, at) or (text[at : at + 1] == "." and not point):
        point |= text[at] == "."
        at += 1
    exponent = at + 2 if text[at + 1 : at + 2] in ("+", "-") else at + 1
    if text[at : at + 1] in ("e", "E") and _is_digit(text, exponent):
        at = exponent
        while _is_digit(text, at):
            at += 1
    return at


class _Parser:
    """Recursive descent with the precedence of Python; appends the steps of what it reads."""

    def __init__(
        self, text: str, label: str, constants: Mapping[str, float], fields: Mapping[str, Sequence[str]]
    ) -> None:
        self.text, self.label, self.constants, self.fields = text, label, constants, fields
        self.tokens = _tokens(text, label, fields)
        self.position = 0
        self.depth = 0
        self.steps: list[Number | Name | Operation] = []

    def parse(self) -> list[Number | Name | Operation]:
        self.sum()
        if self.token.text == ")":
            self.fail(f"the ) at column {self.token.column} closes nothing: remove it, or add a ( before it")
        if self.token.kind != "end":
            self.fail_to_go_on()
        return self.steps

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def take(self) -> _Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def fail(self, mistake: str) -> NoReturn:
        raise ConfigError(f"{self.label}: {mistake}.")

    def fail_at(self, mistake: str, token: _Token | None = None) -> NoReturn:
        token = token or self.token
        self.fail(f"'{token.text}' at column {token.column} {mistake}")

    def fail_to_go_on(self) -> NoReturn:
        if self.token.text == ",":
            self.fail_at("is not understood there: only arguments have commas between them, decimals have a point")
        self.fail_at("needs an operator before it: write * for products")

    def sum(self) -> None:
        self.product()
        while self.token.text in ("+", "-"):
            sign = self.take()
            self.product()
            self.apply(sign.text, 2, sign)

    def product(self) -> None:
        self.signed()
        while self.token.text in ("*", "/"):
            sign = self.take()
            self.signed()
            self.apply(sign.text, 2, sign)

    def signed(self) -> None:
        self.depth += 1  # all that nests passes here
        if self.depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} levels of nesting at column {self.token.column}: write it more simply")
        if self.token.text in ("+", "-"):
            sign = self.take()
            self.signed()
            if sign.text == "-":
                self.apply("negative", 1, sign)
        else:
            self.power()
        self.depth -= 1

    def power(self) -> None:
        self.atom()
        if self.token.text == "**":
            sign = self.take()
            self.signed()
            self.apply("**", 2, sign)

    def atom(self) -> None:
        token = self.take()
        if token.kind == "number":
            self.number(token)
        elif token.kind == "name":
            self.name(token)
        elif token.text == "(":
            self.sum()
            self.close(token)
        elif token.kind == "end":
            self.fail(f"the expression ends at column {token.column}, where a number, a name or ( should follow")
        else:
            self.fail_at("is not understood there: a number, a name or ( should follow", token)

    def number(self, token: _Token) -> None:
        value = float(token.text)
        if not math.isfinite(value):
            self.fail_at("is too large: numbers go up to 1.8e308", token)
        self.steps.append(Number(value))

    def name(self, token: _Token) -> None:
        name = token.text
        if self.token.text == "(":
            self.call(token)
        elif name in FUNCTIONS:
            self.fail_at(f"is a function: write {name}( )", token)
        elif name in self.constants:
            self.steps.append(Number(self.constants[name]))
        else:
            self.steps.append(Name(name, token.column))

    def call(self, function: _Token) -> None:
        name, opening = function.text, self.take()
        if name not in FUNCTIONS:
            lower = name.lower()
            advice = _on_derivatives(self.text, function.column - 1, self.fields) or OTHER_FUNCTIONS.get(lower)
            if advice:
                self.fail_at(f"is not a function: {advice}", function)
            hint = nearest(lower, FUNCTIONS)
            raise ConfigError(
                f"{self.label}: '{name}' at column {function.column} is not a function "
                f"(names stand without arguments, products with *): {hint}"
            )
        given = 0
        if self.token.text != ")":
            self.sum()
            given = 1
            while self.token.text == ",":
                self.take()
                self.sum()
                given += 1
        self.close(opening)
        if given != ARITY[name]:
            self.fail_at(f"takes {ARITY[name]} argument{'s' * (ARITY[name] > 1)}, got {given}", function)
        self.apply(name, given, function)

    def close(self, opening: _Token) -> None:
        if self.token.kind == "end":
            self.fail(f"the ( at column {opening.column} is never closed: add a )")
        if self.token.text != ")":
            self.fail_to_go_on()
        self.take()

    def apply(self, name: str, arity: int, token: _Token) -> None:
        """Append an operation, or its result if it applies to numbers only."""
        if name == "/" and self.steps[-1] == Number(0.0):
            self.fail_at("divides by zero", token)
        numbers = [step.value for step in self.steps[-arity:] if isinstance(step, Number)]
        if len(numbers) < arity:
            self.steps.append(Operation(name, arity))
            return
        value = float(_apply(name, [torch.tensor(number, dtype=torch.float64) for number in numbers]))
        if not math.isfinite(value):
            self.fail_at("gives no finite number: check what it is applied to", token)
        self.steps[-arity:] = [Number(value)]


REWRITE = (
    "write log, sqrt, powers and quotients of an equation so that they are defined for every value of the network, "
    "such as log(abs(u) + 0.01)."
)
"""What to try where :meth:`Target.undefined` names quantities."""
