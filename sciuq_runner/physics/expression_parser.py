"""From text to an expression, by recursive descent; every mistake is a sentence that names its column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

import torch

from sciuq_runner.errors import ConfigError, nearest
from sciuq_runner.physics.expression_names import ADVICE, POWERS, on_derivatives
from sciuq_runner.physics.expressions import ARITY, CONSTANTS, FUNCTIONS, Expression, Name, Number, Operation, apply

MAX_LENGTH = 10_000
MAX_DEPTH = 50
"""Parentheses, signs and powers inside each other; the parser goes some seven calls deep for each."""

OTHER_FUNCTIONS = {
    "ln": "write log( )",
    "log2": "write log( )/log(2)",
    "log10": "write log( )/log(10)",
    "pow": POWERS,
    "power": POWERS,
}
"""Functions as they are called elsewhere, where the name that is most like them is not the one that is meant."""


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
    parser = ExpressionParser(text, label, {**CONSTANTS, **(constants or {})}, fields or {})
    return Expression(text, tuple(parser.parse()))


@dataclass(frozen=True)
class Token:
    kind: Literal["number", "name", "symbol", "end"]
    text: str
    column: int


def tokens_of(text: str, label: str, fields: Mapping[str, Sequence[str]]) -> list[Token]:
    tokens: list[Token] = []
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
            derivatives = (on_derivatives(text, at, fields, past=start) for at in (*before, start))
            other = ADVICE.get(letter, "an expression has numbers, names, + - * / ** and ( ) only")
            advice = next(filter(None, derivatives), other)
            raise ConfigError(f"{label}: {letter!r} at column {start + 1} is not understood: {advice}.")
        tokens.append(Token(kind, text[start:end], start + 1))
        start = end
    return [*tokens, Token("end", "", len(text.rstrip()) + 1)]


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


class ExpressionParser:
    """Recursive descent with the precedence of Python; appends the steps of what it reads."""

    def __init__(
        self, text: str, label: str, constants: Mapping[str, float], fields: Mapping[str, Sequence[str]]
    ) -> None:
        self.text, self.label, self.constants, self.fields = text, label, constants, fields
        self.tokens = tokens_of(text, label, fields)
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
    def token(self) -> Token:
        return self.tokens[self.position]

    def take(self) -> Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def fail(self, mistake: str) -> NoReturn:
        raise ConfigError(f"{self.label}: {mistake}.")

    def fail_at(self, mistake: str, token: Token | None = None) -> NoReturn:
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

    def number(self, token: Token) -> None:
        value = float(token.text)
        if not math.isfinite(value):
            self.fail_at("is too large: numbers go up to 1.8e308", token)
        self.steps.append(Number(value))

    def name(self, token: Token) -> None:
        name = token.text
        if self.token.text == "(":
            self.call(token)
        elif name in FUNCTIONS:
            self.fail_at(f"is a function: write {name}( )", token)
        elif name in self.constants:
            self.steps.append(Number(self.constants[name]))
        else:
            self.steps.append(Name(name, token.column))

    def call(self, function: Token) -> None:
        name, opening = function.text, self.take()
        if name not in FUNCTIONS:
            lower = name.lower()
            advice = on_derivatives(self.text, function.column - 1, self.fields) or OTHER_FUNCTIONS.get(lower)
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

    def close(self, opening: Token) -> None:
        if self.token.kind == "end":
            self.fail(f"the ( at column {opening.column} is never closed: add a )")
        if self.token.text != ")":
            self.fail_to_go_on()
        self.take()

    def apply(self, name: str, arity: int, token: Token) -> None:
        """Append an operation, or its result if it applies to numbers only."""
        if name == "/" and self.steps[-1] == Number(0.0):
            self.fail_at("divides by zero", token)
        numbers = [step.value for step in self.steps[-arity:] if isinstance(step, Number)]
        if len(numbers) < arity:
            self.steps.append(Operation(name, arity))
            return
        value = float(apply(name, [torch.tensor(number, dtype=torch.float64) for number in numbers]))
        if not math.isfinite(value):
            self.fail_at("gives no finite number: check what it is applied to", token)
        self.steps[-arity:] = [Number(value)]
