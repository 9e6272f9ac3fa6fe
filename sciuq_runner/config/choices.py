"""The choices of every group of the configuration, read from the files alone: no import of Hydra."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path


def options(group: str, config_dir: str | None) -> Iterator[tuple[str, str]]:
    """Names of the files of a group with the first line that describes each."""
    roots = [resources.files("sciuq_runner.conf").joinpath(group)]
    if config_dir:
        roots.append(Path(config_dir) / group)
    for root in roots:
        if not root.is_dir():
            continue
        for file in root.iterdir():
            if file.name.endswith(".yaml"):
                yield file.name.removesuffix(".yaml"), describe(file.read_text(encoding="utf-8"))


def describe(content: str) -> str:
    """The first comment of a file that is not an instruction to Hydra."""
    for line in content.splitlines():
        if line.startswith("#") and "@package" not in line:
            return line.lstrip("# ").rstrip()
    return ""
