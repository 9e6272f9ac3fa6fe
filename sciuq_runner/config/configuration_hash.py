"""When two runs are the same: the hash of all settings that results depend on; and which version made them."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sciuq_runner import __version__

TAG, RUN_FOLDER, COMMIT = "config_hash", "run_folder", "git_commit"
"""The tags of every run in MLflow that hold its hash, its folder and the commit that made it."""

BOOKKEEPING = ("threads", "checkpoint_interval", "figures", "tracking", "trust", "sweep", "choices")
"""Keys that change how a run is made or kept, not what it finds; the seed is none of them."""


def configuration_hash(config: Mapping[str, Any]) -> str:
    """The hash of a resolved configuration, as it is composed or as ``metrics.json`` keeps it.

    The order of keys does not count, but that of calibrators does: the first one gives ``cal_id``.
    """
    kept = {key: value for key, value in config.items() if key not in BOOKKEEPING}
    order = list((config.get("calibration") or {}).get("by") or {})
    text = json.dumps([_canonical(kept), order], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _canonical(node: Any) -> Any:
    """Values that JSON keeps: whole numbers without a point, numbers that are not finite by name."""
    if isinstance(node, Mapping):
        return {str(key): _canonical(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [_canonical(value) for value in node]
    if isinstance(node, float):
        return int(node) if node.is_integer() else node if abs(node) < float("inf") else None
    return node


def program() -> dict[str, str]:
    """The version of the program, as tags of what it makes."""
    return {COMMIT: git_commit(), "sciuq_runner": __version__}


def git_commit() -> str:
    """The commit of the source tree, if the package runs from one; ``-dirty`` if files differ from it."""
    tree = Path(__file__).resolve().parents[2]
    if not (tree / ".git").exists():
        return "none"
    command = ["git", "-C", str(tree), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # there is no git here
        return "none"
    return found.stdout.strip() or "none"
