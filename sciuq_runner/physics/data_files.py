"""Columns of numbers from the files that people have: .csv, .npz and .mat."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sciuq_runner.errors import ConfigError, first_line, nearest
from sciuq_runner.files import ARCHIVE_ERRORS, BOMB_RATIO, BOMB_SIZE, refuse_bomb, unpacked_size

LARGEST_NUMBER = 1e18
"""Of a number whose square single precision still holds."""

OTHER_UNITS = "its square is more than single precision holds: write it in other units."

TOLERANCE = 1e-6
"""How far outside of the domain a point may lie, in widths of the domain: the rounding of single precision."""

DTYPE_KINDS = {
    "c": "complex numbers: save the real and the imaginary part as two arrays",
    "O": "objects: save plain numbers",
    "V": "records: save each of their fields as an array of numbers",
    "U": "text: save numbers",
    "S": "text: save numbers",
    "b": "true and false: save numbers",
    "M": "dates: save numbers, such as the seconds since the first one",
    "m": "durations: save numbers, such as seconds",
}
"""What an array can hold instead of numbers, by the kind of its dtype."""

MAT_NUMBERS = ("double", "single", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
MAT_COMPRESSED = 15  # the type of an element that holds another one
MAT_KINDS = {
    "sparse": "a sparse matrix: save it with full( )",
    "struct": DTYPE_KINDS["V"],
    "char": DTYPE_KINDS["U"],
    "logical": DTYPE_KINDS["b"],
}
"""The same by the class of MATLAB; all others hold objects."""


def read_columns(path: Path, columns: Sequence[str], label: str) -> dict[str, np.ndarray]:
    """Read the named columns as vectors of equal length, in double precision; all values are finite.

    Arrays of one common shape (a meshgrid) are flattened together. ``label`` says in mistakes which setting named
    the file.
    """
    where = f"{label}: {path}"
    return _read(path, where, {".csv": _read_csv, ".npz": _read_npz, ".mat": _read_mat}, columns)


def read_arrays(path: Path, required: Sequence[str], optional: Sequence[str], label: str) -> dict[str, np.ndarray]:
    """Read named arrays of any shape, in double precision; all values are finite."""
    where = f"{label}: {path}"

    def npz(path: Path, required: Sequence[str], where: str) -> dict[str, np.ndarray]:
        return _load_npz(path, required, where, optional)

    def mat(path: Path, required: Sequence[str], where: str) -> dict[str, np.ndarray]:
        return _load_mat(path, required, where, optional)

    arrays = _read(path, where, {".npz": npz, ".mat": mat}, required)
    return {name: _numbers(name, array, where) for name, array in arrays.items()}


Reader = Callable[[Path, Sequence[str], str], dict[str, np.ndarray]]


def _read(path: Path, where: str, readers: Mapping[str, Reader], names: Sequence[str]) -> dict[str, np.ndarray]:
    """Choose the reader by the file's name."""
    *others, last = readers
    try:
        if not path.exists():
            raise ConfigError(f"{where} does not exist: check the name and the folder.")
        if path.is_dir():
            raise ConfigError(f"{where} is a folder: name a file in it.")
        if path.suffix.lower() not in readers:
            raise ConfigError(f"{where} should end with {', '.join(others)} or {last}.")
        if not path.stat().st_size:
            raise ConfigError(f"{where} is empty: is the file complete?")
        return readers[path.suffix.lower()](path, names, where)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read ({first_line(error)}).") from error


def inside(values: Mapping[str, np.ndarray], domain: Mapping[str, tuple[float, float]], path: Path, label: str) -> None:
    """All points must lie in the domain; the first that does not is named, rows being counted from 1."""
    outside: list[tuple[int, str]] = []
    for name in domain.keys() & values.keys():
        low, high = domain[name]
        slack = TOLERANCE * (high - low)
        (rows,) = np.nonzero((values[name] < low - slack) | (values[name] > high + slack))
        outside += [(int(rows[0]), name)] if len(rows) else []
    if outside:
        row, name = min(outside)
        low, high = domain[name]
        raise ConfigError(
            f"{label}: {path} has {name}={values[name][row]:.10g} in row {row + 1} of its data, outside of the domain "
            f"from {low:.10g} to {high:.10g}: extend the domain or remove the row."
        )


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """The SHA-256 of the content of every file, by its name."""
    return {str(path): _digest(path) for path in paths}


def changed(known: Mapping[str, str]) -> list[str]:
    """Those of the files with ``known`` digests that hold something else now; a file that is gone did not change."""
    return [name for name, digest in known.items() if Path(name).is_file() and _digest(Path(name)) != digest]


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({first_line(error)}).") from error


def _read_csv(path: Path, columns: Sequence[str], where: str) -> dict[str, np.ndarray]:
    """A table with a header; separated by tabs, semicolons, commas or blanks, lines starting with # being comments."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where} is not UTF-8 text (byte {error.start}): save it as CSV UTF-8.") from error
    numbered = [(i, line) for i, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
    if not numbered:
        raise ConfigError(f"{where} has no lines but comments: a header and rows should follow.")
    separator = next((mark for mark in "\t;," if mark in numbered[0][1]), None)
    (_, header), *rows = [(i, _cells(line, separator, where, i)) for i, line in numbered]
    if all(_is_number(cell) for cell in header):
        raise ConfigError(f"{where} has no header: its first line, without #, should be {', '.join(columns)}.")
    for name in columns:
        _check_there(name, header, "column", where)
    if not rows:
        raise ConfigError(f"{where} has a header and no rows: add at least one.")
    for i, cells in rows:
        if len(cells) != len(header):
            given = f"{len(cells)} value{'s' * (len(cells) != 1)}"
            raise ConfigError(f"{where} has {given} in line {i}: its header has {len(header)} names.")
    return {name: _column(name, header.index(name), rows, where) for name in columns}


def _cells(line: str, separator: str | None, where: str, i: int) -> list[str]:
    if separator is None or '"' not in line:
        return [cell.strip() for cell in line.split(separator)]
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, skipinitialspace=True))]
    except csv.Error as error:
        raise ConfigError(f"{where} cannot be read in line {i} ({first_line(error)}).") from error


def _column(name: str, index: int, rows: Sequence[tuple[int, list[str]]], where: str) -> np.ndarray:
    values = np.empty(len(rows))
    for row, (i, cells) in enumerate(rows):
        cell = cells[index]
        if not cell:
            raise ConfigError(f"{where} has no value in line {i}, column {name}: fill it in or remove the line.")
        if not _is_number(cell):
            point = " (decimals have a point)" if _is_number(cell.replace(",", ".")) else ""
            raise ConfigError(f"{where} has {cell[:40]!r} in line {i}, column {name}: it should be a number{point}.")
        values[row] = float(cell)
        if not math.isfinite(values[row]):
            raise ConfigError(f"{where} has {cell[:40]} in line {i}, column {name}: remove the line.")
        if abs(values[row]) > LARGEST_NUMBER:
            raise ConfigError(f"{where} has {cell[:40]} in line {i}, column {name}: {OTHER_UNITS}")
    return values


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python takes 1_000 for a number


def _read_npz(path: Path, columns: Sequence[str], where: str) -> dict[str, np.ndarray]:
    return _vectors(_load_npz(path, columns, where), where)


def _load_npz(path: Path, columns: Sequence[str], where: str, optional: Sequence[str] = ()) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    name = ""
    try:
        if not zipfile.is_zipfile(path):
            raise ConfigError(f"{where} is no archive of arrays, or not complete: save it with numpy.savez.")
        refuse_bomb(path, unpacked_size(path))
        with np.load(path, allow_pickle=False) as archive:
            for name in columns:
                _check_there(name, archive.files, "array", where)
            for name in (*columns, *(item for item in optional if item in archive.files)):
                arrays[name] = archive[name]
    except ARCHIVE_ERRORS as error:
        if "Object arrays" in str(error):
            raise ConfigError(f"{where}: {name} holds {DTYPE_KINDS['O']}.") from error
        raise ConfigError(f"{where} cannot be read ({first_line(error)}): is the file complete?") from error
    return arrays


def _read_mat(path: Path, columns: Sequence[str], where: str) -> dict[str, np.ndarray]:
    return _vectors(_load_mat(path, columns, where), where)


def _load_mat(path: Path, columns: Sequence[str], where: str, optional: Sequence[str] = ()) -> dict[str, Any]:
    from scipy.io import loadmat, whosmat

    content = path.read_bytes()
    try:
        shapes = whosmat(io.BytesIO(content))
        names = [name for name, *_ in shapes]
        for name in columns:
            _check_there(name, names, "array", where)
        wanted = [*columns, *(name for name in optional if name in names)]
        for name, _, kind in shapes:
            if name in wanted and kind not in MAT_NUMBERS:  # its shape would not say how much is inside
                raise ConfigError(f"{where}: {name} holds {MAT_KINDS.get(kind, DTYPE_KINDS['O'])}.")
        stated = sum(8.0 * math.prod(shape) for name, shape, _ in shapes if name in wanted)
        refuse_bomb(path, max(stated, _unpacked_mat(content)))
        arrays = loadmat(io.BytesIO(content), variable_names=wanted)
    except ConfigError:
        raise
    except Exception as error:  # scipy raises whatever the bytes of a damaged file lead it to
        if isinstance(error, NotImplementedError) or b"\x89HDF" in content[:1024]:
            raise ConfigError(f"{where} is a MATLAB 7.3 file: save it with save(..., '-v7').") from error
        raise ConfigError(f"{where} cannot be read ({first_line(error)}): is the file complete?") from error
    return {name: arrays[name] for name in wanted}


def _unpacked_mat(content: bytes) -> float:
    """Bytes of the compressed variables of a MATLAB file, counted up to where no observations are so large.

    The shape in a header is only what the file says of itself: scipy unpacks what is there.
    """
    order = {b"MI": ">", b"IM": "<"}.get(content[126:128])
    if order is None:  # of a version that compresses nothing
        return 0.0
    limit = max(BOMB_SIZE, BOMB_RATIO * len(content)) + 1.0
    start, total = 128, 0.0
    while start + 8 <= len(content) and total < limit:
        kind, length = struct.unpack(f"{order}II", content[start : start + 8])
        rest, reader = content[start + 8 : start + 8 + length], zlib.decompressobj()
        while kind == MAT_COMPRESSED and rest and total < limit and not reader.eof:
            total += len(reader.decompress(rest, 2**20))
            rest = reader.unconsumed_tail
        start += 8 + length
    return total


def _check_there(name: str, names: Sequence[str], what: str, where: str) -> None:
    if name not in names:
        hint = nearest(name, names) if names else "it has none at all."
        raise ConfigError(f"{where} has no {what} {name}: {hint}")
    if names.count(name) > 1:
        raise ConfigError(f"{where} has {names.count(name)} {what}s {name}: rename all but one.")


def _vectors(arrays: Mapping[str, Any], where: str) -> dict[str, np.ndarray]:
    """Check what the arrays hold and bring them to one dimension."""
    plain = {name: _numbers(name, array, where) for name, array in arrays.items()}
    if len({array.shape for array in plain.values()}) <= 1:  # vectors, or all on one meshgrid
        return {name: array.ravel() for name, array in plain.items()}
    shapes = ", ".join(f"{name} {' x '.join(map(str, array.shape)) or '1'}" for name, array in plain.items())
    if any(array.ndim > 1 for array in plain.values()):
        raise ConfigError(f"{where} has arrays of the shapes {shapes}: save a meshgrid, all arrays in one shape.")
    raise ConfigError(f"{where} has arrays of the lengths {shapes}: all should have the same.")


def _numbers(name: str, array: Any, where: str) -> np.ndarray:
    if not isinstance(array, np.ndarray):  # an archive gives what is no array as it is, in bytes
        raise ConfigError(f"{where}: {name} holds {DTYPE_KINDS['O']}.")
    if array.dtype.kind not in "fiu":
        raise ConfigError(f"{where}: {name} holds {DTYPE_KINDS.get(array.dtype.kind, 'no numbers')}.")
    if not array.size:
        raise ConfigError(f"{where}: {name} has no values.")
    numbers = array.astype(np.float64)
    if numbers.size == max(numbers.shape, default=1):  # a vector, be it written as a row or a column
        numbers = numbers.ravel()
    if not np.isfinite(numbers).all():
        place = np.argwhere(~np.isfinite(numbers))[0]
        at = f"row {place[0] + 1}" if len(place) == 1 else f"position ({', '.join(str(i + 1) for i in place)})"
        raise ConfigError(f"{where}: {name} has {numbers[tuple(place)]} in {at}: remove this point from all arrays.")
    if np.abs(numbers).max() > LARGEST_NUMBER:
        raise ConfigError(f"{where}: {name} has a value of {np.abs(numbers).max():.3g}: {OTHER_UNITS}")
    return numbers
