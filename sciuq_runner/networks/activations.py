"""Activation functions with their derivatives of any order, which Taylor-mode propagation asks for.

Each takes ``z`` and an order n, and gives ``[phi(z), phi'(z), ..., phi^(n)(z)]``, None where identically zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

Derivatives = list[Tensor | None]
Activation = Literal["tanh", "sin", "siren", "relu", "leaky_relu", "sigmoid", "softplus", "gelu"]

SIREN_FREQUENCY = 30.0
"""The factor omega of sin(omega z) in the networks of Sitzmann et al. (2020)."""


def tanh(z: Tensor, order: int) -> Derivatives:
    """From y' = 1 - y y."""
    quick = torch.compiler.is_compiling() and z.dtype == torch.float32 and z.device.type == "cpu"
    # The vectorised tanh of compiled code takes three times as long as its sigmoid, which rounds to 1e-7 of unity.
    found = [2 * torch.sigmoid(2 * z) - 1 if quick else torch.tanh(z)]
    for n in range(order):
        found.append(1 - found[0] * found[0] if n == 0 else _minus_square(found, n))
    return [*found]


def sigmoid(z: Tensor, order: int) -> Derivatives:
    """From y' = y - y y."""
    found = [torch.sigmoid(z)]
    for n in range(order):
        found.append(found[n] + _minus_square(found, n))
    return [*found]


def _minus_square(found: list[Tensor], n: int) -> Tensor:
    """The n-th derivative of -y y; pairs of equal products are taken once."""
    total = -2 * (found[0] * found[n]) if n else -(found[0] * found[0])
    for k in range(1, n // 2 + 1):
        weight = math.comb(n, k) * (1 if 2 * k == n else 2)
        total = total - weight * (found[k] * found[n - k])
    return total


def sin(z: Tensor, order: int) -> Derivatives:
    return _sine(z, order, 1.0)


def siren(z: Tensor, order: int) -> Derivatives:
    return _sine(z, order, SIREN_FREQUENCY)


def _sine(z: Tensor, order: int, frequency: float) -> Derivatives:
    angle = z if frequency == 1 else frequency * z
    waves = [torch.sin(angle)]
    if order:
        waves.append(torch.cos(angle))
    factors = [(1 if n % 4 < 2 else -1) * frequency**n for n in range(order + 1)]
    return [waves[n % 2] if factor == 1 else factor * waves[n % 2] for n, factor in enumerate(factors)]


def softplus(z: Tensor, order: int) -> Derivatives:
    return [torch.nn.functional.softplus(z), *(sigmoid(z, order - 1) if order else [])]


def gelu(z: Tensor, order: int) -> Derivatives:
    """z times the normal distribution function, whose derivatives are Hermite functions."""
    found: Derivatives = [torch.nn.functional.gelu(z)]
    if order:
        cdf = [0.5 * (1 + torch.erf(z / math.sqrt(2)))]
        cdf.append(torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
        for n in range(1, order):
            cdf.append(-(z * cdf[n] + (n - 1) * cdf[n - 1] if n > 1 else z * cdf[n]))
        found += [z * cdf[n] + n * cdf[n - 1] for n in range(1, order + 1)]
    return found


def relu(z: Tensor, order: int) -> Derivatives:
    return _piecewise_linear(torch.relu(z), (z > 0).to(z), order) if order else [torch.relu(z)]


def leaky_relu(z: Tensor, order: int) -> Derivatives:
    slope = torch.where(z > 0, torch.ones_like(z), torch.full_like(z, 0.01))
    return _piecewise_linear(torch.nn.functional.leaky_relu(z), slope, order)


def _piecewise_linear(value: Tensor, slope: Tensor, order: int) -> Derivatives:
    return [value, slope, *[None] * (order - 1)][: order + 1]


ACTIVATIONS: dict[str, Callable[[Tensor, int], Derivatives]] = {
    "tanh": tanh,
    "sin": sin,
    "siren": siren,
    "relu": relu,
    "leaky_relu": leaky_relu,
    "sigmoid": sigmoid,
    "softplus": softplus,
    "gelu": gelu,
}
assert set(ACTIVATIONS) == set(get_args(Activation))
