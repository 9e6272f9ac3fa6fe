"""One unknown function and what an operator, learned before, makes of it (Section 4.3 of the paper)."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from annotated_types import Ge
from torch import Generator, Tensor

from sciuq_runner.errors import ConfigError
from sciuq_runner.models.base import BoundModel, Model, Pretraining
from sciuq_runner.models.deeponet import DeepONet
from sciuq_runner.models.operators import BoundOperatorNetwork, OperatorModel
from sciuq_runner.networks.base import Drop
from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.problem import (
    Array,
    Dataset,
    FieldSpec,
    History,
    Noise,
    Observations,
    Operator,
    OperatorPairs,
    Problem,
    ProblemKind,
)
from sciuq_runner.physics.standardisation import Standardisation, Units, mean_rl2e, pack, unpack
from sciuq_runner.schema import Count, Fraction, NonNegative, Positive
from sciuq_runner.seeds import stream, torch_stream
from sciuq_runner.training.autodiff import CompileChoice, worth_compiling
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import Trainer, cosine_cycles

OPERATOR_FORMAT = 2
"""Counts changes of the code after which an earlier product is of no use."""

N_POINTS = 400  # of every function in a step


@dataclass(frozen=True)
class OperatorTraining:
    """How an operator is trained before inference: Adam on mini-batches of ``batch`` functions, weight decay beside the
    mean squared error of standardised values, the learning rate falling along a half cosine.

    Its network gives these values (``space`` plain) or those of their logarithm (log, for positive outputs), out of
    which they are then made; ``auto`` is log where the problem says that outputs are positive, and the pairs have them
    everywhere and without noise.
    """

    n_steps: Count = 2500
    learning_rate: Positive = 2e-3
    final_rate: Positive = 2e-6
    weight_decay: NonNegative = 1e-7
    batch: Count = 32
    held_out: Fraction = 0.05
    space: Literal["auto", "plain", "log"] = "auto"
    compile: CompileChoice = "auto"


@dataclass(frozen=True)
class OperatorFieldModel(Model):
    r"""The input :math:`\lambda_\theta(x)` of an operator as a function of theta, its output
    :math:`u_\theta = G(\lambda_\theta)` by the operator.

    The ``operator`` is trained on the problem's pairs before inference and then stays as it is. Every sample of theta
    goes through each of several (``n_operators``), trained from different starting points: so the spread of u is that
    of both. Observations of u would have to choose between them, so that this is for observations of the input alone.
    ``pretrain_seed`` draws all that the operator starts from.
    """

    kind: ClassVar[ProblemKind] = "operator"

    operator: OperatorModel = field(default_factory=DeepONet)
    training: OperatorTraining = field(default_factory=OperatorTraining)
    n_operators: Count = 1
    pretrain_seed: Annotated[int, Ge(0)] = 0

    @abstractmethod
    def prior_model(self) -> Model:
        """The model of the input."""

    def bind(
        self, problem: Problem, noise: Mapping[str, Noise], observations: Mapping[str, Observations] | None = None
    ) -> BoundModel:
        operator = problem.operator
        if operator is None or operator.input not in problem.fields or operator.input not in noise:
            other_case = operator is not None and operator.input in problem.fields
            raise ConfigError(
                "model: there is no single function with readings here, to which an operator would be applied: "
                f"use model=deeponet{', or problem.case=noisy' if other_case else ' or fno'}."
            )
        if self.n_operators > 1 and observations is not None and len(observations[operator.output]):
            raise ConfigError(
                f"model.n_operators={self.n_operators} is for readings of {operator.input} alone: use 1, or no "
                f"readings of {operator.output}."
            )
        function = InputFunction(problem, operator)
        given = None if observations is None else {operator.input: observations[operator.input]}
        inner = self.prior_model().bind(function, function.noise, given)
        bound = BoundOperatorField(self, problem, operator, inner)
        if observations is not None:
            bound.refuse_space()
        return bound


@dataclass(frozen=True)
class InputFunction(Problem):
    """The input of an operator as a problem of its own, in standardised units."""

    whole: Problem
    of: Operator
    transform: Standardisation | None = None  # where it is known, and not to be made from data

    def __post_init__(self) -> None:
        known = self.whole.fields.get(self.of.input)
        if known is None:  # a function that is given, never inferred: its coordinates have no names
            assert self.transform is not None
            known = FieldSpec(tuple(f"x{i + 1}" for i in range(self.transform.x.shape[1])))
        object.__setattr__(self, "fields", {self.of.input: known})

    @property
    def noise(self) -> Mapping[str, Noise]:
        return {self.of.input: self.whole.noise.get(self.of.input, Noise("exact"))}

    @property
    def n_calibration_points(self) -> int:
        return self.whole.n_calibration_points

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        return unknowns[quantity](x)

    def dataset(self, rng: np.random.Generator) -> Dataset:
        raise AssertionError("the data are those of the whole problem")

    def transforms(self) -> Mapping[str, Standardisation]:
        return {self.of.input: self.transform or self.whole.transforms()[self.of.input]}

    def history(self, rng: np.random.Generator, n: int) -> Mapping[str, History]:
        name, past = self.of.input, self.whole.history(rng, n)
        if name not in past:
            return {}
        item = past[name]
        return {name: History(item.x, self.transforms()[name].apply(item.y, item.x), item.noise)}

    def noise_of_history(self) -> Mapping[str, float | None]:
        return {name: noise for name, noise in self.whole.noise_of_history().items() if name == self.of.input}


class BoundOperatorField(BoundModel):
    """Theta is that of the input's model."""

    def __init__(self, settings: OperatorFieldModel, problem: Problem, operator: Operator, inner: BoundModel) -> None:
        self.settings, self.problem, self.names, self.inner = settings, problem, operator, inner
        self.prior, self.n_params, self.n_starts = inner.prior, inner.n_params, inner.n_starts
        self.operator = BoundOperatorNetwork(settings.operator)
        self.beta: Tensor | None = None  # the weights of the operators, [E, K]
        self.units: dict[str, Units] = {}  # of the network and of the output, where these are unlike

    @cached_property
    def pairs(self) -> OperatorPairs:
        found = self.problem.pairs()
        assert found is not None
        return found

    @property
    def learns_logarithm(self) -> bool:
        """Whether the network gives the logarithm of the output."""
        space = self.settings.training.space
        return space == "log" or (space == "auto" and self.names.positive and not self.no_logarithm())

    def no_logarithm(self) -> str:
        """Why it cannot, in a few words. Between places units are interpolated, and those of a logarithm may be too
        steep for that where places of the pairs are fewer than those of the output."""
        name, pairs = self.names.output, self.pairs
        known = self.problem.transforms()[name]
        if known.log:
            return f"{name} is a logarithm already"
        if not pairs.is_clean or not (pairs.y > 0).all():
            return f"{name} is not positive in all pairs, or noisy"
        return "" if np.array_equal(pairs.x, known.x) else f"{name} of the pairs is not read everywhere"

    def refuse_space(self) -> None:
        """Raise :class:`ConfigError` where a logarithm is asked for that cannot be learned."""
        reason = self.no_logarithm() if self.settings.training.space == "log" else ""
        if reason:
            raise ConfigError(f"model.training.space=log: {reason}: use plain.")

    def observe(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        if quantity == self.names.input:
            return self.inner.observe(theta, quantity, x)
        assert self.beta is not None, "the operator has not been trained yet"
        sensors, beta = self.operator.places["sensors"].to(theta), self.beta.to(theta)
        functions = self.inner.observe(theta, self.names.input, sensors)[..., 0]
        return self.operate(beta, x, functions).permute(2, 1, 0)

    def operate(self, beta: Tensor, x: Tensor, functions: Tensor) -> Tensor:
        """What the operators make of functions ``[R, S]`` at ``x[N, D]``, in standardised units, ``[E, N, R]``."""
        values = self.operator.network(beta, x, functions)
        if not self.units:
            return values
        (centre, scale), (new_centre, new_scale) = (self.units[name](x) for name in (NETWORK_UNITS, OUTPUT_UNITS))
        return ((centre + scale * values).exp() - new_centre) / new_scale

    def alternatives(self, quantity: str) -> int:
        return 1 if quantity == self.names.input or self.beta is None else len(self.beta)

    def noise_scale(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        return self.inner.noise_scale(theta, quantity, x)

    def is_direct(self, quantity: str) -> bool:
        return quantity == self.names.input and self.inner.is_direct(quantity)

    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor | None:
        return self.inner.dropout_masks(n, rate, kind, generator)

    def last_layer(self) -> Tensor | None:
        return self.inner.last_layer()

    def blocks(self) -> list[tuple[int, int]]:
        return self.inner.blocks()

    def init(self, n_members: int, generator: Generator) -> Tensor:
        return self.inner.init(n_members, generator)

    def pretraining(self) -> Sequence[Pretraining]:
        return [OperatorPretraining(self), *self.inner.pretraining()]

    def state(self) -> dict[str, Tensor]:
        assert self.beta is not None
        inner = {f"{INNER_PREFIX}{name}": value for name, value in self.inner.state().items()}
        return {"operator": self.beta, **self.operator_state(), **inner}

    def operator_state(self) -> dict[str, Tensor]:
        """What the operator needs beside its weights."""
        units = pack({name: unit.known for name, unit in self.units.items()})
        return {**self.operator.state(), **{f"{UNITS_PREFIX}{name}": value for name, value in units.items()}}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.load_operator(state)
        inner = {
            name.removeprefix(INNER_PREFIX): value for name, value in state.items() if name.startswith(INNER_PREFIX)
        }
        self.inner.load_state(inner)

    def load_operator(self, state: Mapping[str, Tensor]) -> None:
        """The operator alone."""
        units = {
            name.removeprefix(UNITS_PREFIX): value for name, value in state.items() if name.startswith(UNITS_PREFIX)
        }
        self.operator.load_state(state)
        self.units = {name: Units(known) for name, known in unpack(units)[0].items()}
        self.beta = state["operator"]


INNER_PREFIX = "input."
"""Begins the names of what the input's model holds."""

UNITS_PREFIX, NETWORK_UNITS, OUTPUT_UNITS = "units.", "network", "output"
"""Begins the names of what units an operator holds, and whose these are."""


class OperatorPretraining(Pretraining):
    """Learn the operator from pairs."""

    def __init__(self, model: BoundOperatorField) -> None:
        self.model = model
        self.trainer: Trainer | None = None
        pairs, settings = model.pairs, model.settings
        transforms = model.problem.transforms()
        self.sensors = transforms[model.names.input].x
        self.output = transforms[model.names.output]
        self.inputs = torch.tensor(transforms[model.names.input].apply(pairs.inputs.T, self.sensors).T).float()
        learned = Standardisation.fit(pairs.x, pairs.y, log=True) if model.learns_logarithm else self.output
        self.units = {} if learned is self.output else {NETWORK_UNITS: Units(learned), OUTPUT_UNITS: Units(self.output)}
        self.x, self.y = torch.tensor(pairs.x).float(), torch.tensor(learned.apply(pairs.y, pairs.x)).float()
        functions = np.arange(len(self.inputs)).reshape(pairs.positions, -1)  # one in all its positions, or not at all
        order = stream(settings.pretrain_seed, "held-out pairs").permutation(functions.shape[1])
        n_held = max(1, round(settings.training.held_out * len(order)))
        parts = order[:n_held], order[n_held:]
        self.held, self.seen = (torch.tensor(functions[:, part].ravel()) for part in parts)

    def key(self) -> str:
        settings, pairs = self.model.settings, self.model.pairs
        same = {"compile", "space"}  # the first changes nothing, the second what is learned, which counts below
        training = {name: value for name, value in asdict(settings.training).items() if name not in same}
        parts = [OPERATOR_FORMAT, type(settings.operator).__name__, asdict(settings.operator), training]  # type: ignore[call-overload]
        found = hashlib.sha256(json.dumps([*parts, settings.n_operators, settings.pretrain_seed]).encode())
        units = [self.output.centre, self.output.scale] if self.units else []  # else y is in them
        for array in (self.sensors, pairs.x, self.y.numpy(), self.inputs.numpy(), *units):
            found.update(np.ascontiguousarray(array, np.float64).tobytes())
        return found.hexdigest()

    def run(self, loop: Loop) -> dict[str, Tensor]:
        settings, training = self.model.settings, self.model.settings.training
        random = torch_stream(settings.pretrain_seed, "operator")
        bound = self.model.operator
        bound.place(self.sensors, self.model.pairs.x.min(0), self.model.pairs.x.max(0))
        self.model.units = self.units
        n_points = min(N_POINTS, len(self.x))

        def inputs(n: int) -> tuple[Tensor, ...]:
            points = [torch.randperm(len(self.x), generator=random)[:n_points] for _ in range(n)]
            chosen = [self.seen[torch.randperm(len(self.seen), generator=random)[: training.batch]] for _ in range(n)]
            return torch.stack(points), torch.stack(chosen)

        def loss(beta: Tensor, points: Tensor, chosen: Tensor) -> Tensor:
            wanted = self.y.index_select(0, points).index_select(1, chosen)
            misfit = bound.network(beta, self.x[points], self.inputs[chosen]) - wanted
            return misfit.square().mean((1, 2)) + training.weight_decay * beta.square().sum(1)

        start = bound.init(settings.n_operators, random).float()
        compiled = worth_compiling(training.compile, training.n_steps)
        self.trainer = Trainer(loss, start, random, loop, compiled, inputs)
        rate = cosine_cycles(training.n_steps, 1, training.learning_rate, training.final_rate)
        return {"operator": self.trainer.run(training.n_steps, rate), **self.model.operator_state()}

    def load(self, product: Mapping[str, Tensor]) -> None:
        self.model.load_operator(product)

    def kept(self) -> dict[str, Tensor]:
        if self.trainer is None or not int(self.trainer.state["count"]):
            return {}
        return {"operator": self.trainer.theta, **self.model.operator_state()}

    def judge(self) -> tuple[dict[str, float], Mapping[str, Array]]:
        """Relative errors for pairs that did not train it, in units of the quantity and standardised."""
        beta = self.model.beta
        assert beta is not None
        with torch.no_grad():
            found = self.model.operate(beta.float(), self.x, self.inputs[self.held]).mean(0).double()
        x = self.model.pairs.x
        truth = torch.tensor(self.output.apply(self.model.pairs.y[:, self.held.numpy()], x))
        original = (self.output.undo(part, x)[0].numpy() for part in (found, truth))
        numbers = {"operator_rl2e": mean_rl2e(*original)}
        numbers["operator_rl2e_standardised"] = mean_rl2e(found.numpy(), truth.numpy())
        return numbers, {}
