"""The predictive distribution of a quantity: mean, aleatoric and epistemic variance, member functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sciuq_runner.methods.posterior import Posterior
from sciuq_runner.models.random_fields import BoundRandomFieldModel
from sciuq_runner.physics.problem import Array, Observations, OperatorPairs
from sciuq_runner.target.density import Target

CPU_CHUNK = 16_000
"""Members times points that are evaluated at once on a CPU, whose caches then hold what lies between two layers: half
the time of 250 000 for values, a third of it for second derivatives."""

DEVICE_CHUNK = 250_000
"""The same on other devices: a few hundred megabytes with derivatives."""

REALISED = 4_000_000
"""Members times points times realisations of a random field that are evaluated at once."""

OPERATED = 16
"""Members of an operator that are evaluated at once."""

KEPT_MEMBERS, KEPT_FUNCTIONS = 20, 1
"""Up to how many members are kept of all functions, and of how many functions in each part if there are more."""

N_STATISTIC_EIGENVALUES = 10


@dataclass(frozen=True)
class Predictive:
    r"""Total variance of a Bayesian model average (Sections 3.1 of the paper),

    .. math::
        \bar\mu(x) = \frac1M \sum_j u_{\theta_j}(x), \qquad
        \bar\sigma^2(x) = \underbrace{\frac1M \sum_j \sigma^2_{\theta_j}(x)}_{\text{aleatoric}}
        + \underbrace{\frac1M \sum_j (u_{\theta_j}(x) - \bar\mu(x))^2}_{\text{epistemic}}.

    Shapes:
        ``members`` is ``[M, N, D_q]``, everything else ``[N, D_q]``. Of operators with many members ``members`` holds
        some of the functions only.
    """

    mean: Array
    aleatoric_var: Array
    epistemic_var: Array
    members: Array
    noise_std: tuple[Array, Array]  # mean and spread over the members of the predicted noise

    @classmethod
    def of_members(cls, members: Array, noise_var: Array) -> Predictive:
        """Combine member functions ``[M, N, D_q]`` with their noise variances, broadcastable to the same."""
        mean = members.mean(0)
        variances = np.broadcast_to(noise_var, members.shape)
        scales = np.sqrt(variances)
        return cls(mean, variances.mean(0), members.var(0), members, (scales.mean(0), scales.std(0)))

    @property
    def std(self) -> Array:
        """Total standard deviation."""
        found: Array = np.sqrt(self.aleatoric_var + self.epistemic_var)
        return found

    @property
    def aleatoric_std(self) -> Array:
        found: Array = np.sqrt(self.aleatoric_var)
        return found

    @property
    def epistemic_std(self) -> Array:
        found: Array = np.sqrt(self.epistemic_var)
        return found


NOWHERE = Predictive.of_members(np.empty((1, 0, 1)), np.array(0.0))
"""The prediction at no points."""


def predict_observed(target: Target, posterior: Posterior, quantity: str, observed: Observations) -> Predictive:
    """Predict what was observed: at the same points or of the same functions, with noise where that has noise."""
    if not isinstance(observed, OperatorPairs):
        return predict(target, posterior, quantity, observed.x, observed.is_clean)
    if not len(observed):
        return NOWHERE
    return predict_operator(target, posterior, quantity, observed.x, observed.inputs, observed.is_clean)


def predict(
    target: Target, posterior: Posterior, quantity: str, x: Array, clean: bool = False, inputs: Array | None = None
) -> Predictive:
    """Push the samples of a posterior through the model at ``x[N, D]``, to predict new readings there.

    A member of a random field is the mean over its realisations, and their variance is a part of the aleatoric one; so
    what is predicted is a realisation of which nothing else is known. ``clean`` leaves out the noise. Of an operator,
    what it makes of the functions ``inputs[R, S]``, one column each.
    """
    points = target.tensor(x)
    if inputs is not None:
        return predict_operator(target, posterior, quantity, x, inputs, clean)

    def value(theta: Tensor) -> Tensor:
        return target.observe(theta, quantity, points)

    def noise(theta: Tensor) -> Tensor:
        return target.noise_scale(theta, quantity, points).expand(len(theta), -1, -1)

    scale = posterior.evaluate_scale(noise).cpu().double().numpy()
    variance = np.zeros(()) if clean else scale**2 * target.noise[quantity].variance_factor
    if isinstance(target.model, BoundRandomFieldModel):
        chunk = max(1, REALISED // max(1, len(x) * target.model.n_realisations))
        parts = torch.cat([moments(part) for part in posterior.chunks(value, chunk)]).numpy()
        return Predictive.of_members(parts[..., :1], parts[..., 1:] + variance)
    at_once = CPU_CHUNK if points.device.type == "cpu" else DEVICE_CHUNK
    chunk = max(1, min(256, at_once // max(1, len(x))))
    members = posterior.evaluate(value, chunk).cpu().double()
    several = target.model.alternatives(quantity)
    if several > 1:  # each makes a member of every sample
        members = members.transpose(1, 2).flatten(0, 1)[..., None]
        variance = variance if variance.ndim == 0 else variance.repeat(several, axis=0)
    if quantity in target.transforms:
        mean, spread = target.transforms[quantity].undo(members, x, torch.tensor(variance))
        return Predictive.of_members(mean.numpy(), spread.numpy())
    return Predictive.of_members(members.numpy(), variance)


def predict_operator(
    target: Target, posterior: Posterior, quantity: str, x: Array, inputs: Array, clean: bool
) -> Predictive:
    """What an operator makes of functions; moments are summed up function by function, members kept as far as they
    fit."""
    points, functions = target.tensor(x), target.standardised_inputs(inputs)
    scale = posterior.evaluate_scale(lambda theta: target.noise_scale(theta, quantity, points))
    factor = 0.0 if clean else target.noise[quantity].variance_factor
    variance = factor * scale.cpu().double() ** 2
    transform = target.transforms.get(quantity)
    per_part = max(1, REALISED // max(1, len(x) * len(scale)))

    def operate(part: Tensor) -> list[Array]:
        found = posterior.chunks(lambda theta: target.operate(theta, quantity, points, part), OPERATED)
        values = torch.cat([item.cpu() for item in found]).double()
        spread = variance.expand(len(values), len(x), 1)
        mean, noise = (values, spread) if transform is None else transform.undo(values, x, spread)
        deviation = noise.expand(mean.shape).sqrt()
        moments = mean.mean(0), (deviation**2).mean(0), mean.var(0, correction=0), deviation.mean(0)
        kept = mean[:, :, : KEPT_FUNCTIONS if len(values) > KEPT_MEMBERS else None].float()
        return [item.numpy() for item in (*moments, deviation.std(0, correction=0), kept)]

    parts = zip(*(operate(part) for part in torch.split(functions, per_part)), strict=True)
    mean, aleatoric, epistemic, *noise, members = (np.concatenate(part, axis=-1) for part in parts)
    return Predictive(mean, aleatoric, epistemic, members, (noise[0], noise[1]))


def moments(values: Tensor) -> Tensor:
    """Mean and variance over realisations ``[M, N, R]``, in double precision: ``[M, N, 2]``."""
    values = values.cpu().double()
    return torch.stack([values.mean(-1), values.var(-1, correction=0)], dim=-1)


def predict_statistics(
    target: Target, posterior: Posterior, quantity: str, x: Array, sensed: Mapping[str, Array]
) -> dict[str, Predictive]:
    """Statistics of a random field over new realisations, whose random inputs were ``sensed``; by name.

    They are numbers that a member gives, and there is nothing random in them but theta.
    """
    model, points = target.model, target.tensor(x)
    assert isinstance(model, BoundRandomFieldModel)

    def value(theta: Tensor) -> Tensor:
        return model.realise(target.weights(theta), quantity, points, sensed)

    n_realisations = next(iter(sensed.values())).shape[1]
    chunk = max(1, REALISED // max(1, len(x) * n_realisations))
    parts = [statistics(part) for part in posterior.chunks(value, chunk)]
    return {
        name: Predictive.of_members(torch.cat([part[name] for part in parts]).numpy(), np.array(0.0))
        for name in parts[0]
    }


def statistics(values: Tensor) -> dict[str, Tensor]:
    """Mean, standard deviation and leading eigenvalues of the covariance matrix over realisations ``[M, N, R]``.

    The first two are functions of the points, ``[M, N, 1]``, the last ``[M, N_STATISTIC_EIGENVALUES, 1]`` in
    descending order.
    """
    values = values.cpu().double()
    mean = values.mean(-1, keepdim=True)
    deviations = values - mean
    covariance = deviations @ deviations.mT / values.shape[-1]
    eigenvalues = torch.linalg.eigvalsh(covariance).flip(-1)[:, :N_STATISTIC_EIGENVALUES, None].clamp(min=0)
    std = covariance.diagonal(dim1=-2, dim2=-1).sqrt()[..., None]
    return {"mean": mean, "std": std, "eigenvalues": eigenvalues}
