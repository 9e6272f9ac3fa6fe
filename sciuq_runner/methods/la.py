"""Laplace approximation (Appendix B.2.3 of the paper; Daxberger et al. 2021), with laplace-torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from laplace import DiagLaplace, FullLaplace, KronLaplace
from laplace.curvature import GGNInterface
from laplace.utils import Kron
from torch import Generator, Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from sciuq_runner.memory import Need
from sciuq_runner.methods.base import Method, vectors
from sciuq_runner.methods.dens import Objective
from sciuq_runner.methods.posterior import LinearisedPosterior, Posterior
from sciuq_runner.schema import Count, Positive
from sciuq_runner.target.density import Target
from sciuq_runner.target.terms import Term
from sciuq_runner.training.autodiff import CompileChoice, worth_compiling
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import cosine_cycles, cycle_ends

TOO_MANY = 400_000_000
"""Derivatives that are held at once: 3 GB in double precision."""


@dataclass(frozen=True)
class LA(Method):
    r"""A Gaussian :math:`\mathcal N(\hat\theta, \tau A^{-1})` at the maximum of the posterior, with the generalised
    Gauss-Newton matrix

    .. math:: A = J^T J + \sigma_\theta^{-2} I, \qquad J = \nabla_\theta\, r(\hat\theta),

    of all observations stacked as r, each prediction divided by its noise scale: so physics and operator targets are
    served like plain regression. Predictions use the model linearised at :math:`\hat\theta`, to which this Hessian
    belongs.

    ``hessian`` is the full matrix, Kronecker factors of each layer (``kron``) or its diagonal; ``weights`` all or those
    of the last layer. Learned noise and prior scales maximise the Laplace approximation of the marginal likelihood
    after training,

    .. math::
        \log p(D \mid \sigma) \approx \log p(D \mid \hat\theta, \sigma) - \frac{\|\hat\theta\|^2}{2\sigma_\theta^2}
        - \tfrac12 \log\det(I + \sigma_\theta^2 J J^T).

    The noise that a heteroscedastic model predicts is taken as it is at the maximum.
    """

    n_samples: Count = 1000
    n_steps: Count = 10_000
    learning_rate: Positive = 1e-2
    hessian: Literal["full", "kron", "diag"] = "full"
    weights: Literal["all", "last_layer"] = "all"
    n_rounds: Count = 3
    n_scale_steps: Count = 500
    scale_rate: Positive = 1e-2
    compile: CompileChoice = "auto"

    def objection(self, target: Target) -> str | None:
        if self.weights == "last_layer" and target.model.last_layer() is None:
            return "method.weights=last_layer needs a model with layers: use all."
        rows, columns = sum(term.y.numel() for term in target.terms), int(self.chosen(target).sum())
        if rows * columns > TOO_MANY:
            return (
                f"method=la would need the derivatives of {rows} readings by {columns} weights, which do not fit into "
                "memory: use method.weights=last_layer, fewer readings or a smaller model."
            )
        return None

    def needs(self, target: Target) -> list[Need]:
        rows, columns = sum(term.y.numel() for term in target.terms), int(self.chosen(target).sum())
        key, count = self.kept
        found = [vectors(key, count, target.n_weights, 8)]
        if self.hessian == "full" and rows >= columns:
            what = f"a matrix of {columns} by {columns} numbers, its factor and its inverse"
            found.append(Need("method.hessian=full", what, 3.0 * 8 * columns**2))
        return found

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        objective = FixedScales(target)
        compiled = worth_compiling(self.compile, self.n_steps)
        trainer = objective.trainer(target.init(1, generator), generator, loop, compiled)
        learns = target.size > target.n_weights
        rounds = cycle_ends(self.n_steps, self.n_rounds) if learns else []
        rate = cosine_cycles(self.n_steps, 1, self.learning_rate, 0.01 * self.learning_rate)
        for done in trainer.steps(self.n_steps, rate, pauses=rounds):
            if done in rounds:
                trainer.state["theta"] = self.fit_scales(target, trainer.theta[0])[None]
        theta = trainer.theta[0]
        weights = self.draw(target, theta, generator)
        scales = theta[target.n_weights :].expand(len(weights), -1)
        posterior = LinearisedPosterior(torch.cat([weights, scales], dim=1), centre=theta)
        posterior.gradient_evaluations = loop.done.get("training", 0)
        with torch.no_grad():
            posterior.diagnostics = {"loss": objective(theta[None]).item()}
        return posterior

    def chosen(self, target: Target) -> Tensor:
        """Which weights the approximation is over, a mask ``[n_weights]``."""
        last = target.model.last_layer() if self.weights == "last_layer" else None
        return torch.ones(target.n_weights, dtype=torch.bool) if last is None else last

    def is_scalar(self, target: Target) -> Tensor:
        """Which of the chosen weights are unknown numbers of the problem."""
        return torch.arange(target.n_weights)[self.chosen(target)] >= target.n_weights - target.model.n_scalars

    def fit_scales(self, target: Target, theta: Tensor) -> Tensor:
        """Move the learned scales in ``theta`` to a maximum of the approximate marginal likelihood.

        Our own formula: laplace-torch knows one noise scale for all observations, a target may have several.
        """
        stacked = Stacked(target, theta, self.chosen(target), unit_noise=True)
        jacobian, residual = stacked.jacobian(), stacked.residual()
        scalar = self.is_scalar(target)
        relative = [
            jacobian[:, scalar],
            jacobian[:, ~scalar],
        ]  # of unknown numbers with a prior of their own, of weights
        grams = [part @ part.T for part in relative] if len(jacobian) <= jacobian.shape[1] else None
        squared_norm = theta[: target.n_weights - target.model.n_scalars].cpu().double().square().sum()
        scales = theta[target.n_weights :].cpu().double().clone().requires_grad_(True)
        optimiser = torch.optim.Adam([scales], lr=self.scale_rate)
        for _ in range(self.n_scale_steps):
            noise = stacked.noise_of_rows(scales)
            prior = scales[-1].exp() if target.learns_prior else torch.tensor(target.model.prior.scale).double()
            fit = -0.5 * (residual / noise).square().sum() - noise.log().sum()
            norm = -0.5 * squared_norm / prior**2
            if grams is not None:
                matrix = (grams[0] + prior**2 * grams[1]) / (noise[:, None] * noise)
            else:
                scaled = torch.cat([relative[0], prior * relative[1]], dim=1) / noise[:, None]
                matrix = scaled.T @ scaled
            occam = -0.5 * torch.logdet(torch.eye(len(matrix), dtype=matrix.dtype) + matrix)
            optimiser.zero_grad()
            (-(fit + norm + occam)).backward()
            optimiser.step()
        return torch.cat([theta[: target.n_weights], target.tensor(scales.detach())])

    def draw(self, target: Target, theta: Tensor, generator: Generator) -> Tensor:
        """Samples of the fitted Gaussian over the weights, ``[n_samples, n_weights]``."""
        chosen = self.chosen(target)
        stacked = Stacked(target, theta, chosen)
        scales = target.prior_scales(theta[None])[0].cpu().double()[chosen]
        if self.hessian == "full" and stacked.n_rows < len(scales):
            deviations = draw_by_rows(stacked.jacobian(), scales, self.n_samples, generator)
        else:
            deviations = self.draw_by_laplace(stacked, scales, generator)
        spread = math.sqrt(target.temperature)  # of the whole posterior; laplace-torch cools the likelihood alone
        weights = theta[: target.n_weights].cpu().double().repeat(self.n_samples, 1)
        weights[:, chosen] += spread * deviations
        return target.tensor(weights)

    def draw_by_laplace(self, stacked: Stacked, scales: Tensor, generator: Generator) -> Tensor:
        """Deviations from the maximum, by laplace-torch."""
        kinds: dict[str, Any] = {"full": FullLaplace, "kron": StackedKron, "diag": DiagLaplace}
        fitted = kinds[self.hessian](stacked, "regression", 1.0, backend=StackedGGN)
        if self.hessian == "kron":
            scales = scales[torch.tensor([0, *(a * b for a, b in stacked.blocks)]).cumsum(0)[:-1]]  # one per block
            fitted.n_layers = len(scales)
        fitted.prior_precision = scales**-2
        rows = TensorDataset(torch.arange(stacked.n_rows), stacked.observations()[:, None])
        fitted.fit(DataLoader(rows, batch_size=stacked.n_rows))
        samples: Tensor = fitted.sample(self.n_samples, generator=generator) - fitted.mean
        return samples


def draw_by_rows(jacobian: Tensor, scales: Tensor, n: int, generator: Generator) -> Tensor:
    r"""Draws of :math:`\mathcal N(0, (J^T J + S^{-2})^{-1})` with prior deviations S, ``[n, K]``, by Matheron's rule:
    a prior draw z, corrected by what a noisy observation of Jz says.

    Our own: with fewer rows than weights it solves systems of their number, where laplace-torch factorises K x K.
    """
    prior = scales * torch.randn(n, len(scales), generator=generator, dtype=torch.float64)
    noise = torch.randn(n, len(jacobian), generator=generator, dtype=torch.float64)
    scaled = jacobian * scales
    gram = scaled @ scaled.T + torch.eye(len(jacobian), dtype=torch.float64)
    correction = torch.linalg.solve(gram, (noise - prior @ jacobian.T).T).T
    found: Tensor = prior + correction @ scaled * scales
    return found


class FixedScales(Objective):
    """The negative log posterior of the weights, with learned scales held where they are."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, None)

    def __call__(self, theta: Tensor, *picks: Tensor) -> Tensor:
        n = self.target.n_weights
        return super().__call__(torch.cat([theta[:, :n], theta[:, n:].detach()], dim=1), *picks)


class Stacked(nn.Module):
    """All predictions of a target in one column, each divided by its noise scale, as a function of some weights."""

    def __init__(self, target: Target, theta: Tensor, chosen: Tensor, unit_noise: bool = False) -> None:
        super().__init__()
        self.target, self.chosen = target, chosen
        self.base = theta.detach().clone()
        self.free = nn.Parameter(theta[: target.n_weights][chosen.to(theta.device)].cpu().double())
        with torch.no_grad():
            self.scales = [
                torch.ones_like(term.y)
                if unit_noise and term.slot is not None  # divided out later, by the scale being learned
                else target.term_scale(theta[None], term).expand(1, *term.y.shape)[0]
                for term in target.terms
            ]
        self.n_rows = sum(term.y.numel() for term in target.terms)

    def outputs(self, free: Tensor) -> Tensor:
        """Scaled predictions ``[n_rows]`` in double precision."""
        index = self.chosen.nonzero()[:, 0].to(self.base.device)
        theta = self.base.index_put((index,), free.to(self.base))[None]
        columns = [
            (term.combine(self.target.values(theta, term))[0] / scale / fisher_scale(term)).flatten()
            for term, scale in zip(self.target.terms, self.scales, strict=True)
        ]
        return torch.cat(columns).cpu().double()

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """The free weights as a row of matrices."""
        blocks = self.target.model.blocks()
        parts = self.chosen.split([rows * columns for rows, columns in blocks])
        return [block for block, chosen in zip(blocks, parts, strict=True) if bool(chosen.all())]

    def forward(self, index: Tensor) -> Tensor:
        return self.outputs(self.free)[index.long()][:, None]

    def jacobian(self) -> Tensor:
        """Derivatives of all rows, ``[n_rows, number of free weights]``, along whichever there are fewer of."""
        point = self.free.detach()
        if self.n_rows <= len(point):
            rows: Tensor = torch.func.jacrev(self.outputs)(point)
            return rows

        def push(direction: Tensor) -> Tensor:
            tangent: Tensor = torch.func.jvp(self.outputs, (point,), (direction,))[1]
            return tangent

        parts = torch.eye(len(point), dtype=point.dtype).split(64)  # the columns of all at once may not fit
        return torch.cat([torch.func.vmap(push)(part) for part in parts]).T

    def observations(self) -> Tensor:
        """The observations, scaled like the predictions."""
        columns = [
            (term.y / scale / fisher_scale(term)).flatten()
            for term, scale in zip(self.target.terms, self.scales, strict=True)
        ]
        return torch.cat(columns).cpu().double()

    def residual(self) -> Tensor:
        with torch.no_grad():
            return self.observations() - self.outputs(self.free)

    def noise_of_rows(self, scales: Tensor) -> Tensor:
        """The learned noise scale of every row; one where it is not learned."""
        columns = [
            (scales[term.slot].exp() if term.slot is not None else scales.new_ones(())).expand(term.y.numel())
            for term in self.target.terms
        ]
        return torch.cat(columns)


def fisher_scale(term: Term) -> float:
    """Student-t observations inform as Gaussian ones of a scale larger by this factor (their Fisher information)."""
    if term.noise.family == "student_t":
        nu = term.noise.degrees_of_freedom
        return math.sqrt((nu + 3) / (nu + 1))
    return 1.0


class StackedGGN(GGNInterface):
    """laplace-torch's Gauss-Newton curvature, with the Jacobian of all rows taken at once."""

    def jacobians(self, x: Any, enable_backprop: bool = False) -> tuple[Tensor, Tensor]:
        model: Any = self.model
        return model.jacobian()[x.long()][:, None], model(x).detach()

    def kron(self, x: Any, y: Tensor, N: int, **_: Any) -> tuple[Tensor, Kron]:
        r"""The curvature :math:`\sum_r \mathrm{vec}(J_r) \mathrm{vec}(J_r)^T` of a layer, summed over the rows r of the
        stacked residual, as :math:`Q \otimes H / \mathrm{tr}\,Q` with its partial traces
        :math:`Q = \sum_r J_r J_r^T` and :math:`H = \sum_r J_r^T J_r`.

        Our own: laplace-torch's backends read activations of layers, which a residual with derivatives in it has not
        one of per row. Exact where the curvature is a Kronecker product, and always of the right trace.
        """
        model: Any = self.model
        jacobians, f = self.jacobians(x)
        factors: list[Any] = []
        parts = jacobians[:, 0].split([rows * columns for rows, columns in model.blocks], dim=1)
        for part, shape in zip(parts, model.blocks, strict=True):
            blocks = part.unflatten(1, shape)
            left = torch.einsum("rij,rkj->ik", blocks, blocks)
            right = torch.einsum("rij,rik->jk", blocks, blocks)
            root = left.trace().clamp(min=torch.finfo(left.dtype).tiny).sqrt()
            factors.append([left / root, right / root])
        loss: Tensor = self.factor * self.lossfunc(f, y)
        return loss.detach(), Kron(factors)


class StackedKron(KronLaplace):
    """Kronecker factors of the layers of a model whose weights are one flat parameter."""

    _key = ("stacked", "kron")

    def _init_H(self) -> None:
        model: Any = self.model
        zeros: list[Any] = [[torch.zeros(n, n, dtype=torch.float64) for n in block] for block in model.blocks]
        self.H = Kron(zeros)
