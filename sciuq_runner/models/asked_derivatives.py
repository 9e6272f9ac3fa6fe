"""What the physics of a problem asks of its fields, whatever the model makes them of."""

from __future__ import annotations

import torch

from sciuq_runner.physics.fields import Asked, Unknowns
from sciuq_runner.physics.problem import Problem
from sciuq_runner.physics.taylor import Order


def columns_of(problem: Problem, quantity: str) -> dict[str, list[int]]:
    """Which coordinates of a quantity's points each field takes; only fields that depend on no others."""
    names = problem.coordinates_of(quantity)
    return {
        name: [names.index(coordinate) for coordinate in spec.coordinates]
        for name, spec in problem.fields.items()
        if set(spec.coordinates) <= set(names)
    }


def derivatives_asked(problem: Problem, quantity: str) -> dict[str, dict[str, Order]]:
    """Run the physics of a quantity once on stand-ins, to learn which derivatives of the fields it needs."""
    fields = {name: Asked(name, spec.coordinates, spec.n_outputs) for name, spec in problem.fields.items()}
    ones = {name: torch.ones(1, 1, 1) for name in problem.scalars}
    point = torch.ones(1, len(problem.coordinates_of(quantity)))
    problem.observe(quantity, Unknowns(fields, ones), point)
    return {name: asked.orders for name, asked in fields.items()}
