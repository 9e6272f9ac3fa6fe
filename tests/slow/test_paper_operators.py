"""Paper fidelity of operators: hours, run by name with ``scripts/test --slow``.

Errors of heads from known conductivities are of u itself, those from noisy readings of standardised values, as in the
paper.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

from sciuq_runner.physics.data_cache import CACHE_VARIABLE
from tests.conftest import environment, program, read_metrics, run_folders

pytestmark = pytest.mark.slow

PAPER = {  # relative errors of the paper's single field, like those of training
    "pa_bnn_fp": {"log_lambda": 0.267, "u": 0.146},
    "pa_gan_fp": {"log_lambda": 0.163, "u": 0.077},
}
SCORES = ("std", "gan_mse", "gan_nll")
MEMORY = 4096.0  # MB


def finish(folder: Path, *settings: str, timeout: float, **variables: str) -> list[dict[str, Any]]:
    """The metrics of all runs of a command, on two cores."""
    command, env = program(*settings, "tracking=none"), environment(OMP_NUM_THREADS="2", **variables)
    found = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    assert found.returncode == 0, found.stderr
    return [read_metrics(path) for path in run_folders(folder)]


@pytest.fixture(scope="module")
def ensembles(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Three ensembles, each with its members and scores, on a hundred conductivities of every correlation length."""
    folder = tmp_path_factory.mktemp("ensembles")
    return finish(folder, "-m", "experiment=paper/darcy_ood", "seed=0,1,2", timeout=36_000)


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Ten fields like those of training, with both priors."""
    folder = tmp_path_factory.mktemp("fields")
    runs = finish(folder, "-m", "experiment=paper/darcy_noisy", "problem.new_length=0.25", timeout=72_000)
    by_model = {name: [run for run in runs if run["config"]["choices"]["model"] == name] for name in PAPER}
    assert [len(found) for found in by_model.values()] == [10, 10]
    return by_model


def test_an_ensemble_of_operators_is_accurate_and_beats_simpler_methods(ensembles):
    """The paper has 0.04 for one conductivity."""
    assert fmean(run["u"]["id"]["rl2e"] for run in ensembles) < 0.05
    for run in ensembles:
        for split in ("id", "ood_0.15"):
            others = run["baselines"][split]
            assert run["u"][split]["rl2e"] < min(others[name] for name in ("linear", "linear_log", "member"))


def test_an_ensemble_of_operators_knows_where_it_errs(ensembles):
    """Most of the domain is more than half of it."""
    assert fmean(run["u"]["id"]["coverage"] for run in ensembles) > 0.5
    assert fmean(run["detection"]["std"]["rise_ood_0.15"] for run in ensembles) >= 0.25


def test_scores_rise_out_of_distribution(ensembles):
    for score in (*SCORES, "residual"):
        assert fmean(run["detection"][score]["rise_ood_0.15"] for run in ensembles) >= 0.15, score
        assert all(0.5 < run["detection"][score]["auroc_ood_0.15"] <= 1 for run in ensembles), score


@pytest.mark.parametrize("model", PAPER)
@pytest.mark.parametrize("quantity", ["log_lambda", "u"])
def test_fields_from_noisy_readings(fields, model, quantity):
    assert error(fields[model], quantity) <= 1.5 * PAPER[model][quantity]


@pytest.mark.parametrize("quantity", ["log_lambda", "u"])
def test_a_learned_prior_is_more_accurate_than_networks(fields, quantity):
    assert error(fields["pa_gan_fp"], quantity) < error(fields["pa_bnn_fp"], quantity)


def error(runs: list[dict[str, Any]], quantity: str) -> float:
    return median(run[quantity]["id"]["rl2e_standardised"] for run in runs)


def test_memory_is_bounded(ensembles, fields):
    """Jobs of a sweep follow each other in one process, so that the last has the largest of all."""
    runs = [*ensembles, *(run for found in fields.values() for run in found)]
    assert max(run["cost"]["peak_rss_mb"] for run in runs) < MEMORY


def test_the_first_example_takes_minutes_from_nothing(tmp_path):
    """With defaults: data, training and everything after it."""
    started = time.monotonic()
    (run,) = finish(tmp_path, "problem=darcy", "method=dens", timeout=900, **{CACHE_VARIABLE: str(tmp_path / "cache")})
    assert time.monotonic() - started < 240
    assert run["u"]["id"]["rl2e"] < 0.09
    assert 0 < run["u"]["ood"]["rl2e"] < 1
