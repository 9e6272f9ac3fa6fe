"""Paper fidelity on the function problem: minutes, run by name with ``scripts/test --slow``."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from sciuq_runner.evaluation.result_files import read_results
from tests.conftest import read_metrics, run_folders

pytestmark = pytest.mark.slow


def test_hmc_has_the_bands_of_the_exact_posterior(cli, tmp_path):
    """These hold whatever the noise draw; the paper has piw 0.452, sdcv 0.046 and 1.423 out of distribution."""
    found = cli("problem=function", "method=hmc", "fidelity=paper", "tracking=none", timeout=1800)
    assert found.returncode == 0, found.stderr
    (folder,) = run_folders(tmp_path)
    metrics = read_metrics(folder)
    assert 0.40 < metrics["u"]["id"]["piw"] < 0.50
    assert metrics["u"]["id"]["sdcv"] < 0.08
    assert 1.2 < metrics["u"]["ood"]["piw"] < 1.8
    assert metrics["diagnostics"]["rhat_max"] < 1.1


def test_compiled_runs_are_bit_identical(cli, tmp_path):
    for _ in range(2):
        found = cli("fidelity=smoke", "method.compile=always", "tracking=none", timeout=900)
        assert found.returncode == 0, found.stderr
    first, again = (read_metrics(folder) for folder in run_folders(tmp_path))
    assert first["u"] == again["u"]
    assert first["diagnostics"] == again["diagnostics"]


def test_epistemic_uncertainty_of_hmc_grows_with_noise_and_with_fewer_readings(cli, tmp_path):
    """On average over two seeds, where there are data; that of dropout need not."""
    sweep = ["problem.n_train=32,16", "problem.noise_scale=0.1,0.3,0.5", "seed=0,1"]
    found = cli("-m", "method=hmc", "tracking=none", "gold=null", *sweep, timeout=3600)
    assert found.returncode == 0, found.stderr
    spread: dict[tuple[int, float], float] = defaultdict(float)
    for folder in run_folders(tmp_path):
        problem, result = read_metrics(folder)["config"]["problem"], read_results(folder)["u"]
        key = problem["n_train"], problem["noise_scale"]
        spread[key] += float(np.mean(result.epistemic_std[result.splits["id"]] ** 2))
    for n in (32, 16):
        assert spread[n, 0.1] < spread[n, 0.3] < spread[n, 0.5]
    for scale in (0.1, 0.3, 0.5):
        assert spread[32, scale] < spread[16, scale]


@pytest.mark.parametrize("method", ["hmc", "mfvi", "la"])
def test_an_unknown_noise_scale_is_learned(cli, tmp_path, method):
    """The truth is 0.1; the paper has 0.15, 0.10 and 0.14."""
    found = cli(f"method={method}", "problem.case=unknown", "fidelity=paper", "tracking=none", timeout=3600)
    assert found.returncode == 0, found.stderr
    (folder,) = run_folders(tmp_path)
    assert 0.08 < read_metrics(folder)["noise"]["u"]["mean"] < 0.17
