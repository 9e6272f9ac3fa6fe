"""The target log p(theta | D): where a problem, its data and a model meet, and all that a method sees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Generator, Tensor

from sciuq_runner.errors import RunError
from sciuq_runner.models.base import BoundModel
from sciuq_runner.physics.expressions import REWRITE
from sciuq_runner.physics.noise import InverseGamma, Noise
from sciuq_runner.physics.observations import Array, Observations
from sciuq_runner.physics.problem import Operator
from sciuq_runner.physics.standardisation import Transforms
from sciuq_runner.target.batches import Batch, Batches
from sciuq_runner.target.terms import Term, log_density, operate, terms_of


class Target:
    r"""The tempered posterior

    .. math::
        \log p_\tau(\theta, \sigma \mid D) = \frac1\tau \Big[ \sum_q \log p(D_q \mid \theta, \sigma_q)
        + \log p(\theta \mid \sigma_\theta) + \log p(\sigma_q) + \log p(\sigma_\theta) \Big] + \text{const}

    over a batch of flat vectors. A vector holds the model's weights, then :math:`\log\sigma` of every learned
    noise scale, then :math:`\log\sigma_\theta` if the prior scale is learned: all unconstrained, so that every
    sampler and optimiser can move in it. ``n_weights`` is the length of the first part.

    Shapes:
        ``theta`` is ``[M, size]``; every density is ``[M]``.
    """

    def __init__(
        self,
        model: BoundModel,
        noise: Mapping[str, Noise],
        observations: Mapping[str, Observations],
        validation: Mapping[str, Observations] | None = None,
        *,
        temperature: float = 1.0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        transforms: Transforms | None = None,
        operator: Operator | None = None,
    ) -> None:
        self.transforms, self.operator = transforms or {}, operator
        self.model, self.temperature, self.dtype, self.device = (
            model,
            temperature,
            dtype,
            torch.device(device),
        )
        conditions = model.conditions()
        self.noise = {**noise, **{name: known for name, (_, known) in conditions.items()}}
        learned = [noise.group or name for name, noise in self.noise.items() if noise.kind == "learned"]
        self.noise_groups = list(dict.fromkeys(learned))
        self.learns_prior = model.prior.hyperprior is not None
        self.n_weights = model.n_params
        self.size = self.n_weights + len(self.noise_groups) + self.learns_prior
        self.terms = self.make_terms({**observations, **{name: zeros for name, (zeros, _) in conditions.items()}})
        self.validation_terms = self.make_terms(validation or {})
        self.batches = Batches(self.terms, self.device, model.is_pointwise)
        self.n_observations = self.batches.n_observations

    def make_terms(self, observations: Mapping[str, Observations]) -> list[Term]:
        """Likelihood terms of some observations; repeated ones give two, see :class:`RepeatedObservations`."""
        terms: list[Term] = []
        for name, data in observations.items():
            if not len(data.y):
                continue
            noise = self.noise[name]
            values = self.transforms[name].apply(data.y, data.x) if name in self.transforms else data.y
            x, y, scale = (self.tensor(part) for part in (data.x, values[: data.count], noise.scale))
            term = Term(name, x, y, noise, scale, self.slot(name))
            terms += terms_of(data, term, self.tensor, self.standardised_inputs)
        return terms

    def standardised_inputs(self, inputs: Array) -> Tensor:
        """Functions ``[R, S]`` at the sensors of the operator, in the units in which it is learned."""
        assert self.operator is not None
        transform = self.transforms[self.operator.input]
        return self.tensor(transform.apply(inputs.T, transform.x).T)

    def tensor(self, values: object) -> Tensor:
        """Put numbers where the target lives, in its precision."""
        tensor = values if isinstance(values, Tensor) else torch.tensor(np.asarray(values))
        return tensor.to(self.device, self.dtype)

    def init(self, n_members: int, generator: Generator) -> Tensor:
        """Starting points ``[n_members, size]``: the model's own, and the scales that the settings name.

        A model may ask for several to choose from: each member then starts at the likeliest of its own.
        """
        start = dict(zip(self.noise_groups, [0.0] * len(self.noise_groups), strict=True))
        for name, noise in self.noise.items():
            if noise.kind == "learned":
                start[noise.group or name] = math.log(float(noise.scale))
        scales = [*start.values(), *([math.log(self.model.prior.scale)] if self.learns_prior else [])]
        choices = 1 if self.model.inference == "prior" else self.model.n_starts
        extra = torch.tensor(scales, dtype=torch.float64).expand(n_members * choices, -1)
        found = self.tensor(torch.cat([self.model.init(n_members * choices, generator), extra], dim=1))
        return found if choices == 1 else torch.stack([self.likeliest(part) for part in found.split(choices)])

    def init_chains(self, n_chains: int, generator: Generator, batch_size: int | None = None) -> Tensor:
        """Starting points as :meth:`init` gives them, where the density is known to be a number; of a mini-batch, where
        methods see no more. It has random numbers of its own: those of the method stay as they are."""
        theta = self.init(n_chains, generator)
        batch = None if batch_size is None else self.batches.draw(batch_size, Generator().manual_seed(0))
        with torch.no_grad():
            value = self.log_density(theta, batch)
        if not bool(torch.isfinite(value).all()):
            raise no_start(value, self.undefined(theta))
        return theta

    @torch.no_grad()
    def likeliest(self, theta: Tensor) -> Tensor:
        """The member with the highest density, ``[size]``."""
        return theta[self.log_density(theta).nan_to_num(-math.inf).argmax()]

    def slot(self, quantity: str) -> int | None:
        """Where the learned noise scale of a quantity sits among the others."""
        noise = self.noise[quantity]
        return self.noise_groups.index(noise.group or quantity) if noise.kind == "learned" else None

    # The parts of a flat vector

    def weights(self, theta: Tensor) -> Tensor:
        """What the model's functions depend on, ``[M, n_weights]``."""
        return theta[:, : self.n_weights]

    def numbers(self, theta: Tensor) -> Tensor:
        """Unknown numbers of the problem and logarithms of learned scales, ``[M, n]``."""
        return theta[:, self.n_weights - self.model.n_scalars :]

    def log_noise_scales(self, theta: Tensor) -> Tensor:
        """Log of the learned noise scales, ``[M, len(noise_groups)]``."""
        return theta[:, self.n_weights : self.n_weights + len(self.noise_groups)]

    def prior_scale(self, theta: Tensor) -> Tensor:
        """The standard deviation of the weights under the prior, ``[M]``."""
        if self.learns_prior:
            return theta[:, -1].exp()
        return torch.full_like(theta[:, 0], self.model.prior.scale)

    def prior_scales(self, theta: Tensor) -> Tensor:
        """The same of every weight, ``[M, n_weights]``; one for the unknown numbers of the problem."""
        n_scalars = self.model.n_scalars
        scale = self.prior_scale(theta)[:, None].expand(-1, self.n_weights - n_scalars)
        return torch.cat([scale, torch.ones_like(theta[:, :n_scalars])], dim=1) if n_scalars else scale

    def noise_scale(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        """The noise scale of new observations at ``x`` for every member, broadcastable to ``[M, N, D_q]``."""
        noise = self.noise[quantity]
        if noise.kind == "heteroscedastic":
            return self.model.noise_scale(self.weights(theta), quantity, x)
        slot = self.slot(quantity)
        if slot is not None:
            return self.log_noise_scales(theta)[:, slot].exp()[:, None, None]
        scale = 0.0 if noise.kind == "exact" else noise.scale
        return self.tensor(scale).mean().expand(theta.shape[0], 1, 1)

    # Densities

    def log_likelihood(self, theta: Tensor, batch: Batch | None = None) -> Tensor:
        """Log likelihood of all observations; of a mini-batch, scaled up to stand for all of them."""
        total = theta.new_zeros(theta.shape[0])
        values: dict[str, Tensor] = {}  # terms of one quantity share their points
        for term in self.terms:
            part, weight = term, 1.0
            if batch is not None:
                part = term.select(*batch[term.quantity])
                weight = term.y.numel() / part.y.numel()
            if term.quantity not in values:
                values[term.quantity] = self.values(theta, part)
            total = total + weight * self.term_log_likelihood(theta, part, values[term.quantity])
        return total

    def term_log_likelihood(self, theta: Tensor, term: Term, values: Tensor | None = None) -> Tensor:
        """Log likelihood of one term, ``[M]``, given the quantity at its points where that is known."""
        residual = self.residual(theta, term, values)
        return log_density(residual, self.term_scale(theta, term), term.noise).sum((1, 2))

    def values(self, theta: Tensor, term: Term) -> Tensor:
        """What the model gives at the points of a term, ``[M, N, D_q]``, in the units of the likelihood."""
        return term.values(self.model, self.weights(theta))

    def observe(self, theta: Tensor, quantity: str, x: Tensor) -> Tensor:
        """A quantity at ``x[N, D]``, ``[M, N, D_q]``, in the units of the likelihood."""
        return self.model.observe(self.weights(theta), quantity, x)

    def operate(self, theta: Tensor, quantity: str, x: Tensor, inputs: Tensor) -> Tensor:
        """What an operator makes of standardised functions ``inputs[R, S]`` at ``x[N, D]``, ``[M, N, R]``."""
        return operate(self.model, self.weights(theta), quantity, x, inputs)

    def residual(self, theta: Tensor, term: Term, values: Tensor | None = None) -> Tensor:
        """What is observed less what the model gives, ``[M, N, D_q]``."""
        if values is None:
            values = self.values(theta, term)
        return term.y - term.combine(values)

    def term_scale(self, theta: Tensor, term: Term) -> Tensor:
        """The noise scale of the observations of a term, broadcastable to ``[M, N, D_q]``."""
        if term.noise.kind == "heteroscedastic":
            return self.model.noise_scale(self.weights(theta), term.quantity, term.x[: len(term.y)])
        if term.slot is not None:
            return self.log_noise_scales(theta)[:, term.slot].exp()[:, None, None]
        return term.known_scale

    def predictive_nll(self, theta: Tensor, terms: list[Term]) -> Tensor:
        """Mean negative log predictive density of some observations under the mixture of all members, a scalar."""
        total, count = theta.new_zeros(()), 0
        for term in terms:
            residual = self.residual(theta, term)
            density = log_density(residual, self.term_scale(theta, term), term.noise)
            total = total - (torch.logsumexp(density, 0) - math.log(len(theta))).sum()
            count += residual[0].numel()
        return total / max(1, count)

    def log_prior(self, theta: Tensor) -> Tensor:
        """Log prior of weights and learned scales, normalised for the weights."""
        scale = self.prior_scale(theta)
        n = self.n_weights - self.model.n_scalars
        weights, scalars = theta[:, :n], theta[:, n : self.n_weights]
        total = -0.5 * weights.square().sum(1) / scale**2 - n * scale.log()
        total = total - 0.5 * scalars.square().sum(1) - 0.5 * self.n_weights * math.log(2 * math.pi)
        for slot, group in enumerate(self.noise_groups):
            total = total + log_hyperprior(self.log_noise_scales(theta)[:, slot], self.hyperprior(group))
        if self.model.prior.hyperprior is not None:
            total = total + log_hyperprior(theta[:, -1], self.model.prior.hyperprior)
        return total

    def hyperprior(self, group: str) -> InverseGamma:
        """The hyperprior of one group of noise scales."""
        learned = {n.group or name: n.hyperprior for name, n in self.noise.items() if n.kind == "learned"}
        return learned[group]

    def log_density(self, theta: Tensor, batch: Batch | None = None) -> Tensor:
        """The tempered log posterior that samplers draw from, up to a constant."""
        return (self.log_likelihood(theta, batch) + self.log_prior(theta)) / self.temperature

    @torch.no_grad()
    def undefined(self, theta: Tensor) -> list[str]:
        """Quantities for which physics gives no finite number to some member: then there is no density either."""
        terms = {term.quantity: term for term in self.terms if not self.model.is_direct(term.quantity)}
        return [name for name, term in terms.items() if not bool(torch.isfinite(self.values(theta, term)).all())]

    # Learned scales

    @property
    def scales_are_conjugate(self) -> bool:
        """Whether learned scales can be drawn exactly given the rest: Gaussian likelihoods only."""
        return all(noise.family == "gaussian" for noise in self.noise.values() if noise.kind == "learned")

    def draw_scales(self, theta: Tensor, generator: Generator) -> Tensor:
        r"""Draw every learned scale from its distribution given the weights (Appendix B.2.1 of the paper).

        With the inverse-Gamma hyperprior (a, b), n observations and their sum of squares S,
        :math:`1/\sigma^2 \sim \mathrm{Gamma}(a + n/2, \text{rate } 1/b + S/2)`; a temperature divides both.
        """
        new = theta.clone()
        for slot, group in enumerate(self.noise_groups):
            squares, count = theta.new_zeros(len(theta)), 0
            for term in (term for term in self.terms if term.slot == slot):
                squares = squares + self.residual(theta, term).square().sum((1, 2))
                count += term.y.numel()
            new[:, self.n_weights + slot] = self.draw_log_scale(self.hyperprior(group), count, squares, generator)
        if self.model.prior.hyperprior is not None:
            count = self.n_weights - self.model.n_scalars
            squares = theta[:, :count].square().sum(1)
            new[:, -1] = self.draw_log_scale(self.model.prior.hyperprior, count, squares, generator)
        return new

    def draw_log_scale(self, prior: InverseGamma, count: int, squares: Tensor, generator: Generator) -> Tensor:
        """Log of a scale, drawn from its inverse-Gamma conditional."""
        shape = (prior.shape + count / 2) / self.temperature
        rate = (1 / prior.scale + 0.5 * squares.cpu().double()) / self.temperature
        concentration = torch.full_like(rate, shape)
        precision = torch._standard_gamma(concentration, generator=generator) / rate
        return self.tensor(-0.5 * precision.log())


def no_start(log_density: Tensor, undefined: Sequence[str]) -> RunError:
    """What to say of chains whose log density ``[C]`` is no number at their start, and of quantities that are none."""
    chain = int((~torch.isfinite(log_density)).nonzero()[0])
    names = " and ".join(undefined)
    advice = f", since {names} is not: {REWRITE}" if names else ": try another seed, or a larger noise scale."
    return RunError(f"The log density is not finite where chain {chain} starts{advice}")


def log_hyperprior(log_scale: Tensor, hyperprior: InverseGamma) -> Tensor:
    r"""Inverse-Gamma density of :math:`\sigma^2`, as a density of :math:`\log\sigma` (with its Jacobian)."""
    a, b = hyperprior.shape, hyperprior.scale
    constant = math.log(2) - math.lgamma(a) - a * math.log(b)
    return constant - 2 * a * log_scale - torch.exp(-2 * log_scale) / b
