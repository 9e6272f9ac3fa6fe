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
    monkeypatch.setattr(memory, "LIMITS", ((str(tmp_path), "limit", "usage", "inactive_file"),))
    assert memory.free_memory() == 100_000_000
    (tmp_path / "memory.stat").write_text("anon 7\ninactive_file 50000000\ntotal_inactive_file 9\n")
    assert memory.free_memory() == 150_000_000  # files that were read before make room for what is needed
    (tmp_path / "memory.stat").unlink()
    memory.refuse([Need("a=1", "small things", 9e7)])
    with pytest.raises(ConfigError, match="a=2 is too large for the memory: large things take"):
        memory.refuse([Need("a=1", "small things", 9e7), Need("a=2", "large things", 1.1e8)])
    (tmp_path / "limit").write_text("max")
    assert memory.free_memory() > 100_000_000


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["sweep=local", "sweep.jobs=3"], "0.333 GB are free for each of 3 jobs at once"),
        pytest.param(["sweep=local", "sweep.jobs=64"], "0.25 GB are free for each of 4", marks=pytest.mark.full),
        pytest.param(["sweep=slurm_local"], "0.25 GB are free for each of 4 jobs at once", marks=pytest.mark.full),
        (["sweep=slurm", "sweep.memory_gb=2"], "a job has 2.15 GB (sweep.memory_gb)"),
        (["sweep=basic"], "1 GB are free"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_job_of_a_sweep_has_its_share_of_the_memory(inside: Inside, tmp_path, monkeypatch, settings, told):
    """Of four jobs, by where they run; nodes of SLURM may have more than the machine that submits."""
    monkeypatch.setattr(memory, "free_memory", lambda: 1_000_000_000)
    found = inside("-m", "seed=range(0,4)", "fidelity=smoke", "tracking=none", "method.n_samples=1e9", *settings)
    assert found.status == 2
    assert told in found.err
    assert found.err.count("\n") == 1, found.err
    assert not list(tmp_path.iterdir())


def test_what_fits_into_a_share_is_not_refused(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 1000)
    need = [Need("a=1", "things", 400.0)]
    memory.refuse(need, memory.Share(jobs=2))
    memory.refuse(need, memory.Share(size=401.0))
    with pytest.raises(ConfigError, match="for each of 3 jobs"):
        memory.refuse(need, memory.Share(jobs=3))


def test_predictions_are_part_of_the_estimate():
    """What is estimated is what is held: half as much would not do, and ten times as much is not asked for."""
    import tracemalloc

    from sciuq_runner.predict.predictive import Predictive

    members = np.random.default_rng(0).normal(size=(400, 1000, 1))
    tracemalloc.start()
    kept = Predictive.of_members(members, np.full((400, 1000, 1), 0.1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak + 2 * members.nbytes < 5 * members.nbytes + 1e6  # the estimate has five for one quantity
    assert kept.members.nbytes == members.nbytes
