"""The linear parts of equations: sums of derivatives with numbers as factors, which a field can give as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sciuq_runner.physics.expressions import Expression, Name, Number, Operation
from sciuq_runner.physics.fields import label

Steps = tuple[Number | Name | Operation, ...]
Addend = tuple[float, Steps]
"""A factor, and what it multiplies."""

Factors = dict[str, float]
"""A sum: names with their factors."""


def combined(expression: Expression, owners: Mapping[str, str]) -> tuple[Expression, dict[str, Factors]]:
    """The same with one name in the place of every sum of names of one owner with numbers as factors.

    Returns it with what each new name stands for, by the old names. ``u_t + u*u_x - 0.1*u_xx`` is a sum of u_t and
    u_xx, and ``u*u_x``.
    """
    owned = [owners[name] for name in expression.names if name in owners]
    if len(owned) == len(set(owned)):
        return expression, {}
    found = _Collector(owners)
    steps = found.collect(expression)
    return (Expression(expression.text, steps), found.sums) if found.sums else (expression, {})


class _Collector:
    """Evaluates an expression to sums of addends, and writes them down again with what belongs together as one."""

    def __init__(self, owners: Mapping[str, str]) -> None:
        self.owners = owners
        self.sums: dict[str, Factors] = {}

    def collect(self, expression: Expression) -> Steps:
        stack: list[list[Addend]] = []
        for step in expression.steps:
            if isinstance(step, Operation):
                operands = stack[-step.arity :]
                del stack[-step.arity :]
                stack.append(self.apply(step.name, operands))
            else:
                stack.append([(1.0, (step,))])
        return self.joined(stack[0])

    def apply(self, name: str, operands: Sequence[list[Addend]]) -> list[Addend]:
        """What an operation makes of sums: a sum where it is linear, else one addend."""
        first, last = operands[0], operands[-1]
        if name in ("+", "-"):
            return [*first, *scaled(last, -1.0 if name == "-" else 1.0)]
        if name == "negative":
            return scaled(first, -1.0)
        factors = {"*": ((first, last), (last, first)), "/": ((last, first),)}.get(name, ())
        for side, other in factors:
            number = number_in(side)
            if number is not None and all(self.owner(steps) for _, steps in other):
                return [(factor * number if name == "*" else factor / number, steps) for factor, steps in other]
        found = [step for operand in operands for step in self.joined(operand)]
        return [(1.0, (*found, Operation(name, len(operands))))]

    def owner(self, steps: Steps) -> str | None:
        """Whose name it is, if it is one alone."""
        return self.owners.get(steps[0].name) if len(steps) == 1 and isinstance(steps[0], Name) else None

    def joined(self, addends: Sequence[Addend]) -> Steps:
        """The steps of a sum, with what belongs together as one name."""
        groups: dict[str, Factors] = {}
        rest: list[Addend] = []
        for factor, steps in addends:
            owner = self.owner(steps)
            if owner is None:
                rest.append((factor, steps))
                continue
            (name,) = (step.name for step in steps if isinstance(step, Name))
            group = groups.setdefault(owner, {})
            group[name] = group.get(name, 0.0) + factor
        for group in groups.values():
            rest.insert(0, self.named(group))
        (factor, found), *others = rest
        found = times(factor, found)
        for factor, steps in others:
            found = (*found, *times(abs(factor), steps), Operation("-" if factor < 0 else "+", 2))
        return found

    def named(self, group: Factors) -> Addend:
        """A sum as a multiple of one whose first factor is one, so that all its multiples have the same name."""
        first, lead = next(iter(group.items()))
        if len(group) == 1:
            return lead, (Name(first, 0),)
        lead = lead or 1.0
        parts = {name: factor / lead for name, factor in group.items()}
        self.sums[label(parts)] = parts
        return lead, (Name(label(parts), 0),)


def scaled(addends: Sequence[Addend], by: float) -> list[Addend]:
    return [(by * factor, steps) for factor, steps in addends]


def times(factor: float, steps: Steps) -> Steps:
    return steps if factor == 1 else (Number(factor), *steps, Operation("*", 2))


def number_in(addends: Sequence[Addend]) -> float | None:
    """The number that a sum is, if it is one."""
    (factor, steps), *others = addends
    return factor * steps[0].value if not others and len(steps) == 1 and isinstance(steps[0], Number) else None
