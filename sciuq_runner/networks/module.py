"""Any ``torch.nn.Module`` as a batched network."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.func import functional_call, vmap

from sciuq_runner.networks.base import Drop, Network, keep


class ModuleNetwork(Network):
    """Batches a module over members with ``torch.func``; slower than the hand-batched MLP, but general.

    ``make`` builds a freshly initialised module; it is called once per starting point, so that the
    module's own initialisation is what the members start from. Modules with buffers that change in
    training (batch normalisation) have no meaning as a function of theta and are refused.
    """

    def __init__(self, make: Callable[[], torch.nn.Module], n_inputs: int, n_outputs: int) -> None:
        self.make, self.n_inputs, self.n_outputs = make, n_inputs, n_outputs
        self.module = make().eval().requires_grad_(False)
        if any(name.endswith("running_mean") for name, _ in self.module.named_buffers()):
            raise ValueError("a network with batch normalisation is not a function of its parameters alone.")
        self.shapes = {name: value.shape for name, value in self.module.named_parameters()}
        self.n_params = sum(math.prod(shape) for shape in self.shapes.values())

    def unflatten(self, theta: Tensor) -> dict[str, Tensor]:
        """View flat ``theta[..., K]`` as the module's named parameters."""
        parts = torch.split(theta, [math.prod(shape) for shape in self.shapes.values()], dim=-1)
        names = self.shapes.items()
        return {name: part.reshape(*theta.shape[:-1], *shape) for (name, shape), part in zip(names, parts, strict=True)}

    def __call__(self, theta: Tensor, x: Tensor) -> Tensor:
        constants = {name: value.to(theta) for name, value in self.module.named_buffers() if value.is_floating_point()}

        def single(params: dict[str, Tensor], inputs: Tensor) -> Tensor:
            found: Tensor = functional_call(self.module, {**constants, **params}, (inputs,))
            return found

        return vmap(single, in_dims=(0, 0 if x.dim() == 3 else None))(self.unflatten(theta), x)

    def dropout_masks(self, n: int, rate: float, kind: Drop, generator: Generator) -> Tensor:
        """Units are the inputs of every linear layer but the first, whatever lies between; weights, all matrices."""
        linear = [name for name, part in self.module.named_modules() if isinstance(part, torch.nn.Linear)]
        inner = {f"{name}.weight" if name else "weight" for name in linear[1:]}
        parts = []
        for name, shape in self.shapes.items():
            mask = torch.ones(n, *shape, dtype=torch.float64)
            if kind == "weights" and len(shape) > 1:
                mask = keep((n, *shape), rate, generator)
            elif kind == "units" and name in inner:
                mask = mask * keep((n, 1, shape[1]), rate, generator)
            parts.append(mask.flatten(1))
        return torch.cat(parts, dim=1)

    def last_layer(self) -> Tensor:
        linear = [name for name, part in self.module.named_modules() if isinstance(part, torch.nn.Linear)]
        last = linear[-1] if linear else ""
        sizes = [math.prod(shape) for shape in self.shapes.values()]
        flags = [name.rpartition(".")[0] == last for name in self.shapes]
        return torch.cat([torch.full((size,), flag) for size, flag in zip(sizes, flags, strict=True)])

    def blocks(self) -> list[tuple[int, int]]:
        return [(shape[0], math.prod(shape[1:])) if shape else (1, 1) for shape in self.shapes.values()]

    def init(self, n_members: int, generator: Generator) -> Tensor:
        seed = int(torch.randint(2**31, (1,), generator=generator))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            members = [torch.nn.utils.parameters_to_vector(self.make().parameters()) for _ in range(n_members)]
        return torch.stack(members).detach().double()
