"""Parts of Hydra without a public name have one door."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def imported(path: Path) -> set[str]:
    """The full names of all that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_one_module_imports_them():
    files = [path for part in ("sciuq_runner", "problems", "scripts") for path in (ROOT / part).rglob("*.py")]
    users = {
        path.relative_to(ROOT).as_posix()
        for path in files
        if any(name.startswith("hydra._internal") for name in imported(path))
    }
    assert users == {"sciuq_runner/config/hydra_internals.py"}
