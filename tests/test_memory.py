"""What cannot fit into memory is refused before anything starts."""

from __future__ import annotations

import numpy as np
import pytest

from sciuq_runner import memory
from sciuq_runner.errors import ConfigError
from sciuq_runner.memory import Need
from tests.conftest import Inside


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (["method.n_samples=1e9"], "method.n_samples=1000000000"),
        (["method=nuts", "method.n_samples=1e9"], "method.n_samples=1000000000"),
        (["method=dens", "model.width=100000"], "method.n_members=10"),
        (["method=gp", "method.n_prior=1e9"], "method.n_prior=1000000000"),
        (["method=sens", "method.n_members=1e9"], "method.n_members=20000000000"),
        (["method=swag", "method.n_samples=1e9"], "method.n_samples=1000000000"),
        (["method=mfvi", "method.n_samples=1e9"], "method.n_samples=1000000000"),
        (["problem.n_train=100000000000"], "the data of this problem"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_fit_is_refused_beforehand(inside: Inside, tmp_path, settings, key):
    found = inside("fidelity=smoke", "tracking=none", *settings)
    assert found.status == 2
    assert key in found.err
    assert "memory" in found.err
    assert found.err.count("\n") == 1, found.err
    assert not list(tmp_path.iterdir())


def test_the_full_matrix_of_laplace_is_estimated(monkeypatch):
    from sciuq_runner.methods.la import LA
    from tests.exact import linear_regression

    target = linear_regression().target
    (matrix,) = [need for need in LA().needs(target) if need.key == "method.hessian=full"]
    assert matrix.size == 24 * target.n_weights**2
    assert not [need for need in LA(hessian="diag").needs(target) if need.key == "method.hessian=full"]


def test_the_limit_of_memory_is_that_of_the_container(tmp_path, monkeypatch):
    free = memory.free_memory()
    assert 1e8 < free < 1e14
    (tmp_path / "limit").write_text("5000000000")
    (tmp_path / "usage").write_text("4900000000")
    monkeypatch.setattr(memory, "LIMITS", ((str(tmp_path / "limit"), str(tmp_path / "usage")),))
    assert memory.free_memory() == 100_000_000
    memory.refuse([Need("a=1", "small things", 9e7)])
    with pytest.raises(ConfigError, match="a=2 is too large for the memory: large things take"):
        memory.refuse([Need("a=1", "small things", 9e7), Need("a=2", "large things", 1.1e8)])
    (tmp_path / "limit").write_text("max")
    assert memory.free_memory() > 100_000_000


def test_predictions_are_part_of_the_estimate():
    """What is estimated is what is held: half as much would not do, and ten times as much is not asked for."""
    import tracemalloc

    from sciuq_runner.predictive import Predictive

    members = np.random.default_rng(0).normal(size=(400, 1000, 1))
    tracemalloc.start()
    kept = Predictive.of_members(members, np.full((400, 1000, 1), 0.1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak + 2 * members.nbytes < 5 * members.nbytes + 1e6  # the estimate has five for one quantity
    assert kept.members.nbytes == members.nbytes
