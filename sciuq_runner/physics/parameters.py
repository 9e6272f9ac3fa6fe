"""Parameters of an equation, with their priors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Parameter:
    r"""One unknown number and its prior, written as a function of a standard normal variable z.

    - ``normal``: :math:`a + b z`;
    - ``lognormal``: :math:`a\, e^{b z}`, positive with median a and a spread of b in its logarithm;
    - ``uniform``: between a and b.

    So every method moves in z, whose prior is N(0, 1) whatever the scale of the weights is.
    """

    prior: Literal["normal", "lognormal", "uniform"]
    a: float
    b: float
    reference: float | None = None  # the truth, where it is known
    start: float | None = None  # where optimisers and chains begin; the prior's median unless given

    def value(self, z: Tensor) -> Tensor:
        """The parameter for standard normal z."""
        match self.prior:
            case "normal":
                return self.a + self.b * z
            case "lognormal":
                return self.a * torch.exp(self.b * z)
            case "uniform":
                share: Tensor = torch.special.ndtr(z)
                return self.a + (self.b - self.a) * share

    def standard(self, value: float) -> float:
        """The z of a value."""
        match self.prior:
            case "normal":
                return (value - self.a) / self.b
            case "lognormal":
                return math.log(value / self.a) / self.b
            case "uniform":
                return float(torch.special.ndtri(torch.tensor((value - self.a) / (self.b - self.a)).double()))
