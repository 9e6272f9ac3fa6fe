"""The target's densities against independent formulas, and its gradient against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from sciuq_runner.models.base import Prior
from sciuq_runner.models.bnn import BoundBNN
from sciuq_runner.networks import MLP
from sciuq_runner.physics.problem import InverseGamma, Noise, PointObservations
from sciuq_runner.target.density import Target
from sciuq_runner.training.autodiff import InPieces, value_and_grad
from tests.devices import elsewhere
from tests.exact import Plane, linear_regression

RNG = np.random.default_rng(1)
X = RNG.standard_normal((6, 2))
Y = RNG.standard_normal((6, 1))


def make(noise: Noise, prior: Prior | None = None, temperature: float = 1.0) -> Target:
    model = BoundBNN(Plane(), {"u": MLP(2, 1, (3,))}, prior or Prior())
    return Target(model, {"u": noise}, {"u": PointObservations(X, Y)}, temperature=temperature, dtype=torch.float64)


def predictions(target: Target, theta: torch.Tensor) -> np.ndarray:
    return target.model.observe(target.weights(theta), "u", target.tensor(X))[..., 0].numpy()


def test_the_posterior_of_a_linear_model_is_the_exact_one():
    """The log density of the target differs from the exact Gaussian's by a constant only."""
    exact = linear_regression()
    theta = torch.as_tensor(RNG.standard_normal((20, 3)))
    ours = exact.target.log_density(theta).numpy()
    theirs = stats.multivariate_normal(exact.mean, exact.covariance).logpdf(theta.numpy())
    np.testing.assert_allclose(ours - theirs, (ours - theirs)[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("scale", [0.3, np.linspace(0.1, 2, 6)[:, None]])
def test_gaussian_likelihood_with_one_or_many_known_scales(scale):
    target = make(Noise("known", scale))
    theta = torch.as_tensor(RNG.standard_normal((4, target.size)))
    expected = stats.norm(predictions(target, theta), np.ravel(scale)).logpdf(Y[:, 0]).sum(1)
    np.testing.assert_allclose(target.log_likelihood(theta).numpy(), expected, rtol=1e-12)


def test_student_t_likelihood():
    target = make(Noise("known", 0.7, "student_t", 5.0))
    theta = torch.as_tensor(RNG.standard_normal((4, target.size)))
    expected = stats.t(5.0, predictions(target, theta), 0.7).logpdf(Y[:, 0]).sum(1)
    np.testing.assert_allclose(target.log_likelihood(theta).numpy(), expected, rtol=1e-12)


def test_learned_scales_sit_behind_the_weights_and_carry_their_hyperpriors():
    target = make(Noise("learned", 0.2, hyperprior=InverseGamma(2.0, 10.0)), Prior(0.5, InverseGamma(3.0, 0.25)))
    assert target.size == target.n_weights + 2
    start = target.init(2, torch.Generator().manual_seed(0))
    np.testing.assert_allclose(start[:, -2:].exp().numpy(), [[0.2, 0.5]] * 2, rtol=1e-12)

    theta = torch.as_tensor(0.3 * RNG.standard_normal((4, target.size)))
    log_noise, log_prior = theta[:, -2].numpy(), theta[:, -1].numpy()
    noise_scale, prior_scale = np.exp(log_noise), np.exp(log_prior)
    likelihood = stats.norm(predictions(target, theta), noise_scale[:, None]).logpdf(Y[:, 0]).sum(1)
    np.testing.assert_allclose(target.log_likelihood(theta).numpy(), likelihood, rtol=1e-12)

    weights = stats.norm(0, prior_scale[:, None]).logpdf(target.weights(theta).numpy()).sum(1)
    # 1/v ~ Gamma(shape, scale b) means v ~ InverseGamma(shape, 1/b); log sigma has Jacobian dv/dlog sigma = 2 v
    noise = stats.invgamma(2.0, scale=1 / 10.0).logpdf(noise_scale**2) + np.log(2 * noise_scale**2)
    prior = stats.invgamma(3.0, scale=1 / 0.25).logpdf(prior_scale**2) + np.log(2 * prior_scale**2)
    np.testing.assert_allclose(target.log_prior(theta).numpy(), weights + noise + prior, rtol=1e-12)


def test_temperature_divides_the_whole_posterior():
    theta = torch.as_tensor(RNG.standard_normal((3, make(Noise()).size)))
    hot, cold = make(Noise()), make(Noise(), temperature=0.5)
    torch.testing.assert_close(cold.log_density(theta), 2 * hot.log_density(theta))


def test_mini_batches_are_unbiased():
    """The average over all batches of size two is the full log-likelihood, exactly."""
    target = make(Noise("known", np.linspace(0.1, 2, 6)[:, None]))
    theta = torch.as_tensor(RNG.standard_normal((3, target.size)))
    pairs = [torch.tensor([i, j]) for i in range(6) for j in range(i)]
    parts = torch.stack([target.log_likelihood(theta, {"u": (pair,)}) for pair in pairs])
    torch.testing.assert_close(parts.mean(0), target.log_likelihood(theta), rtol=1e-12, atol=1e-9)
    (drawn,) = target.batches.draw(2, torch.Generator().manual_seed(0))["u"]
    assert len(drawn) == len(set(drawn.tolist())) == 2


@pytest.mark.parametrize("kind", ["known", "learned"])
@pytest.mark.parametrize("family", ["gaussian", "student_t"])
def test_gradient_agrees_with_finite_differences(kind, family):
    target = make(Noise(kind, 0.4, family), Prior(1.0, InverseGamma(2.0, 1.0)))
    theta = torch.as_tensor(0.5 * RNG.standard_normal((2, target.size)))
    value, gradient = value_and_grad(target.log_density, theta)
    torch.testing.assert_close(value, target.log_density(theta))
    step = 1e-6
    for k in range(target.size):
        shift = torch.zeros_like(theta)
        shift[:, k] = step
        difference = (target.log_density(theta + shift) - target.log_density(theta - shift)) / (2 * step)
        torch.testing.assert_close(gradient[:, k], difference, rtol=1e-5, atol=1e-5)


def test_compiled_gradient_agrees_with_eager():
    target = make(Noise("learned", 0.4))
    theta = torch.as_tensor(RNG.standard_normal((3, target.size)))
    compiled = torch.compile(lambda t: value_and_grad(target.log_density, t), fullgraph=True, backend="aot_eager")
    for ours, theirs in zip(compiled(theta), value_and_grad(target.log_density, theta), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("pieces", [(), (torch.tensor([[0, 1], [2, 5]]),)])
def test_compiled_a_function_in_pieces_is_their_mean(pieces):
    """And in eager mode the function itself: here another one, so that the two are told apart."""

    def function(theta: torch.Tensor, factor: torch.Tensor, *picks: torch.Tensor) -> torch.Tensor:
        return theta.square().sum(1) * factor * sum((pick.sum() for pick in picks), torch.tensor(100.0))

    def both(theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return value_and_grad(InPieces(function, pieces), theta, torch.tensor(2.0))

    theta = torch.as_tensor(RNG.standard_normal((3, 5)))
    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    for call, times in ((both, 200), (compiled, 2 * (101 + 107) / 2 if pieces else 200)):
        value, gradient = call(theta)
        torch.testing.assert_close(value, times * theta.square().sum(1))
        torch.testing.assert_close(gradient, 2 * times * theta)


def test_readings_are_in_pieces_where_that_pays():
    """Every reading once, and of all members together enough in each piece."""
    target = linear_regression(n=6000).target
    assert target.batches.pieces(1)[0].shape == (3, 2000)
    (index,) = target.batches.pieces(8)
    assert index.shape == (24, 250)
    assert index.flatten().sort().values.tolist() == list(range(6000))
    assert target.batches.pieces(1000)[0].shape == (60, 100)
    assert linear_regression(n=300).target.batches.pieces(12) == ()
    assert linear_regression(n=5003).target.batches.pieces(8) == ()  # a prime number


def test_the_hyperprior_of_a_group_is_that_of_its_learned_members():
    """A known noise may have the name of a group of learned ones."""
    own = InverseGamma(3.0, 400.0)
    noise = {"u": Noise("known", 0.1), "v": Noise("learned", 0.1, hyperprior=own, group="u")}
    target = Target(linear_regression().target.model, noise, {})
    assert target.hyperprior("u") == own


def test_a_model_may_choose_where_each_member_starts_out_of_draws_of_its_own():
    target = make(Noise("learned", 0.2, hyperprior=InverseGamma(2.0, 10.0)))
    target.model.n_starts = 5
    draws = target.model.init(15, torch.Generator().manual_seed(0)).view(3, 5, -1)
    scale = torch.full((3, 5, 1), np.log(0.2), dtype=torch.float64)
    every = torch.cat([draws, scale], dim=2)
    best = target.log_density(every.flatten(0, 1)).view(3, 5).argmax(1)
    assert len(set(best.tolist())) > 1
    start = target.init(3, torch.Generator().manual_seed(0))
    assert torch.equal(start, every[torch.arange(3), best])


def test_sums_of_squares_leave_their_device_before_they_become_double():
    target, squares = make(Noise("learned", 0.2)), torch.tensor([0.5, 2.0, 8.0], dtype=torch.float64)
    here, there = (
        target.draw_log_scale(InverseGamma(2.0, 10.0), 6, item, torch.Generator().manual_seed(0))
        for item in (squares, elsewhere(squares))
    )
    torch.testing.assert_close(here, there)
