"""What methods object to before they start, and what they say where they cannot go on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sciuq_runner.calibration.conformal import Conformal
from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain
from sciuq_runner.config.resolvers import register_resolvers
from sciuq_runner.errors import ConfigError, RunError
from sciuq_runner.methods import la, ld
from sciuq_runner.methods.gp import GP
from sciuq_runner.methods.nuts import NUTS
from sciuq_runner.methods.swag import SWAG
from sciuq_runner.physics.noise import Noise
from sciuq_runner.training.loop import Loop
from tests.exact import linear_regression

register_resolvers()


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ("method=dens method.anchored=true method.batch_size=5", "method.anchored=true adds noise to every"),
        ("method=dens method.anchored=true problem.case=unknown", "method.anchored=true needs Gaussian noise"),
        ("method=dens method.anchored=true method.weight_decay=0.001", "method.weight_decay has no meaning"),
        ("method=dens model.learn_prior=true", "model.learn_prior=true has no meaning for method=dens"),
        ("method=dens temperature=0.5", "temperature"),
        ("method=gp model.learn_prior=true", "method=gp takes its kernel from a fixed prior"),
        ("method=gp problem.case=unknown", "method=gp needs Gaussian noise of known scale"),
        ("method=gp problem=mixed_pde", "method=gp is for function approximation"),
        ("method=mcd model=gan_fp", "method=mcd needs a network to drop weights of"),
        ("method=la model=gan_fp method.weights=last_layer", "method.weights=last_layer needs a model with layers"),
        (
            "method=mfvi method.early_stopping=true problem.n_validation=0",
            "method.early_stopping=true needs validation",
        ),
        ("method=mfvi problem.case=unknown method.scale_delay=1e9", "method.scale_delay=1000000000 leaves none"),
        ("method=sgld method.n_samples=1e6", "n_samples=1000000 is more than"),
    ],
)
def test_settings_that_have_no_meaning_are_refused_by_name(settings, key):
    with pytest.raises(ConfigError, match="^(method: )?" + key):
        prepare(assemble(plain(compose([*settings.split(), "fidelity=smoke"], None))))


def test_a_jacobian_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(la, "TOO_MANY", 10)
    assert "would need the derivatives" in str(la.LA().objection(linear_regression().target))


@pytest.mark.parametrize(
    ("method", "warning"),
    [
        (NUTS(n_chains=1, n_burn=5, n_samples=5), "Stopped before the first chain was done"),
        (SWAG(n_steps=20, n_samples=4), "Stopped before two snapshots"),
    ],
)
def test_what_is_left_of_a_method_that_was_stopped_at_once_is_no_posterior(method, warning):
    loop = Loop()
    loop.request_stop()
    posterior = method.run(linear_regression().target, torch.Generator().manual_seed(0), loop)
    assert any(text.startswith(warning) for text in posterior.warnings)


def test_a_kernel_that_is_not_positive_definite_ends_in_a_sentence(monkeypatch):
    monkeypatch.setattr(torch.linalg, "cholesky_ex", lambda matrix: (matrix, torch.tensor(1)))
    with pytest.raises(RunError, match="kernel matrix is not positive definite"):
        GP(n_samples=5, n_prior=5).run(linear_regression().target, torch.Generator().manual_seed(0), Loop())


def test_a_density_without_curvature_gives_no_step(monkeypatch):
    monkeypatch.setattr(ld, "largest_curvature", lambda *_: float("nan"))
    with pytest.raises(RunError, match=r"give method\.step_size"):
        ld.LD(n_chains=2, n_burn=5, n_samples=4, step_size=None).run(
            linear_regression().target, torch.Generator().manual_seed(0), Loop()
        )


def test_heavy_tails_inform_less():
    """The Fisher information of a Student-t scale family is (nu + 1) / (nu + 3) of the Gaussian one."""
    heavy = SimpleNamespace(noise=Noise(family="student_t", degrees_of_freedom=5.0))
    assert la.fisher_scale(heavy) ** -2 == pytest.approx(6 / 8)  # type: ignore[arg-type]
    assert la.fisher_scale(SimpleNamespace(noise=Noise())) == 1.0  # type: ignore[arg-type]


def test_conformal_intervals_from_few_observations_come_with_a_caution():
    assert "carry no guarantee at 95 %: that takes 19" in str(Conformal().caution(18, "readings"))
    assert Conformal().caution(19, "readings") is None
