"""The data of a problem: what is observed of every quantity, and what was observed earlier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sciuq_runner.physics.observations import Array, Observations


@dataclass(frozen=True)
class History:
    """Earlier realisations ``y[N, R]`` of one quantity at the points ``x[N, D]``, from which a prior can be learned.

    ``noise`` is the known scale of their noise; None if it is to be learned, a function of the place.
    """

    x: Array
    y: Array
    noise: float | None = 0.0


@dataclass(frozen=True)
class QuantityData:
    """Everything known about one quantity.

    ``train`` alone is seen by inference, ``validation`` only decides when to stop; ``calibration`` is for calibrators;
    ``test`` (noisy observations on a fixed grid) with its clean ``reference`` only for metrics and figures;
    not-a-number where neither is known. ``splits`` are masks of the test grid, or ``[N, R]`` of its points and
    functions. For a random field ``test`` and ``reference`` are unseen realisations, and ``sensed`` is what sensors
    placed as in training read of them, if it is one that the others follow from.
    """

    train: Observations
    test: Observations
    reference: Array
    splits: Mapping[str, Array]
    calibration: Observations
    validation: Observations
    coordinates: tuple[str, ...]
    noise_reference: Array | None = None  # true standard deviation of the noise on the test grid, where known
    clean_rl2e: bool = False  # whether rl2e is taken against the reference or the noisy test observations
    sensed: Observations | None = None
    statistic_of: str = ""  # the random field, if this is a statistic of one


Dataset = Mapping[str, QuantityData]
