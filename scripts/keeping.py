"""Numbers that scripts have measured, kept where the page beside the paper reads them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from sciuq_runner.reproduction.explanations import MEASURED, resource

HEADER = "# Written by scripts with --keep, each under its name; read by explanations.yaml.\n"


def keep(script: str, numbers: Mapping[str, Any]) -> None:
    """Put the numbers of a script, which may be nested, in the place of those of the same names."""
    found = merged(resource(MEASURED), {script: rounded(numbers)})
    path = Path(str(resources.files("sciuq_runner.reproduction"))) / MEASURED
    path.write_text(HEADER + yaml.safe_dump(found, sort_keys=True), encoding="utf-8")


def merged(old: Any, new: Any) -> Any:
    """Two nested mappings as one; of what both have, the new."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    return {**old, **{key: merged(old.get(key, {}), value) for key, value in new.items()}}


def rounded(node: Any) -> Any:
    """All numbers with four digits."""
    return {key: rounded(value) for key, value in node.items()} if isinstance(node, Mapping) else float(f"{node:.4g}")


def by_name(found: Mapping[int, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Numbers of several seeds, by their name and then by seed."""
    names = dict.fromkeys(name for values in found.values() for name in values)
    return {name: {f"seed_{seed}": values[name] for seed, values in sorted(found.items())} for name in names}
