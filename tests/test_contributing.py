"""The examples of CONTRIBUTING.md work as they stand."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import torch

from sciuq_runner.evaluation import metrics, plots
from sciuq_runner.evaluation.plots import registry
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


def imported(path: Path, code: str) -> ModuleType:
    """A module with this code."""
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_metric_of_the_guide_is_evaluated(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "KNOWN_METRICS", dict(metrics.KNOWN_METRICS))
    (code,) = re.findall(r"```python\n(@metric.*?)```", TEXT, re.DOTALL)
    head = "from __future__ import annotations\nfrom sciuq_runner.evaluation.metrics import Array, metric, np\n"
    imported(tmp_path / "worst.py", head + code)
    found = metrics.evaluate(metrics.SplitArrays(np.zeros(3), np.ones(3), np.array([1.0, -2.0, 0.0])))
    assert found["worst_error"] == 2


def test_the_figure_of_the_guide_is_drawn_from_its_own_data(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "KNOWN_FIGURES", [])
    imported(tmp_path / "weights.py", example("sciuq_runner/evaluation/plots/weights.py"))
    plots.write_data(tmp_path, SimpleNamespace(posterior=SimpleNamespace(theta=torch.ones(7, 3))))  # type: ignore[arg-type]
    assert plots.data_files() == ["weights.npz"]
    (figure,) = plots.figures(plots.Drawing(tmp_path, {}, "A title")).values()
    assert sum(bar.get_height() for bar in figure().axes[0].patches) == 21
