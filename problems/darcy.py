"""Flow through random porous media: learning the map from conductivity to head (Section 6.5 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge
from scipy.interpolate import RBFInterpolator
from torch import Tensor

from sciuq_runner.physics.data_cache import cached
from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.problem import (
    Array,
    Dataset,
    FieldSpec,
    History,
    Noise,
    Operator,
    OperatorPairs,
    PointObservations,
    Problem,
    QuantityData,
)
from sciuq_runner.physics.standardisation import Standardisation
from sciuq_runner.schema import Count, NonNegative, Positive
from sciuq_runner.seeds import stream

from .darcy_flow import Flow, Grid, KarhunenLoeve

SOURCE = 50.0
DATA_FORMAT = 1
"""Counts changes of the code after which kept data are of no use."""

LOG_CONDUCTIVITY, HEAD = "log_lambda", "u"
N_READ = 20  # places where a new conductivity is read, unless another number is set


@dataclass(frozen=True)
class Darcy(Problem):
    r"""Steady flow

    .. math::
        -\nabla \cdot (\lambda \nabla u) = 50, \quad u = 1 \text{ at } x = 0, \quad u = 0 \text{ at } x = 1, \quad
        \partial_n u = 0 \text{ at } y = 0, 1

    through a medium of random conductivity :math:`\lambda`, whose logarithm is a Gaussian process with correlation
    length ``length``. From ``n_pairs`` pairs of :math:`\log\lambda` and u on a grid of ``n_grid`` by ``n_grid`` cells
    the operator between them is learned. Both are standardised: every value less its mean and over its standard
    deviation among the pairs, at its place (``standardise=pointwise``) or everywhere (``shared``); ``target=log_u``
    takes the logarithm of u before. All that is predicted is in the original units of u and :math:`\log\lambda`.
    Heads of the pairs are read in every ``stride``-th cell along both sides.
    Turning a medium over, from y to 1 - y, turns the flow over: with ``mirror`` every pair that was solved is learned
    from in both positions. Not if its heads have noise: an image with the same noise is no new observation, and to
    count it as one would make posteriors too narrow.

    - ``clean``: u for new conductivities known on the whole grid, ``n_test`` of each of ``test_lengths``, or at
      ``n_lambda`` random places and interpolated, as are those held out for calibration and validation. Pairs may have
      noise in u (``train_noise``, in units of the standard deviation of u), else the model may be off by ``tolerance``.
    - ``noisy``: one new field of correlation length ``new_length`` has been read at ``n_lambda`` places, and its u at
      ``n_u``, with noise of scale ``noise_scale`` in standardised units; wanted are both everywhere. The operator sees
      a conductivity in every ``input_stride``-th cell along both sides, which spares samplers most values of the prior;
      units of observations between these cells are interpolated.

    ``data_seed`` draws pairs and test functions, ``seed`` the new field and the noise; so what is learned from the
    pairs serves all seeds.
    """

    case: Literal["clean", "noisy"] = "clean"
    n_grid: Annotated[int, Ge(4)] = 40
    n_terms: Count = 100
    length: Positive = 0.25
    n_pairs: Annotated[int, Ge(2)] = 1000
    mirror: bool = True
    data_seed: Annotated[int, Ge(0)] = 0
    target: Literal["u", "log_u"] = "u"
    standardise: Literal["pointwise", "shared"] = "pointwise"
    tolerance: Positive = 0.05
    train_noise: NonNegative = 0.0
    stride: Count = 1
    input_stride: Count = 1
    test_lengths: list[Positive] = field(default_factory=lambda: [0.25, 0.15])
    n_test: Count = 100
    n_calibration: Annotated[int, Ge(0)] = 50
    n_validation: Annotated[int, Ge(0)] = 50
    n_lambda: Count | None = None
    n_u: Annotated[int, Ge(0)] = 10
    new_length: Positive = 0.25
    noise_scale: Positive = 0.1

    direct: ClassVar[tuple[str, ...]] = (LOG_CONDUCTIVITY,)
    split_label: ClassVar[str] = "correlation length"
    fields: ClassVar[Mapping[str, FieldSpec]] = {LOG_CONDUCTIVITY: FieldSpec(("x", "y"))}  # type: ignore[misc]

    def __post_init__(self) -> None:
        if self.n_terms > self.n_grid**2:
            raise ValueError(f"n_terms={self.n_terms} is more than the {self.n_grid**2} values of a field.")
        if self.case == "clean" and not self.test_lengths:
            raise ValueError("test_lengths should name at least one correlation length.")
        if self.case == "clean" and self.input_stride > 1:
            raise ValueError(
                f"input_stride={self.input_stride} is for noisy: in clean, operators see the whole grid; use 1."
            )
        if self.input_stride >= self.n_grid:
            raise ValueError(
                f"input_stride={self.input_stride} leaves one cell of {self.n_grid} along a side: use less."
            )
        cells, least = self.n_grid**2, 3 if self.case == "clean" else 1
        left = cells - (self.n_calibration + self.n_validation if self.case == "noisy" else 0)
        if self.n_lambda is not None and not least <= self.n_lambda <= left:
            raise ValueError(
                f"n_lambda={self.n_lambda} should be between {least} and {left}, the cells left to be read."
            )
        if self.case == "noisy" and max(self.n_u, self.n_lambda or N_READ) > left:
            raise ValueError(
                f"n_u, n_lambda, n_calibration and n_validation take more than the {cells} cells there are."
            )

    @property
    def grid(self) -> Grid:
        return Grid(self.n_grid)

    @property
    def operator(self) -> Operator:
        return Operator(LOG_CONDUCTIVITY, HEAD, positive=True)  # by the maximum principle

    @property
    def n_calibration_points(self) -> int:
        return self.n_calibration

    @property
    def noise(self) -> Mapping[str, Noise]:
        if self.case == "noisy":
            return {LOG_CONDUCTIVITY: Noise("known", self.noise_scale), HEAD: Noise("known", self.noise_scale)}
        return {HEAD: Noise("known", self.train_noise) if self.train_noise else Noise("exact", self.tolerance)}

    def coordinates_of(self, quantity: str) -> tuple[str, ...]:
        return ("x", "y")

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        assert quantity == LOG_CONDUCTIVITY, "what follows from it is the operator's"
        return unknowns[LOG_CONDUCTIVITY](x)

    # Fields and what flows through them

    def fields_of(self, length: float, n: int, use: str) -> tuple[Array, Array]:
        """Logarithms of conductivities of some correlation length with their heads, ``[S, n]`` each; kept on disk."""
        settings: dict[str, object] = {
            "n_grid": self.n_grid,
            "n_terms": self.n_terms,
            "length": length,
            "n": n,
            "seed": self.data_seed,
        }
        settings |= {"use": use, "problem": "darcy", "format": DATA_FORMAT}

        def make() -> dict[str, Array]:
            found = self.draw(length, n, stream(self.data_seed, f"{use} {length:g}"))
            return dict(zip((LOG_CONDUCTIVITY, HEAD), found, strict=True))

        found = cached(settings, make)
        return found[LOG_CONDUCTIVITY], found[HEAD]

    def draw(self, length: float, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        logarithm = KarhunenLoeve(self.grid, length, self.n_terms).draw(n, rng)
        return logarithm, Flow(self.grid).solve(np.exp(logarithm), SOURCE)

    @cached_property
    def solved(self) -> tuple[Array, Array]:
        return self.fields_of(self.length, self.n_pairs, "pairs")

    @property
    def known(self) -> tuple[Array, Array]:
        """The pairs from which the operator is learned, without noise."""
        logarithm, u = self.solved
        return self.both_ways(logarithm), self.both_ways(u)

    @property
    def positions(self) -> int:
        """In how many positions a pair is learned from."""
        return 2 if self.mirror and not self.train_noise else 1

    def both_ways(self, values: Array) -> Array:
        """Fields in columns, ``[S, n]``, followed by their mirror images if these count."""
        if self.positions == 1:
            return values
        image = self.grid.square(values)[:, :, ::-1].reshape(values.shape[::-1]).T
        return np.concatenate([values, image], axis=1)

    def transforms(self) -> Mapping[str, Standardisation]:
        x, shared = self.grid.points, self.standardise == "shared"
        (logarithm, u), seen = self.known, self.sensors
        return {
            LOG_CONDUCTIVITY: Standardisation.fit(x[seen], logarithm[seen], False, shared),
            HEAD: Standardisation.fit(x, u, self.target == "log_u", shared),
        }

    def pairs(self) -> OperatorPairs:
        logarithm, u = self.solved
        if self.train_noise:
            u = self.with_noise(u, self.transforms()[HEAD], self.train_noise, stream(self.data_seed, "noise"))
        read = self.cells(self.stride)
        inputs = self.both_ways(logarithm)[self.sensors].T
        x, values, noisy = self.grid.points[read], self.both_ways(u)[read], self.train_noise > 0
        return OperatorPairs(x, values, inputs, positions=self.positions, noisy=noisy)

    @property
    def sensors(self) -> Array:
        """The cells in which the operator sees a conductivity."""
        return self.cells(self.input_stride)

    def cells(self, stride: int) -> Array:
        """Every so many cells along both sides."""
        return np.arange(self.n_grid**2).reshape(self.n_grid, -1)[::stride, ::stride].ravel()

    def history(self, rng: np.random.Generator, n: int) -> Mapping[str, History]:
        """At most all that were solved: a mirror image of one that judges a prior must not train it."""
        every = self.cells(2)
        return {LOG_CONDUCTIVITY: History(self.grid.points[every], self.solved[0][every, :n])}

    def noise_of_history(self) -> Mapping[str, float | None]:
        return {LOG_CONDUCTIVITY: 0.0}

    def with_noise(self, values: Array, transform: Standardisation, scale: float, rng: np.random.Generator) -> Array:
        """Values on the grid with noise in standardised units."""
        x = self.grid.points
        centre, unit = transform.at(x)
        found: Array = centre + unit * (transform.apply(values, x) + scale * rng.standard_normal(values.shape))
        return np.exp(found) if transform.log else found

    def imbalance(self, functions: Array, x: Array, values: Array) -> Array | None:
        """Root mean square of what is missing in the balance of the cells, relative to the source."""
        if x.shape != self.grid.points.shape or not np.allclose(x, self.grid.points):
            return None
        missing = Flow(self.grid).residual(np.exp(functions.T), values, SOURCE)
        found: Array = np.sqrt(np.square(missing).mean(0)) / SOURCE
        return found

    # Data

    @property
    def split_values(self) -> Mapping[str, float]:
        return {self.split_name(length): length for length in self.test_lengths} if self.case == "clean" else {}

    def dataset(self, rng: np.random.Generator) -> Dataset:
        return self.new_functions(rng) if self.case == "clean" else self.new_field(rng)

    def new_functions(self, rng: np.random.Generator) -> Dataset:
        """Pairs to learn from, and unseen conductivities."""
        x, train = self.grid.points, self.pairs()
        tests = [self.fields_of(length, self.n_test, "test") for length in self.test_lengths]
        inputs, u = (np.concatenate(parts, axis=1) for parts in zip(*tests, strict=True))
        held, validation = (
            self.fields_of(self.length, n, use) if n else (np.empty((len(x), 0)),) * 2
            for n, use in ((self.n_calibration, "calibration"), (self.n_validation, "validation"))
        )
        if self.n_lambda is not None:
            places = rng.permutation(len(x))[: self.n_lambda]
            inputs = self.interpolated(inputs, places)
            held, validation = ((self.interpolated(part[0], places), part[1]) for part in (held, validation))
        lengths = np.repeat(self.test_lengths, self.n_test)
        order = sorted(self.test_lengths, key=lambda length: length != self.length)  # the known one first
        return {
            HEAD: QuantityData(
                train=train,
                test=OperatorPairs(x, u, inputs.T),
                reference=u,
                splits={self.split_name(length): np.broadcast_to(lengths == length, u.shape) for length in order},
                calibration=self.functions(*held),
                validation=self.functions(*validation),
                coordinates=("x", "y"),
                clean_rl2e=True,
            )
        }

    def functions(self, inputs: Array, u: Array) -> OperatorPairs:
        if not inputs.shape[1]:
            return OperatorPairs.none(2)
        return OperatorPairs(self.grid.points, u, inputs.T)

    def split_name(self, length: float) -> str:
        """``id`` for the correlation length of the pairs, ``ood`` for the other one, or each of others."""
        if length == self.length:
            return "id"
        others = [item for item in self.test_lengths if item != self.length]
        return "ood" if len(others) == 1 else f"ood_{length:g}"

    def interpolated(self, inputs: Array, places: Array) -> Array:
        """Fields ``[S, n]`` rebuilt from their values at these places of the grid."""
        if not inputs.shape[1]:
            return inputs
        x = self.grid.points
        found: Array = RBFInterpolator(x[places], inputs[places], kernel="thin_plate_spline")(x)
        return found

    def new_field(self, rng: np.random.Generator) -> Dataset:
        """One unseen conductivity with its head, and noisy observations of both."""
        x, transforms = self.grid.points, self.transforms()
        values = dict(zip((LOG_CONDUCTIVITY, HEAD), self.draw(self.new_length, 1, rng), strict=True))
        counts = {LOG_CONDUCTIVITY: N_READ if self.n_lambda is None else self.n_lambda, HEAD: self.n_u}
        split = "id" if self.new_length == self.length else "ood"
        found = {}
        for name, truth in values.items():
            read, tested = (self.with_noise(truth, transforms[name], self.noise_scale, rng) for _ in range(2))
            places = rng.permutation(len(x))
            ends = np.cumsum([counts[name], self.n_calibration, self.n_validation])
            train, held, validation = (
                PointObservations(x[part], read[part]) for part in np.split(places[: ends[-1]], ends[:-1])
            )
            found[name] = QuantityData(
                train=train,
                test=PointObservations(x, tested),
                reference=truth,
                splits={split: np.ones(len(x), dtype=bool)},
                calibration=held,
                validation=validation,
                coordinates=("x", "y"),
                clean_rl2e=True,
            )
        return found
