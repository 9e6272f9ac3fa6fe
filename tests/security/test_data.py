"""Data files that hold code, or more than fits into memory."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from sciuq_runner import files
from sciuq_runner.errors import ConfigError
from sciuq_runner.physics.data_files import read_arrays, read_columns
from tests.security.conftest import Attack


def test_the_attack_of_these_tests_works(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    pickle.loads(pickle.dumps(Attack()))  # noqa: S301
    assert (tmp_path / "inner" / "ATTACKED").exists()


def pickled(path: Path) -> None:
    """A file of each kind that unpickling would read."""
    payload = pickle.dumps(Attack())
    if path.suffix == ".npz":
        array = np.empty(1, dtype=object)
        array[0] = Attack()
        np.savez(path, x=array, u=array)
    elif path.suffix == ".mat":
        scipy.io.savemat(path, {"x": np.frombuffer(payload, dtype=np.uint8), "u": payload.hex()})
    else:
        path.write_bytes(payload)


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".csv"])
def test_pickles_in_data_are_refused(tmp_path, suffix):
    path = tmp_path / f"data{suffix}"
    pickled(path)
    with pytest.raises(ConfigError, match=str(path)):
        read_columns(path, ["x", "u"], "problem.observed.u.file")


def test_a_pickle_in_the_place_of_an_archive_or_of_tensors_is_refused(tmp_path):
    for name in ("a.npz", "a.npy", "a.safetensors"):
        (tmp_path / name).write_bytes(pickle.dumps(Attack()))
        with pytest.raises(ConfigError, match="is the file complete"):
            (files.read_tensors if "safe" in name else files.read_npz)(tmp_path / name)
    array = np.empty(1, dtype=object)
    array[0] = Attack()
    np.savez(tmp_path / "b.npz", quantities=array)
    with pytest.raises(ConfigError, match="Object arrays cannot be loaded"):
        files.read_npz(tmp_path / "b.npz")


def zeros_member(count: int) -> bytes:
    """The header of an array of so many zeros in double precision."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (count,)})
    return head.getvalue()


def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path):
    """A gigabyte of zeros in a megabyte."""
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("x", "u"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(zeros_member(2**26))
                for _ in range(8):
                    member.write(bytes(2**26))
    assert path.stat().st_size < 2**23
    for read in (files.read_npz, lambda path: read_columns(path, ["x", "u"], "file")):
        with pytest.raises(ConfigError, match=r"would unpack to 1.07 GB"):
            read(path)


def test_an_archive_that_lies_about_its_size_is_refused(tmp_path):
    path = tmp_path / "lies.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("x", "u"):
            archive.writestr(f"{name}.npy", zeros_member(2**50) + bytes(80))
    for read in (files.read_npz, lambda path: read_columns(path, ["x", "u"], "file")):
        with pytest.raises(ConfigError, match="is the file complete"):
            read(path)


def test_a_compressed_matlab_file_that_would_fill_the_memory_is_refused(tmp_path):
    """The header of an array of 2**33 numbers, in which only a few bytes are compressed."""
    scipy.io.savemat(tmp_path / "small.mat", {"x": np.zeros(3), "u": np.zeros(3)}, do_compression=True)
    content = (tmp_path / "small.mat").read_bytes()
    start, out = 128, content[:128]
    while start < len(content):
        _, length = struct.unpack("<II", content[start : start + 8])
        body = bytearray(zlib.decompress(content[start + 8 : start + 8 + length]))
        body[32:40] = struct.pack("<ii", 2**30, 8)  # the dimensions
        packed = zlib.compress(bytes(body))
        out += struct.pack("<II", 15, len(packed)) + packed
        start += 8 + length
    (tmp_path / "bomb.mat").write_bytes(out)
    with pytest.raises(ConfigError, match=r"would unpack to 137 GB|cannot be read"):
        read_columns(tmp_path / "bomb.mat", ["x", "u"], "file")


def test_a_compressed_matlab_file_with_more_than_it_says_is_refused(tmp_path, monkeypatch):
    """An array of three numbers by its header, with half a gigabyte behind it."""
    scipy.io.savemat(tmp_path / "small.mat", {"x": np.zeros(3)}, do_compression=True)
    content = (tmp_path / "small.mat").read_bytes()
    packer = zlib.compressobj(1)
    body = bytearray(zlib.decompress(content[136:]))
    body[-28:-24] = struct.pack("<I", 2**29)  # the length of the numbers
    packed = packer.compress(bytes(body)) + b"".join(packer.compress(bytes(2**26)) for _ in range(8)) + packer.flush()
    (tmp_path / "bomb.mat").write_bytes(content[:128] + struct.pack("<II", 15, len(packed)) + packed)
    assert scipy.io.whosmat(tmp_path / "bomb.mat") == [("x", (1, 3), "double")]
    monkeypatch.setattr(scipy.io, "loadmat", lambda *_, **__: pytest.fail("unpacked"))
    with pytest.raises(ConfigError, match=r"would unpack to .* GB"):
        read_columns(tmp_path / "bomb.mat", ["x"], "file")


@pytest.mark.parametrize("kind", ["cell", "sparse", "struct", "object array"])
def test_what_a_matlab_file_holds_is_known_before_it_is_unpacked(tmp_path, monkeypatch, kind):
    """A cell of one entry can hold gigabytes of zeros, as can what is inside of a sparse matrix."""
    inner = np.zeros(2**20)
    cell = np.empty(1, dtype=object)
    cell[0] = inner
    values = {
        "cell": cell,
        "sparse": scipy.sparse.csc_matrix((inner, np.zeros(2**20, int), [0, 2**20]), shape=(1, 1)),
        "struct": {"a": inner},
        "object array": np.array([{"a": inner}, {"a": inner}], dtype=object),
    }[kind]
    scipy.io.savemat(tmp_path / "bomb.mat", {"x": np.zeros(1), "u": values}, do_compression=True)
    monkeypatch.setattr(scipy.io, "loadmat", lambda *_, **__: pytest.fail("unpacked"))
    with pytest.raises(ConfigError, match=r"u holds (objects|a sparse matrix|records): save"):
        read_columns(tmp_path / "bomb.mat", ["x", "u"], "file")
    with pytest.raises(ConfigError, match=r"u holds (objects|a sparse matrix|records): save"):
        read_arrays(tmp_path / "bomb.mat", ["x"], ["u"], "file")
