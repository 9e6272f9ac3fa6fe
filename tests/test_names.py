"""One name, one meaning: no two modules define a class or a constant of the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SAME_MEANING = {
    "DIFFUSION",  # the coefficient in the equation of a problem
    "T",  # any type
}


def defined(source: str) -> Iterator[str]:
    """The classes and UPPER_CASE constants that a module defines."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            yield from (part.id for part in parts if isinstance(part, ast.Name) and part.id.isupper())


def repeated(modules: dict[str, str]) -> dict[str, list[str]]:
    """Names that several modules define, given the modules' source."""
    places: dict[str, list[str]] = defaultdict(list)
    for module, source in modules.items():
        for name in set(defined(source)):
            places[name].append(module)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_repeated_names_are_found():
    modules = {
        "a": "class Run:\n    SIZE = 1\nLEFT, RIGHT = 1, 2\nlower = 3\n",
        "b": "class Run: ...\nRIGHT: int = 2\nlower = 4\nSIZE = 1\n",
        "c": "from a import Run, LEFT\ndef f():\n    LEFT = 1\n",
    }
    assert repeated(modules) == {"Run": ["a", "b"], "RIGHT": ["a", "b"]}


def test_no_two_modules_define_the_same_name():
    paths = [path for top in ("sciuq_runner", "problems") for path in sorted((ROOT / top).rglob("*.py"))]
    assert len(paths) > 100
    found = repeated({str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths})
    assert {name: places for name, places in found.items() if name not in SAME_MEANING} == {}
    assert set(found) >= SAME_MEANING  # an allowance that nobody needs goes
