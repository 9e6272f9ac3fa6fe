"""Rules of the architecture that a reader relies on."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCIENCE = [
    *(ROOT / "problems").glob("*.py"),
    *(
        path
        for part in ("methods", "models", "networks", "calibration")
        for path in (ROOT / "sciuq_runner" / part).glob("*.py")
    ),
    *(
        ROOT / "sciuq_runner" / f"{name}.py"
        for name in ("target", "predictive", "metrics", "results", "optim", "autodiff", "loop")
    ),
]
RUNNER = [*(ROOT / "sciuq_runner").rglob("*.py"), *(ROOT / "problems").rglob("*.py")]


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", SCIENCE, ids=lambda path: str(path.relative_to(ROOT)))
def test_science_knows_neither_configuration_nor_tracking(path):
    roots = {name.split(".")[0] for name in imports(path)}
    assert not roots & {"hydra", "omegaconf", "mlflow"}


def test_methods_and_problems_do_not_know_each_other():
    for path in (ROOT / "problems").glob("*.py"):
        assert not any(name.startswith("sciuq_runner.methods") for name in imports(path))
    for path in (ROOT / "sciuq_runner" / "methods").glob("*.py"):
        assert not any(name.startswith("sciuq_runner.problems") for name in imports(path))


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
