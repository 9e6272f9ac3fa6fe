"""Writing results so that a file is either complete or not there."""

from __future__ import annotations

import errno
import json
import lzma
import math
import os
import re
import secrets
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from sciuq_runner.errors import ConfigError, first_line
from sciuq_runner.memory import free_memory

ARCHIVE_ERRORS = (
    *(OSError, ValueError, EOFError, KeyError, AttributeError, RuntimeError, MemoryError, OverflowError, TypeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, SyntaxError, struct.error, UnicodeError, IndexError),
)
"""What numpy and zipfile raise for archives that are damaged, or made to be."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then rename it.

    Its name is one that nobody else uses, and its content is on the disk before the name changes: neither another
    writer nor a machine that stops leaves half a file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.partial{path.suffix}")
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        error.filename = str(path)  # what was wanted, not the name that is gone by now
        raise
    finally:
        temporary.unlink(missing_ok=True)


def link_or_copy(source: Path, path: Path) -> None:
    """A second name for a file that is written once: a hard link, or a copy where the file system has none."""

    def link(target: Path) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)

    write_atomically(path, link)


def remove_partial(folder: Path) -> None:
    """Take away what a writer that was killed left of its temporary files."""
    for path in folder.rglob(".*.partial*"):
        path.unlink(missing_ok=True)


def refuse_links(folder: Path) -> None:
    """Refuse a run folder in which a link leads out of it: whoever works on the run would write, or upload, there."""
    top = folder.resolve()
    for path in folder.rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(top):
            raise ConfigError(f"{path} is a link that leads out of the run folder: remove it.")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Plain JSON; numbers that are not finite become null, which every reader understands."""
    text = json.dumps(_finite(value), indent=2, allow_nan=False)
    write_atomically(path, lambda target: target.write_text(text + "\n", encoding="utf-8"))


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Arrays by name; no objects, hence no pickle."""
    write_atomically(path, lambda target: np.savez_compressed(target, **arrays))  # type: ignore[arg-type]


BOMB_SIZE, BOMB_RATIO = 2**28, 100
"""An archive that unpacks to more than this, and to more than so many times its own size, holds no readings."""


def refuse_bomb(path: Path, unpacked: float) -> None:
    """Refuse an archive that is small on the disk and would fill the memory."""
    if (unpacked > BOMB_SIZE and unpacked > BOMB_RATIO * path.stat().st_size) or unpacked > free_memory():
        raise ConfigError(
            f"{path} would unpack to {unpacked / 1e9:.3g} GB, many times its own size: save it without compression if "
            "these are readings."
        )


def unpacked_size(path: Path) -> float:
    """Bytes of all members of an archive."""
    with zipfile.ZipFile(path) as archive:
        return sum(item.file_size for item in archive.infolist())


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Arrays by name; a file that is not such an archive is named in a sentence."""
    try:
        refuse_bomb(path, unpacked_size(path))
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except ARCHIVE_ERRORS as error:
        raise ConfigError(f"{path} cannot be read as arrays ({first_line(error)}): is the file complete?") from error


def read_json(path: Path) -> dict[str, Any]:
    """An object of a JSON file; a file that holds none is named in a sentence."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read ({first_line(error)}): is the file complete?") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} should hold a JSON object.")
    return value


def require(values: Mapping[str, Any], kinds: Mapping[str, type], path: Path) -> None:
    """Refuse the content of a file in which a key is missing or has a value of another type than in ``kinds``."""
    for key, kind in kinds.items():
        if not isinstance(values.get(key), kind):
            raise ConfigError(f"{path} does not say {key}: it is damaged, or of another version of sciuq_runner.")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Tensors by name in the safetensors format."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}

    def save(target: Path) -> None:
        try:
            save_file(plain, target, dict(metadata or {}))
        except SafetensorError as error:  # names the error of the system in its text only
            found = re.search(r"os error (\d+)", str(error))
            number = int(found.group(1)) if found else errno.EIO
            raise OSError(number, os.strerror(number), str(target)) from error

    write_atomically(path, save)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{path} cannot be read as tensors ({first_line(error)}): is the file complete?") from error


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
