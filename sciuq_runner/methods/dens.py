"""Deep ensembles (Appendix B.3.1 of the paper; Lakshminarayanan et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from sciuq_runner.memory import Need
from sciuq_runner.methods.base import Method
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.models.base import BoundAdversarialModel, InferenceKind
from sciuq_runner.schema import Count, NonNegative, Positive
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import CompileChoice, InPieces, worth_compiling
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import Trainer, cosine_cycles

JUDGED = 50  # members whose loss is taken at once


@dataclass(frozen=True)
class DEns(Method):
    r"""``n_members`` networks from different starting points, trained by Adam, all in one batch.

    With noise of a known scale each minimises the sum of squares with weight decay, as in the paper,

    .. math:: \mathcal L(\theta) = \sum_i \|u_i - u_\theta(x_i)\|^2 + \text{wd}\,\|\theta\|^2,

    (several quantities weighted by their noise), and otherwise the sum of negative log-likelihoods in place of the
    squares. Without ``weight_decay`` the members are maxima of the posterior: the decay is that of the prior. The
    learning rate falls to ``final_rate`` along a half cosine where that is given. With a ``batch_size`` every step sees
    that many random observations, or functions where an operator is learned; null takes all.

    ``anchored`` members (Pearce et al. 2020, randomised maximum a posteriori) are drawn to anchors from the prior
    instead of to zero, and fit observations with fresh noise added: samples of the posterior where the model is linear
    and the noise Gaussian, approximately so elsewhere.

    Members of a model that is trained against a critic take all but their number from its settings.
    """

    inferences: ClassVar[Sequence[InferenceKind]] = ("likelihood", "adversarial")

    n_members: Count = 10
    n_steps: Count = 10_000
    learning_rate: Positive = 1e-3
    final_rate: Positive | None = None
    weight_decay: NonNegative | None = None
    anchored: bool = False
    batch_size: Count | None = None
    compile: CompileChoice = "auto"

    def objection(self, target: Target) -> str | None:
        if self.anchored and self.batch_size is not None:
            return "method.anchored=true adds noise to every reading once, and takes all of them: use batch_size=null."
        if self.anchored and any(not noise.is_given or noise.family != "gaussian" for noise in target.noise.values()):
            return "method.anchored=true needs Gaussian noise of known scale: give the scale, or use plain dens."
        if self.anchored and self.weight_decay is not None:
            return "method.weight_decay has no meaning beside method.anchored=true, where the prior decides: use null."
        return None if self.anchored else optimiser_objection(target, "dens")

    def needs(self, target: Target) -> list[Need]:
        what = f"the weights of {self.n_members} members of {target.size} numbers, with gradients and moments"
        size = 5.0 * self.n_members * target.size * target.dtype.itemsize
        return [Need(f"method.n_members={self.n_members}", what, size)]

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        if isinstance(target.model, BoundAdversarialModel):
            theta = target.model.train(target.init(self.n_members, generator), generator, loop)
            return Posterior(theta, gradient_evaluations=loop.done.get("training", 0) * len(theta))
        objective: Objective = Objective(target, self.weight_decay, self.batch_size, generator)
        if self.anchored:
            objective = AnchoredObjective(target, self.n_members, generator)
        start = target.init(self.n_members, generator)
        compiled = worth_compiling(self.compile, self.n_steps)
        trainer = objective.trainer(start, generator, loop, compiled)
        final = self.learning_rate if self.final_rate is None else self.final_rate
        theta = trainer.run(self.n_steps, cosine_cycles(self.n_steps, 1, self.learning_rate, final))
        return optimised(theta, objective, loop)


class Objective:
    """Negative log-likelihood with weight decay per observation and member; the posterior's where no decay is given.

    With a ``batch_size`` it is an estimate from the observations that :meth:`inputs` draws.
    """

    def __init__(
        self,
        target: Target,
        weight_decay: float | None,
        batch_size: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.target, self.weight_decay = target, weight_decay
        self.batch_size, self.generator = batch_size, generator
        squares = [
            float(np.mean(np.square(np.asarray(term.noise.scale) / target.model.unit(term.quantity).scale)))
            for term in target.terms
            if term.noise.is_given
        ]
        known = len(squares) == len(target.terms) and len(squares) > 0
        self.unit = 1 / (2 * float(np.mean(squares))) if known else 1.0  # of a squared error in log-likelihood

    def inputs(self, n_steps: int) -> tuple[Tensor, ...]:
        """The mini-batches of some steps."""
        if self.batch_size is None:
            return ()
        assert self.generator is not None
        return self.target.batches.draw_several(self.batch_size, n_steps, self.generator)

    def pieces(self, n_members: int) -> tuple[Tensor, ...]:
        """What the loss of so many members is the mean of; a mini-batch is one piece."""
        return self.target.batches.pieces(n_members) if self.batch_size is None else ()

    def trainer(
        self,
        start: Tensor,
        generator: Generator,
        loop: Loop,
        compiled: bool,
        state: dict[str, Tensor] | None = None,
    ) -> Trainer:
        """What minimises it from ``start``; ``state`` is the method's own."""
        in_pieces = InPieces(self, self.pieces(len(start)))
        return Trainer(in_pieces, start, generator, loop, compiled, self.inputs, state, self.undefined)

    def undefined(self, theta: Tensor, *picks: Tensor) -> list[str]:
        return self.target.undefined(theta)

    def __call__(self, theta: Tensor, *picks: Tensor) -> Tensor:
        target, batch = self.target, self.target.batches.unpack(picks)
        if self.weight_decay is None:
            return -(target.log_likelihood(theta, batch) + target.log_prior(theta)) / target.n_observations
        n = target.n_weights - target.model.n_scalars
        decay = self.weight_decay * self.unit * theta[:, :n].square().sum(1)
        decay = decay + 0.5 * theta[:, n : target.n_weights].square().sum(1)  # unknown numbers keep their own prior
        return (decay - target.log_likelihood(theta, batch)) / target.n_observations

    def judge(self, theta: Tensor) -> Tensor:
        """The loss of many members, of one mini-batch if there are such, ``[M]``.

        Its own random numbers: those of the training stay as they are for a run that goes on.
        """
        picks = []
        if self.batch_size is not None:
            drawn = self.target.batches.draw_several(self.batch_size, 1, Generator().manual_seed(0))
            picks = [item[0] for item in drawn]
        with torch.no_grad():
            return torch.cat([self(part, *picks) for part in theta.split(JUDGED)])


class AnchoredObjective(Objective):
    """The negative log posterior of every member's own prior centre and own noisy copy of the observations."""

    def __init__(self, target: Target, n_members: int, generator: Generator) -> None:
        super().__init__(target, None)

        def draw(*shape: int) -> Tensor:
            return target.tensor(torch.randn(*shape, generator=generator, dtype=torch.float64))

        self.scale = target.prior_scales(draw(1, target.size))
        spread = target.temperature**0.5
        self.anchors = spread * self.scale * draw(n_members, target.n_weights)
        self.terms = [
            replace(term, y=term.y + spread * term.known_scale * draw(n_members, *term.y.shape))
            for term in target.terms
        ]

    def pieces(self, n_members: int) -> tuple[Tensor, ...]:
        return ()  # every member has observations of its own

    def judge(self, theta: Tensor) -> Tensor:
        with torch.no_grad():
            return self(theta)

    def __call__(self, theta: Tensor, *picks: Tensor) -> Tensor:
        total = 0.5 * ((theta - self.anchors[: len(theta)]) / self.scale).square().sum(1)
        for term in self.terms:
            total = total - self.target.term_log_likelihood(theta, term)
        found: Tensor = total / self.target.n_observations
        return found


def optimised(theta: Tensor, objective: Objective, loop: Loop) -> Posterior:
    """Trained members as samples, with their losses."""
    loss = objective.judge(theta)
    posterior = Posterior(theta, gradient_evaluations=loop.done.get("training", 0) * len(theta))
    posterior.diagnostics = {"loss": loss.mean().item(), "loss_worst": loss.max().item()}
    return posterior


def optimiser_objection(target: Target, name: str) -> str | None:
    """What methods that look for maxima of the posterior cannot do."""
    if target.learns_prior:
        return f"model.learn_prior=true has no meaning for method={name}: its prior is method.weight_decay."
    if target.temperature != 1:
        return f"temperature={target.temperature:g} does not move the maxima that method={name} looks for: use 1."
    return None
