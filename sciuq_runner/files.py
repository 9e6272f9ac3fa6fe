"""Writing results so that a file is either complete or not there."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Plain JSON; numbers that are not finite become null, which every reader understands."""
    text = json.dumps(_finite(value), indent=2, allow_nan=False)
    write_atomically(path, lambda target: target.write_text(text + "\n", encoding="utf-8"))


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Arrays by name; no objects, hence no pickle."""
    write_atomically(path, lambda target: np.savez_compressed(target, **arrays))  # type: ignore[arg-type]


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Tensors by name in the safetensors format."""
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, lambda target: save_file(plain, target, dict(metadata)))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
