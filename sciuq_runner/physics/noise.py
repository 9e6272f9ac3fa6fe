"""The noise of observations, as a model is to assume it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sciuq_runner.physics.observations import Array


@dataclass(frozen=True)
class InverseGamma:
    r"""Hyperprior of a variance: :math:`p(v) \propto v^{-(a+1)} \exp(-1/(b v))`, the paper's (h1, h2) or (h3, h4).

    ``shape`` is a, ``scale`` is b (so that 1/v is Gamma distributed with this shape and scale).
    """

    shape: float
    scale: float


@dataclass(frozen=True)
class Noise:
    r"""The noise of the observations of one quantity.

    - ``known``: the scale is given, one number or one per observation;
    - ``learned``: one scale is inferred together with theta under ``hyperprior`` (``scale`` starts it);
      quantities with the same ``group`` share it;
    - ``heteroscedastic``: the model predicts a scale at every point (``scale`` is its value at the start) by a further
      output of the network of the field ``group``; of the quantity's own field unless another is named;
    - ``exact``: there is no noise; ``scale`` is how far the model may be off, and no part of the predicted spread.

    ``family`` is the likelihood: Gaussian, or Student-t with ``degrees_of_freedom`` and the same scale.
    """

    kind: Literal["known", "learned", "heteroscedastic", "exact"] = "known"
    scale: float | Array = 1.0
    family: Literal["gaussian", "student_t"] = "gaussian"
    degrees_of_freedom: float = 5.0
    hyperprior: InverseGamma = InverseGamma(2.0, 10.0)
    group: str = ""

    @property
    def is_given(self) -> bool:
        """Whether the scale of the likelihood is a setting, with nothing to learn."""
        return self.kind in ("known", "exact")

    @property
    def variance_factor(self) -> float:
        r"""Variance of the noise over its squared scale: 1 for Gaussian, :math:`\nu/(\nu-2)` for Student-t."""
        nu = self.degrees_of_freedom
        return nu / (nu - 2) if self.family == "student_t" else 1.0
