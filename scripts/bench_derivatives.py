"""Loss and gradient of a PDE residual: Taylor mode against nested ``autograd.grad``.

    python scripts/bench_derivatives.py [--repeats 15] [--threads 2]

The residual u_t - 0.01 u_xx + u^3 of a 2 x 50 tanh network, mean square over the points, gradient by all parameters.
``nested`` is what DeepXDE and most PINN codes do: a ``torch.nn.Module``, reverse mode for u_t and u_x, once more for
u_xx, members one after another. ``nested, batched`` gives it our batched network instead. ``Taylor`` is the target
that methods see, with the linear part of the residual taken as a whole, as in equations from YAML files; ``compiled``
is that under ``torch.compile``, as it runs where this pays. Goals: with 8 members at least 4 times faster than
nested, and never slower than it. At the end the growth of cost with points and with members: 1 is linear.

Seen on two cores with 8 members, compiled, in three runs: 14 to 16, 10 to 12, 6 to 7 and 4.2 to 4.6 times faster with
32, 128, 500 and 2000 points; with 1 member 2.5 to 3.6 times. With 2000 points, gradients are taken in eight pieces that
fit into the caches; some two thirds of their time are products with the 50 x 50 matrix: nine (value, slope and sum, and
twice as many for the gradient), of which nested needs twelve.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from timing import side_by_side
from torch import Tensor

from sciuq_runner.models.bnn import BNN
from sciuq_runner.networks import MLP
from sciuq_runner.physics.fields import Unknowns
from sciuq_runner.physics.problem import Dataset, FieldSpec, Noise, PointObservations, Problem
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import InPieces, MaybeCompiled, value_and_grad

BATCHES, MEMBERS = (32, 128, 500, 2000), (1, 8)
Call = Callable[[], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Reaction(Problem):
    """The residual as a quantity that is known to be zero, with a noise for which its log-likelihood is, but for a
    constant, the mean square over ``n`` points."""

    n: int = 1
    fields: ClassVar[Mapping[str, FieldSpec]] = {"u": FieldSpec(("t", "x"))}
    n_calibration_points: ClassVar[int] = 0

    def observe(self, quantity: str, unknowns: Unknowns, x: Tensor) -> Tensor:
        u = unknowns["u"].at(x)
        return u.combine(t=1, xx=-0.01) + u.value**3

    def coordinates_of(self, quantity: str) -> tuple[str, ...]:
        return "t", "x"

    @property
    def noise(self) -> Mapping[str, Noise]:
        return {"f": Noise("known", (self.n / 2) ** 0.5)}

    def dataset(self, rng: np.random.Generator) -> Dataset:
        return {}  # readings are given to the target as they are


def make_target(x: Tensor) -> Target:
    """What methods see of the residual at these points."""
    problem = Reaction(n=len(x))
    readings = {"f": PointObservations(x.numpy(), np.zeros((len(x), 1)))}
    return Target(BNN(width=50, depth=2).bind(problem, problem.noise), problem.noise, readings)


def nested(network: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The residual by reverse mode within reverse mode; ``network`` maps points to values."""
    points = x.clone().requires_grad_(True)
    u = network(points)
    (first,) = torch.autograd.grad(u.sum(), points, create_graph=True)
    (second,) = torch.autograd.grad(first[..., 1].sum(), points, create_graph=True)
    return first[..., :1] - 0.01 * second[..., 1:] + u**3


class Module(torch.nn.Module):
    """One member as everyone writes it."""

    def __init__(self, network: MLP, theta: Tensor) -> None:
        super().__init__()
        layers: list[torch.nn.Module] = []
        for weight, bias in network.layers(theta[None]):
            linear = torch.nn.Linear(*weight.shape[1:])
            linear.weight.data, linear.bias.data = weight[0].T.contiguous(), bias[0, 0].clone()
            layers += [linear, torch.nn.Tanh()]
        self.layers = torch.nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        values: Tensor = self.layers(x)
        return values


def calls(network: MLP, theta: Tensor, x: Tensor) -> dict[str, Call]:
    """The same gradients, four ways, and values but for a constant."""
    target = make_target(x)
    modules = [Module(network, member) for member in theta]

    def plain() -> tuple[Tensor, Tensor]:
        losses = [nested(module, x).square().mean() for module in modules]
        gradients = [
            torch.cat(
                [(g.mT if g.dim() == 2 else g).flatten() for g in torch.autograd.grad(loss, list(module.parameters()))]
            )
            for module, loss in zip(modules, losses, strict=True)
        ]
        return torch.stack(losses), torch.stack(gradients)

    def batched() -> tuple[Tensor, Tensor]:
        leaf = theta.detach().requires_grad_(True)
        points = x.expand(len(theta), *x.shape)
        loss = nested(lambda p: network(leaf, p), points).square().mean((1, 2))
        return loss, torch.autograd.grad(loss.sum(), leaf)[0]

    pieces = target.batches.pieces(len(theta))
    loss = InPieces(lambda part, *picks: -target.log_likelihood(part, target.batches.unpack(picks)), pieces)

    def ours(members: Tensor) -> tuple[Tensor, Tensor]:
        return value_and_grad(loss, members)

    quick = MaybeCompiled(ours, True)
    return {
        "nested": plain,
        "nested, batched": batched,
        "Taylor": lambda: ours(theta),
        "Taylor compiled": lambda: quick(theta),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    network = MLP(2, 1, (50, 50))
    generator = torch.Generator().manual_seed(0)
    print(f"{'members':>7} {'points':>6}  time in ms, and nested's over it")
    taken: dict[tuple[int, int], float] = {}
    for members in MEMBERS:
        for points in BATCHES:
            theta = network.init(members, generator).float()
            x = torch.rand(points, 2, generator=generator)
            ways = calls(network, theta, x)
            results = [call() for call in ways.values()]
            worst = max((r[1] - results[0][1]).abs().max() / results[0][1].abs().max() for r in results)
            assert worst < 1e-3, f"the gradients differ by {worst}"
            times = side_by_side(ways, options.repeats)
            taken[members, points] = times["Taylor"]
            columns = [f"{name} {1e3 * t:.2f} ({times['nested'] / t:.1f} x)" for name, t in times.items()]
            print(f"{members:>7} {points:>6}  " + "  ".join(columns))
    for name, few, many in (("points, 8 members", (8, 500), (8, 2000)), ("members, 2000 points", (1, 2000), (8, 2000))):
        growth = (many[0] * many[1]) / (few[0] * few[1])
        print(f"slope of cost in {name}: {math.log(taken[many] / taken[few]) / math.log(growth):.2f}  (linear: 1)")


if __name__ == "__main__":
    main()
