"""The names in an expression: which are allowed, how derivatives are written, and what a wrong one may mean."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations_with_replacement

from sciuq_runner.errors import ConfigError, nearest
from sciuq_runner.physics.expressions import CONSTANTS, FUNCTIONS, Expression
from sciuq_runner.physics.fields import RESERVED, order_of

MAX_ORDER = 10
"""Of a derivative along all coordinates together: the derivatives below it, which are needed too, become very many."""

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
        derivatives = on_derivatives(expression.text, expression.column(name) - 1, fields)
        if derivatives:
            raise ConfigError(f"{where} is not known: {derivatives}.")
        raise ConfigError(f"{where}{_mistake(name, {*allowed, *fields, *CONSTANTS}, fields)}")


def on_derivatives(text: str, start: int, fields: Mapping[str, Sequence[str]], past: int = 0) -> str | None:
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
