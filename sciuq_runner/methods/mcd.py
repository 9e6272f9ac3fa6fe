"""Monte Carlo dropout (Appendix B.2.2 of the paper; Gal 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Interval
from torch import Generator, Tensor

from sciuq_runner.methods.base import Method
from sciuq_runner.methods.dens import Objective, optimiser_objection
from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.networks.base import Drop
from sciuq_runner.schema import Count, NonNegative, Positive
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import CompileChoice, InPieces, worth_compiling
from sciuq_runner.training.loop import Loop
from sciuq_runner.training.optimisers import Trainer


@dataclass(frozen=True)
class MCD(Method):
    r"""One network trained with dropout; samples are :math:`\hat\theta \odot z_j` with random masks :math:`z_j`.

    A mask sets the weights that lead away from every hidden unit (``drop=units``), or every weight (``weights``), to
    zero with probability ``rate``, and scales the others by 1 / (1 - rate). Without ``drop_last`` the weights of the
    last layer stay: dropping there adds a noise to the output that depends on the weights of that layer alone, as wide
    near the data as elsewhere. Every training step averages the loss over ``n_masks`` fresh masks, drawn in one batch.
    """

    n_samples: Count = 1000
    n_steps: Count = 10_000
    learning_rate: Positive = 1e-3
    rate: Annotated[float, Interval(gt=0, lt=1)] = 0.05
    drop: Drop = "units"
    drop_last: bool = True
    n_masks: Count = 8
    weight_decay: NonNegative = 0.0
    batch_size: Count | None = None
    compile: CompileChoice = "auto"

    def objection(self, target: Target) -> str | None:
        if target.model.dropout_masks(1, 0.5, self.drop, torch.Generator()) is None:
            return "method=mcd needs a network to drop weights of: use another method with this model."
        if not self.drop_last and target.model.last_layer() is None:
            return "method.drop_last=false needs a model with a last layer, which this one has not: set it to true."
        return optimiser_objection(target, "mcd")

    def run(self, target: Target, generator: Generator, loop: Loop) -> Posterior:
        objective = Objective(target, self.weight_decay, self.batch_size, generator)
        spared = None if self.drop_last else target.model.last_layer()

        def masks(n: int) -> Tensor:
            dropped = target.model.dropout_masks(n, self.rate, self.drop, generator)
            assert dropped is not None
            if spared is not None:
                dropped[:, spared] = 1
            scales = torch.ones(n, target.size - target.n_weights, dtype=torch.float64)
            return target.tensor(torch.cat([dropped, scales], dim=1))

        def inputs(n: int) -> tuple[Tensor, ...]:
            return (masks(n * self.n_masks).view(n, self.n_masks, target.size), *objective.inputs(n))

        def average(theta: Tensor, mask: Tensor, *picks: Tensor) -> Tensor:
            return objective(theta * mask, *picks).mean()[None]

        def undefined(theta: Tensor, mask: Tensor, *picks: Tensor) -> list[str]:
            return target.undefined(theta * mask)

        start, compiled = target.init(1, generator), worth_compiling(self.compile, self.n_steps)
        trainer = Trainer(
            InPieces(average, objective.pieces(self.n_masks)),
            start,
            generator,
            loop,
            compiled,
            inputs,
            undefined=undefined,
        )
        theta = trainer.run(self.n_steps, lambda _: self.learning_rate)
        posterior = Posterior(theta * masks(self.n_samples))
        posterior.gradient_evaluations = loop.done.get("training", 0) * self.n_masks
        posterior.diagnostics = {"loss": objective.judge(posterior.theta).mean().item()}
        return posterior
