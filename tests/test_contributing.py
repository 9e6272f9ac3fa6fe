"""The examples of CONTRIBUTING.md work as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tests.conftest import read_metrics, run_folders

TEXT = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = r"`{}` has [^`]*?```(?:python|yaml)\n(.*?)```"


def example(path: str) -> str:
    """The code block that stands for a file."""
    found = re.search(BLOCK.format(re.escape(path)), TEXT, re.DOTALL)
    assert found, path
    return found[1]


def test_a_problem_and_a_method_of_the_guide_run_together(cli, tmp_path):
    classes = {
        "problem": ("problems/cooling.py", "sciuq_runner.problems.cooling"),
        "method": ("sciuq_runner/methods/maximum.py", "sciuq_runner.methods.maximum"),
    }
    for group, (path, module) in classes.items():
        name = Path(path).stem
        (tmp_path / f"{name}.py").write_text(example(path))
        folder = tmp_path / "mine" / group
        folder.mkdir(parents=True)
        (folder / f"{name}.yaml").write_text(example(f"conf/{group}/{name}.yaml").replace(module, name))
    settings = ("problem=cooling", "method=maximum", "fidelity=smoke", "method.n_steps=2000", "tracking=none")
    found = cli("--config-dir", "mine", *settings, "trust=[cooling,maximum]")
    assert found.returncode == 0, found.stderr
    (run,) = run_folders(tmp_path)
    metrics = read_metrics(run)
    assert metrics["u"]["id"]["rl2e"] < 0.2  # the noise alone makes about 0.1
    assert np.isfinite(metrics["u"]["ood"]["rl2e"])
