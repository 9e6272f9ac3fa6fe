"""Mean-field variational inference (Appendix B.2.2 of the paper; Blundell et al. 2015)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Generator, Tensor
from torch.nn.functional import softplus

from sciuq_runner.methods.base import Method
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.schema import Count, Positive
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import CompileChoice, InPieces, worth_compiling
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import Trainer

VALIDATION_EVERY = 50  # steps between two looks at the validation data
CHECK_DRAWS = 64


@dataclass(frozen=True)
class MFVI(Method):
    r"""A factorised Gaussian :math:`q(\theta) = \prod_k \mathcal N(\mu_k, \Sigma_k^2)` fitted by Adam to

    .. math::
        -\mathrm{ELBO} = -\mathbb E_q[\log p(D \mid \theta)] + \tau\, \mathrm{KL}(q \,\|\, p(\theta)),

    the expectation taken over ``n_draws`` reparametrised draws :math:`\mu + \Sigma \odot \eta` in one batch and the
    Kullback-Leibler term in closed form. The standard deviations start at softplus(``initial_rho``), and stay
    there without ``learn_std``. Learned noise and prior scales are point estimates that climb the same bound; they
    wait for ``scale_delay`` steps, because a model that fits nothing yet is best explained by noise and a prior without
    spread, and then move at ``scale_rate``. Adam has seen no gradient of theirs till then and makes their first hundred
    steps several times as long. With ``early_stopping`` the state of the best predictive likelihood on the validation
    observations is kept, of those after the wait. ``batch_size`` as of ``dens``.
    """

    n_samples: Count = 1000
    n_steps: Count = 10_000
    learning_rate: Positive = 1e-3
    n_draws: Count = 8
    initial_rho: float = -6.0
    learn_std: bool = True
    scale_delay: Annotated[int, Ge(0)] = 2000
    scale_rate: Positive = 3e-3
    early_stopping: bool = False
    batch_size: Count | None = None
    compile: CompileChoice = "auto"

    def objection(self, target: Target) -> str | None:
        if self.early_stopping and not target.validation_terms:
            return (
                "method.early_stopping=true needs validation readings, and the problem holds none out: set "
                "problem.n_validation where there is such a setting, or method.early_stopping=false."
            )
        if target.size > target.n_weights and self.scale_delay >= self.n_steps:
            return (
                f"method.scale_delay={self.scale_delay} leaves none of method.n_steps={self.n_steps} for the learned "
                "scales: make it smaller."
            )
        return None

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        n, extra = target.n_weights, target.size - target.n_weights
        start = target.init(1, generator)
        rho = torch.full_like(start[:, :n], self.initial_rho)
        pace = self.scale_rate / self.learning_rate
        omega = torch.cat([start[:, :n], rho, start[:, n:] / pace], dim=1)  # mean, rho, log scales / pace
        best = {"best": omega.clone(), "best_nll": torch.tensor(math.inf, dtype=torch.float64)}

        def noise(count: int) -> Tensor:
            return target.tensor(torch.randn(count, n, generator=generator, dtype=torch.float32))

        def draw(omega: Tensor, eta: Tensor) -> Tensor:
            weights = omega[:, :n] + softplus(omega[:, n : 2 * n]) * eta
            return torch.cat([weights, pace * omega[:, 2 * n :].expand(len(eta), extra)], dim=1)

        def negative_elbo(omega: Tensor, eta: Tensor, learn: Tensor, *picks: Tensor) -> Tensor:
            scales = omega[:, 2 * n :]
            spread = omega[:, n : 2 * n] if self.learn_std else omega[:, n : 2 * n].detach()
            omega = torch.cat([omega[:, :n], spread, learn * scales + (1 - learn) * scales.detach()], dim=1)
            expected = target.log_likelihood(draw(omega, eta), target.batches.unpack(picks)).mean()
            prior = target.prior_scales(draw(omega, eta[:1]))
            divergence = kl_to_prior(omega[:, :n], softplus(omega[:, n : 2 * n]), prior)
            return (target.temperature * divergence - expected) / target.n_observations

        compiled = worth_compiling(self.compile, self.n_steps)

        def inputs(count: int) -> tuple[Tensor, ...]:
            waits = loop.done.get("training", 0) < self.scale_delay
            picks = () if self.batch_size is None else target.batches.draw_several(self.batch_size, count, generator)
            learn = omega.new_full((count,), float(not waits))
            return (noise(count * self.n_draws).view(count, self.n_draws, n), learn, *picks)

        def undefined(omega: Tensor, eta: Tensor, *_: Tensor) -> list[str]:
            return target.undefined(draw(omega, eta))

        pieces = target.batches.pieces(self.n_draws) if self.batch_size is None else ()
        trainer = Trainer(InPieces(negative_elbo, pieces), omega, generator, loop, compiled, inputs, best, undefined)
        first_look = self.scale_delay if extra else 0
        for done in trainer.steps(self.n_steps, lambda _: self.learning_rate):
            if self.early_stopping and done > first_look and done % VALIDATION_EVERY == 0:
                with torch.no_grad():
                    found = target.predictive_nll(draw(trainer.theta, noise(CHECK_DRAWS)), target.validation_terms)
                if found.item() < trainer.state["best_nll"].item():
                    trainer.state.update(best=trainer.theta.clone(), best_nll=found.cpu().double())
                loop.show(validation_nll=found.item())
        stopped = self.early_stopping and math.isfinite(trainer.state["best_nll"].item())
        final = trainer.state["best"] if stopped else trainer.theta
        posterior = Posterior(draw(final, noise(self.n_samples)))
        posterior.gradient_evaluations = loop.done.get("training", 0) * self.n_draws
        _, _, *picks = (item[0] for item in inputs(1))
        with torch.no_grad():
            bound = -negative_elbo(final, noise(CHECK_DRAWS), final.new_ones(()), *picks)
        posterior.diagnostics = {"elbo": bound.item() * target.n_observations}
        if stopped:
            posterior.diagnostics["validation_nll"] = trainer.state["best_nll"].item()
        return posterior


def kl_to_prior(mean: Tensor, std: Tensor, prior_scale: Tensor) -> Tensor:
    r""":math:`\mathrm{KL}(\mathcal N(\mu, \Sigma^2) \| \mathcal N(0, \sigma_\theta^2))`, summed over theta, ``[M]``."""
    ratio = std / prior_scale
    return (0.5 * (ratio.square() + (mean / prior_scale).square() - 1) - ratio.log()).sum(1)
