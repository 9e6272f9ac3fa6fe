"""The examples at quick fidelity: unknown numbers are found, with intervals that hold the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import read_metrics, run_folders

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("seed", [0, 1])
def test_the_coefficients_of_the_kdv_equation_are_recovered(cli, tmp_path, seed):
    """Third derivative, two unknown numbers; by Laplace's approximation, in two minutes or so."""
    problem = f"problem={EXAMPLES / 'kdv.yaml'}"
    found = cli(problem, "method=la", "fidelity=quick", "tracking=none", "threads=1", f"seed={seed}", timeout=3600)
    assert found.returncode == 0, found.stdout + found.stderr
    (folder,) = run_folders(tmp_path)
    metrics = read_metrics(folder)
    assert metrics["u"]["id"]["rl2e"] < 0.02
    for name, truth in {"a": 1.0, "b": 0.01}.items():
        learned = metrics["parameters"][name]
        assert learned["reference"] == truth
        assert learned["lower"] < truth < learned["upper"]
        assert learned["mean"] == pytest.approx(truth, rel=0.05)
        assert learned["std"] < 0.1 * truth
