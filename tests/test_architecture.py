"""Rules of the architecture that a reader relies on."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RUNNER = [*(ROOT / "sciuq_runner").rglob("*.py"), *(ROOT / "problems").rglob("*.py")]


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_the_layers_are_kept():
    """Configuration and tracking above, science below, no cycles: the contracts of import-linter in pyproject.toml."""
    found = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("path", sorted((ROOT / "problems").glob("*.py")), ids=lambda path: path.name)
def test_problems_know_neither_configuration_nor_inference(path):
    """import-linter follows packages by their folders, and these lie outside of ours in the tree."""
    above = ("hydra", "omegaconf", "mlflow", "sciuq_runner.methods", "sciuq_runner.models", "sciuq_runner.config")
    assert not [name for name in imports(path) if name.startswith(above)]


def test_mlflow_is_one_package():
    users = {path for path in RUNNER if any(name.split(".")[0] == "mlflow" for name in imports(path))}
    package = ROOT / "sciuq_runner"
    assert {path for path in users if path.parent != package / "tracking"} == {package / "pyfunc.py"}


@pytest.mark.parametrize("path", RUNNER, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_pickled_or_evaluated(path):
    assert not {name.split(".")[0] for name in imports(path)} & {
        "pickle",
        "cloudpickle",
        "dill",
        "joblib",
        "shelve",
    }
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"eval", "exec", "compile"}


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], {"torch", "mlflow", "hydra", "pyro", "laplace", "matplotlib"}),
        (["--cfg", "job"], {"torch", "mlflow", "pyro", "laplace", "matplotlib"}),
        (["-sc", "install=bash"], {"torch", "mlflow", "pyro", "laplace", "matplotlib"}),
        (["problem=functoin"], {"torch", "mlflow", "pyro", "laplace", "matplotlib"}),
    ],
)
def test_a_question_imports_nothing_heavy(arguments, heavy):
    code = (
        "import sys\nfrom sciuq_runner.cli.run import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        f"found = {heavy!r} & set(sys.modules)\nsys.exit(f'imported {{found}}' if found else 0)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
