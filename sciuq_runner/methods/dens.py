"""Deep ensembles (Appendix B.3.1 of the paper; Lakshminarayanan et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor

from sciuq_runner.autodiff import CompileChoice, worth_compiling
from sciuq_runner.loop import Loop
from sciuq_runner.methods.base import Method, Posterior
from sciuq_runner.optim import train
from sciuq_runner.schema import Count, NonNegative, Positive
from sciuq_runner.target import Target


@dataclass(frozen=True)
class DEns(Method):
    r"""``n_members`` networks from different starting points, trained by Adam, all in one batch.

    Each minimises the mean negative log-likelihood with weight decay,

    .. math:: \mathcal L(\theta) = -\frac1N \log p(D \mid \theta) + \text{wd}\,\|\theta\|^2,

    over the N readings. Where the paper gives a decay beside the mean squared error and the noise is known,
    ours is theirs divided by :math:`2\sigma^2`, which has the same minimum. Without ``weight_decay`` the
    members are maxima of the posterior: the decay is that of the prior.
    """

    n_members: Count = 10
    n_steps: Count = 20_000
    learning_rate: Positive = 1e-3
    weight_decay: NonNegative | None = None
    compile: CompileChoice = "auto"

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        objective = regularised_loss(target, self.weight_decay)
        theta = train(
            objective,
            target.init(self.n_members, generator),
            self.n_steps,
            lambda _: self.learning_rate,
            loop,
            worth_compiling(self.compile, self.n_steps),
        )
        loss = objective(theta)
        posterior = Posterior(theta, gradient_evaluations=loop.done.get("training", 0) * self.n_members)
        posterior.diagnostics = {"loss": loss.mean().item(), "loss_worst": loss.max().item()}
        return posterior


class regularised_loss:
    """Mean negative log-likelihood with weight decay, per member; MAP where no decay is given."""

    def __init__(self, target: Target, weight_decay: float | None) -> None:
        self.target, self.weight_decay = target, weight_decay

    def __call__(self, theta: Tensor) -> Tensor:
        target = self.target
        if self.weight_decay is None:
            return -(target.log_likelihood(theta) + target.log_prior(theta)) / target.n_readings
        decay = self.weight_decay * target.weights(theta).square().sum(1)
        return -target.log_likelihood(theta) / target.n_readings + decay
