"""Paper fidelity on the function problem: minutes, run by name with ``scripts/test -m slow``."""

from __future__ import annotations

import pytest

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
