"""What every batched network offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
from torch import Generator, Tensor

from sciuq_runner.physics.taylor import Order, gather, terms_of

Drop = Literal["weights", "units"]


def keep(shape: tuple[int, ...], rate: float, generator: Generator) -> Tensor:
    """Zeros with probability ``rate``, and what keeps the mean at one elsewhere."""
    return (torch.rand(shape, generator=generator, dtype=torch.float64) >= rate).double() / (1 - rate)


class Network(ABC):
    r"""A function :math:`u_\theta(x)` of a flat parameter vector, evaluated for many :math:`\theta` at once.

    Shapes:
        ``theta`` is ``[M, K]`` with one member per row; ``x`` is ``[N, D]`` (shared by all members) or
        ``[M, N, D]``; the value is ``[M, N, D_out]``.
    """

    n_inputs: int
    n_outputs: int
    n_params: int

    @abstractmethod
    def __call__(self, theta: Tensor, x: Tensor) -> Tensor: ...

    def derivatives(self, theta: Tensor, x: Tensor, orders: Sequence[Order]) -> list[Tensor]:
        """Derivatives of the value at every point by nested forward-mode differentiation, ``[M, N, D_out]`` each.

        ``orders`` says how often to derive along each input: (0, 0) is the value, (1, 2) one time and two places; or
        which sum of such to take.
        """
        function = partial(self, theta)
        found: dict[Order, Tensor] = {}
        for index in dict.fromkeys(index for order in orders for index, _ in terms_of(order)):
            directions = [i for i, n in enumerate(index) for _ in range(n)]
            found[index] = derive(function, directions)(x)
        return gather(orders, found)

    @abstractmethod
    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor:
        """Factors ``[n, K]`` of theta that drop with probability ``rate``, scaled to keep the mean; biases stay.

        ``weights`` drops entries of all weight matrices one by one; ``units`` drops hidden units, by setting the
        weights that lead away from them to zero.
        """

    @abstractmethod
    def last_layer(self) -> Tensor:
        """A mask ``[K]`` of the parameters of the last layer."""

    @abstractmethod
    def blocks(self) -> list[tuple[int, int]]:
        """Theta as a row of matrices of these shapes, layer by layer: what a Kronecker-factored curvature is of."""

    @abstractmethod
    def init(self, n_members: int, generator: Generator) -> Tensor:
        """Draw ``n_members`` independent starting points, ``[n_members, K]`` in float64 on the CPU."""


def derive(function: Callable[[Tensor], Tensor], directions: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """The derivative of a function of points along these coordinates, one after another."""
    if not directions:
        return function
    inner = derive(function, directions[1:])

    def outer(x: Tensor) -> Tensor:
        unit = torch.zeros_like(x)
        unit[..., directions[0]] = 1
        tangent: Tensor = torch.func.jvp(inner, (x,), (unit,))[1]
        return tangent

    return outer
