"""Files of columns: what can be read, and a sentence with file and place for all that cannot."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from sciuq_runner.errors import ConfigError
from sciuq_runner.physics.data_files import inside, read_columns

LABEL = "problem.data.u"


def write(folder: Path, content: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def save(folder: Path, kind: str, **arrays: Any) -> Path:
    path = folder / f"data{kind}"
    if kind == ".npz":
        np.savez(path, **arrays)
    else:
        scipy.io.savemat(path, arrays)
    return path


def sentence(path: Path, *columns: str) -> str:
    """The mistake in a file, without the label and the file with which it must start."""
    with pytest.raises(ConfigError) as caught:
        read_columns(path, columns or ("x", "u"), LABEL)
    start, said = f"{LABEL}: {path}", str(caught.value)
    assert said.startswith(start)
    assert "\n" not in said
    return said.removeprefix(start).lstrip(":").strip()


@pytest.mark.parametrize(
    "text",
    [
        "x,t,u\n0,1,2\n3,4,5\n",
        "x, t, u\r\n0, 1, 2\r\n3, 4, 5\r\n",
        "x;t;u\n0;1;2\n3;4;5",
        "x\tt\tu\n0\t1\t2\n3\t4\t5\n",
        "  x   t u\n0 1   2\n  3 4 5  \n",
        '"x","t","u"\n"0",1,2.0\n3e0,+4,.5e1\n',
        "# made by hand\nx,t,u\n\n0,1,2\n  # a pause\n3,4,5\n\n",
        "u,name,x,t\n2,a,0,1\n5,b,3,4\n",
        "\ufeffx,t,u\n0,1,2\n3,4,5\n",
    ],
)
def test_tables(tmp_path, text):
    found = read_columns(write(tmp_path, text), ("u", "x", "t"), LABEL)
    assert list(found) == ["u", "x", "t"]
    assert {name: values.tolist() for name, values in found.items()} == {"x": [0, 3], "t": [1, 4], "u": [2, 5]}
    assert all(values.dtype == np.float64 for values in found.values())


def test_one_column_and_a_capital_extension(tmp_path):
    assert read_columns(write(tmp_path, "u\n1\n2\n", "DATA.CSV"), ["u"], LABEL)["u"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty: is the file complete?"),
        ("# nothing\n\n", "has no lines but comments: a header and rows should follow."),
        ("x,u\n", "has a header and no rows: add at least one."),
        ("0,1\n2,3\n", "has no header: its first line, without #, should be x, u."),
        ("# x,u\n0,1\n2,3\n", "has no header: its first line, without #, should be x, u."),
        ("x,v,temp\n0,1,2\n", "has no column u: choose one of temp, v, x"),
        ("x,uu\n0,1\n", "has no column u: did you mean 'uu'?"),
        ("x,u,u\n0,1,2\n", "has 2 columns u: rename all but one."),
        ("x,u\n0,1\n2,three\n", "has 'three' in line 3, column u: it should be a number."),
        ("# a\nx,u\n\n0,1\n2,1_0\n", "has '1_0' in line 5, column u: it should be a number."),
        ("x;u\n0;1\n2;0,5\n", "has '0,5' in line 3, column u: it should be a number (decimals have a point)."),
        ("x,u\n0,1\n2,1+2j\n", "has '1+2j' in line 3, column u: it should be a number."),
        ("x,u\n0,1\n2,\n", "has no value in line 3, column u: fill it in or remove the line."),
        ("x,u\n0,1\nNaN,1\n", "has NaN in line 3, column x: remove the line."),
        ("x,u\n0,-inf\n1,1\n", "has -inf in line 2, column u: remove the line."),
        ("x,u\n0,1e999\n1,1\n", "has 1e999 in line 2, column u: remove the line."),
        ("x,u\n0,1\n2\n", "has 1 value in line 3: its header has 2 names."),
        ("x,u\n0,1\n2,3,4\n", "has 3 values in line 3: its header has 2 names."),
        ("x,u\n0 1\n", "has 1 value in line 2: its header has 2 names."),
        (b"x,u\n0,1\n\xff,1\n", "is not UTF-8 text (byte 8): save it as CSV UTF-8."),
        ("x,u\n0,1\n".encode("utf-16"), "is not UTF-8 text (byte 0): save it as CSV UTF-8."),
    ],
)
def test_mistakes_in_tables(tmp_path, text, said):
    assert sentence(write(tmp_path, text)) == said


def test_a_table_that_the_csv_module_refuses(tmp_path):
    said = sentence(write(tmp_path, 'x,u\n0,1\n2,"' + "3" * 200_000))
    assert said == "cannot be read in line 3 (field larger than field limit (131072))."


def test_other_columns_may_hold_anything(tmp_path):
    path = write(tmp_path, "x,note,u,note\n0,nan,1,\n2,text,3,a\n")
    assert read_columns(path, ("x", "u"), LABEL)["u"].tolist() == [1, 3]


def test_files_that_are_not_there(tmp_path):
    assert sentence(tmp_path / "none.csv") == "does not exist: check the name and the folder."
    assert sentence(tmp_path) == "is a folder: name a file in it."
    assert sentence(write(tmp_path, "x", "data.xlsx")) == "should end with .csv, .npz or .mat."
    assert sentence(write(tmp_path, "x", "data")) == "should end with .csv, .npz or .mat."
    assert sentence(tmp_path / ("long" * 200 + ".csv")).startswith("cannot be read ([Errno 36]")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    path = write(tmp_path, "x,u\n0,1\n")
    path.chmod(0)
    assert sentence(path).startswith("cannot be read ([Errno 13]")


@pytest.mark.parametrize("kind", [".npz", ".mat"])
class TestArrays:
    """What the two binary formats have in common."""

    def test_vectors_of_any_orientation(self, tmp_path, kind):
        path = save(
            tmp_path, kind, x=np.arange(3), t=np.arange(3.0)[:, None], u=np.arange(3, dtype=np.float32)[None], v="other"
        )
        found = read_columns(path, ("x", "t", "u"), LABEL)
        for values in found.values():
            assert values.dtype == np.float64
            assert values.tolist() == [0, 1, 2]

    def test_a_meshgrid_is_flattened_together(self, tmp_path, kind):
        x, t = np.meshgrid(np.arange(3.0), np.arange(2.0))
        found = read_columns(save(tmp_path, kind, x=x, t=t, u=10 * x + t), ("x", "t", "u"), LABEL)
        assert found["u"].shape == (6,)
        np.testing.assert_array_equal(found["u"], 10 * found["x"] + found["t"])

    def test_one_value(self, tmp_path, kind):
        assert read_columns(save(tmp_path, kind, u=3.0), ["u"], LABEL)["u"].tolist() == [3]

    def test_axes_without_a_meshgrid(self, tmp_path, kind):
        path = save(tmp_path, kind, x=np.zeros(3), t=np.zeros(2), u=np.zeros((2, 3)))
        expected = "has arrays of the shapes x 3, t 2, u 2 x 3: save a meshgrid, all arrays in one shape."
        assert sentence(path, "x", "t", "u") == expected
        path = save(tmp_path, kind, x=np.zeros((3, 2)), u=np.zeros((2, 3)))
        assert sentence(path) == "has arrays of the shapes x 3 x 2, u 2 x 3: save a meshgrid, all arrays in one shape."

    def test_different_lengths(self, tmp_path, kind):
        path = save(tmp_path, kind, x=np.zeros(3), u=np.zeros((4, 1)))
        assert sentence(path) == "has arrays of the lengths x 3, u 4: all should have the same."

    def test_missing(self, tmp_path, kind):
        path = save(tmp_path, kind, x=np.zeros(3), uu=np.zeros(3))
        assert sentence(path) == "has no array u: did you mean 'uu'?"
        assert sentence(save(tmp_path, kind)) == "has no array x: it has none at all."

    def test_not_finite(self, tmp_path, kind):
        path = save(tmp_path, kind, x=np.zeros(3), u=np.array([0, 1, np.nan]))
        assert sentence(path) == "u has nan in row 3: remove this point from all arrays."
        path = save(tmp_path, kind, x=np.zeros((2, 2)), u=np.array([[0, 1], [-np.inf, 0]]))
        assert sentence(path) == "u has -inf in position (2, 1): remove this point from all arrays."

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            (np.zeros(2, complex) + 1j, "complex numbers: save the real and the imaginary part as two arrays."),
            (np.array(["a", "b"]), "text: save numbers."),
            (np.array([1, "a"], dtype=object), "objects: save plain numbers."),
        ],
    )
    def test_other_kinds(self, tmp_path, kind, values, said):
        assert sentence(save(tmp_path, kind, x=np.zeros(2), u=values)) == f"u holds {said}"

    def test_empty(self, tmp_path, kind):
        assert sentence(save(tmp_path, kind, x=np.zeros(0), u=np.zeros(0))) == "x has no values."
        assert sentence(write(tmp_path, b"", f"data{kind}")) == "is empty: is the file complete?"

    def test_damaged(self, tmp_path, kind):
        path = save(tmp_path, kind, x=np.arange(500.0), u=np.arange(500.0))
        whole = path.read_bytes()
        for size in (3, 50, 130, 200, len(whole) // 2, len(whole) - 10):
            said = sentence(write(tmp_path, whole[:size], path.name))
            assert "complete" in said or said == "has no array u: choose one of x"  # the end of a .mat is not marked
        said = sentence(write(tmp_path, b"this is not such a file " * 20, path.name))
        assert "complete" in said


def test_damage_inside_an_archive(tmp_path):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=np.arange(500.0), u=np.random.default_rng(0).normal(size=500))
    content = bytearray(path.read_bytes())
    content[-1500:-1400] = bytes(100)
    assert sentence(write(tmp_path, bytes(content), path.name)).endswith("is the file complete?")


def test_an_array_in_place_of_an_archive(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    expected = "is no archive of arrays, or not complete: save it with numpy.savez."
    assert sentence(write(tmp_path, buffer.getvalue(), "data.npz")) == expected


def test_a_pickle_is_never_loaded(tmp_path):
    attack = b"cos\nsystem\n(S'touch " + str(tmp_path / "hacked").encode() + b"'\ntR."
    assert "numpy.savez" in sentence(write(tmp_path, attack, "data.npz"))
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (117 - len(header)) + b"\n"
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("u.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + attack)
    assert sentence(tmp_path / "data.npz", "u") == "u holds objects: save plain numbers."
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("u", attack)
    assert sentence(tmp_path / "data.npz", "u") == "u holds objects: save plain numbers."
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array([True, False]), "true and false: save numbers."),
        (np.zeros(2, [("a", float)]), "records: save each of their fields as an array of numbers."),
        (np.zeros(2, "M8[s]"), "dates: save numbers, such as the seconds since the first one."),
        (np.zeros(2, "m8[s]"), "durations: save numbers, such as seconds."),
        (np.array([b"a", b"b"]), "text: save numbers."),
    ],
)
def test_kinds_of_npz_only(tmp_path, values, said):
    assert sentence(save(tmp_path, ".npz", x=np.zeros(2), u=values)) == f"u holds {said}"


def test_kinds_of_mat_only(tmp_path):
    path = save(tmp_path, ".mat", x=np.zeros(2), u={"a": 1.0}, s=scipy.sparse.eye(2, format="csc"))
    assert sentence(path) == "u holds records: save each of their fields as an array of numbers."
    assert sentence(path, "s") == "s holds a sparse matrix: save it with full( )."


def test_mat_7_3(tmp_path):
    header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
    expected = "is a MATLAB 7.3 file: save it with save(..., '-v7')."
    assert sentence(write(tmp_path, header + bytes(384) + b"\x89HDF\r\n\x1a\n" + bytes(99), "data.mat")) == expected
    assert sentence(write(tmp_path, b"\x89HDF\r\n\x1a\n" + bytes(999), "data.mat")) == expected


def test_an_array_saved_twice(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("u.npy", buffer.getvalue())
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("u.npy", buffer.getvalue())
    assert sentence(tmp_path / "data.npz", "u") == "has 2 arrays u: rename all but one."
    content = save(tmp_path, ".mat", u=np.zeros(3)).read_bytes()
    assert sentence(write(tmp_path, content + content[128:], "data.mat"), "u") == "has 2 arrays u: rename all but one."


def test_compressed_and_old_mat(tmp_path):
    for options in ({"do_compression": True}, {"format": "4"}):
        scipy.io.savemat(tmp_path / "data.mat", {"x": np.arange(3.0), "u": np.arange(3.0)}, **options)
        assert read_columns(tmp_path / "data.mat", ("x", "u"), LABEL)["u"].tolist() == [0, 1, 2]


DOMAIN = {"x": (0.0, 2 * np.pi), "t": (-1.0, 1.0)}


def test_points_inside():
    x = np.array([0, np.pi, 2 * np.pi]).astype(np.float32).astype(float)
    assert x[-1] > 2 * np.pi  # rounded up by single precision
    inside({"x": x, "t": np.array([-1.0, 0.0, 1.0]), "u": np.full(3, 99.0)}, DOMAIN, Path("data.csv"), LABEL)
    inside({"x": x}, DOMAIN, Path("data.csv"), LABEL)


@pytest.mark.parametrize(
    ("x", "t", "said"),
    [
        ([0, 7, 1], [0, 0, 2], "x=7 in row 2 of its data, outside of the domain from 0 to 6.283185307: "),
        ([0, 0, 7], [0, -1.5, 0], "t=-1.5 in row 2 of its data, outside of the domain from -1 to 1: "),
        ([0, 0], [0, 1.0001], "t=1.0001 in row 2 of its data, outside of the domain from -1 to 1: "),
        ([-0.001, 0], [2, 0], "t=2 in row 1 of its data, outside of the domain from -1 to 1: "),
    ],
)
def test_points_outside(x, t, said):
    with pytest.raises(ConfigError) as caught:
        inside({"x": np.array(x), "t": np.array(t)}, DOMAIN, Path("data.csv"), LABEL)
    expected = f"{LABEL}: data.csv has {said}extend the domain or remove the row."
    assert str(caught.value) == expected
