"""Thousands of wrong configurations, problems, expressions and data files: each is answered, or means something.

Only the stage that checks is at work, nothing is trained. No case may end in another error than ours, take longer than
30 seconds, or be taken for right without giving finite numbers.
"""

from __future__ import annotations

import copy
import io
import keyword
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import torch
import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from sciuq_runner.cli.run import parse as parse_arguments
from sciuq_runner.cli.run import run
from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.config.problem_files import adopt_files
from sciuq_runner.errors import ConfigError
from sciuq_runner.memory import is_shortage
from sciuq_runner.physics.data_files import read_arrays, read_columns
from sciuq_runner.physics.expression_parser import parse
from sciuq_runner.physics.expressions import FUNCTIONS
from tests import tiers
from tests.conftest import Inside

CASES = {"expressions": 1000, "problems": 350, "texts": 150, "files": 400, "settings": 200, "lines": 25}
"""How many of each are tried in the full tier."""


def test_there_are_enough_cases():
    assert sum(CASES.values()) >= 2000


Tried = Callable[..., None]


@pytest.fixture(params=["the same", pytest.param("of the day", marks=pytest.mark.full)])
def tried(request: pytest.FixtureRequest) -> Tried:
    """Check so many different inputs of a kind: half of them the same ones always, or in the full tier those of the
    day."""

    def call(kind: str, check: Callable[..., None], *inputs: st.SearchStrategy[Any]) -> None:
        n, seen = CASES[kind] if request.param == "of the day" else CASES[kind] // 2, 0

        @settings(
            max_examples=n,
            deadline=30_000,
            derandomize=request.param == "the same",
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(st.tuples(*inputs))
        def each(values: Any) -> None:
            nonlocal seen
            seen += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(*values)

        if request.param == "of the day":
            print(f"{tiers.SEED}={tiers.seed()} makes these inputs again.")
            each = seed(tiers.seed())(each)
        each()
        assert seen >= n, "some were left out"

    return call


def answered(action: Callable[[], Any]) -> Any:
    """What an action gives, or None if it refuses in one sentence."""
    try:
        return action()
    except ConfigError as error:
        sentence = str(error)
    assert 5 < len(sentence) < 5000
    assert len(sentence.splitlines()) == 1, sentence
    assert "Traceback" not in sentence
    return None


WORDS = st.sampled_from(
    ["u", "x", "t", "u_t", "u_xx", "k", "D", "pi", "e", "", " ", "é", "null", "a.b", "../x", "${x}"]
)
NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 7, 10**18, 2**63, -(10**30), 0.0, -0.5, 0.3, 1e-300, 1e308])
JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        NUMBERS,
        st.sampled_from([float("nan"), float("inf"), -float("inf")]),
        WORDS,
        st.text(max_size=8),
        st.sampled_from(
            ["learned", "exact", "normal", "u.csv", "q.npz", "sin(t)", "u_t - k*u", "known", "auto", "1e3"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=4,
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All keys of nested dictionaries and lists, as paths."""
    found = [path] if path else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return found + [place for key, value in items for place in places(value, (*path, key))]


def changed(node: Any, change: tuple[int, str, Any, str]) -> Any:
    """One value replaced, removed, renamed, or one added."""
    number, kind, value, name = change
    found = copy.deepcopy(node)
    options = places(found)
    if not options:
        return found
    *path, last = options[number % len(options)]
    inner = found
    for key in path:
        inner = inner[key]
    if kind == "replace" or not isinstance(inner, dict):
        inner[last] = value
    elif kind == "remove":
        del inner[last]
    elif kind == "rename":
        inner[name] = inner.pop(last)
    else:
        inner[name] = value
    return found


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.sampled_from(["replace", "replace", "replace", "remove", "rename", "add"]),
        JUNK,
        WORDS | st.text(max_size=5),
    ),
    min_size=1,
    max_size=3,
)


# Expressions


TOKENS = st.sampled_from(
    [
        *("u", "x", "u_xx", "pi", "e", "1", "2", "0", "0.5", "1e-1", "1e308", "1e999", ".", "1.", "..", "1_0", "0x1"),
        *("+", "-", "*", "/", "**", "(", ")", ",", "^", "=", "==", ";", "[", "]", "{", "@", "#", "'", '"', "\\", "\n"),
        *FUNCTIONS,
        *(
            "__import__",
            "lambda",
            "if",
            "else",
            "for",
            "in",
            "not",
            "and",
            "None",
            "True",
            "import",
            "é",
            "²",
            "−",
            "\0",
        ),
        *(" ", "\t", "", "((((", "sin(", "max(u,", "u)"),
    ]
)
GOOD = st.recursive(
    st.sampled_from(["u", "x", "u_xx", "pi", "2", "0.5", "3e-2", "7"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "**"]), inner).map(lambda parts: "".join(parts)),
        inner.map(lambda part: f"-{part}"),
        inner.map(lambda part: f"({part})"),
        st.tuples(st.sampled_from(["sin", "exp", "sqrt", "abs", "log"]), inner).map(
            lambda parts: f"{parts[0]}({parts[1]})"
        ),
        st.tuples(inner, inner).map(lambda parts: f"max({parts[0]}, {parts[1]})"),
    ),
    max_leaves=12,
)
VALUES = {name: torch.tensor([0.3, 1.2, 2.0], dtype=torch.float64) for name in ("u", "x", "u_xx")}


def test_expressions_are_refused_or_mean_what_python_means(tried):
    def check(text: str) -> None:
        found = answered(lambda: parse(text, "problem.equations.f"))
        if found is None:
            return
        spaced = "".join(" " if letter.isspace() else letter for letter in text)
        named = re.sub(rf"\b({'|'.join(keyword.kwlist)})\b", "name", spaced)  # whether a name is known is asked later
        digits = re.sub(r"(?<![\w.])0+(?=\d)", "", named)  # Python has no numbers that begin with 0
        compile(f"({digits})", "expression", "eval")
        names = {name: VALUES.get(name, VALUES["u"]) for name in found.names}
        value = found.evaluate(names)
        assert value.shape in ((), (3,))
        assert value.dtype == torch.float64

    mixed = st.lists(TOKENS | GOOD, max_size=12).map("".join)
    tried("expressions", check, st.one_of(mixed, GOOD, st.text(max_size=30), st.text("u+-*/() 1.e", max_size=25)))


# Problems


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A problem that uses most of what there is, with its data."""
    made = tmp_path_factory.mktemp("problem")
    rng = np.random.default_rng(0)
    rows = [
        f"{t},{x},{u}" for t, x, u in np.stack([rng.uniform(size=12), rng.uniform(-1, 1, 12), rng.normal(size=12)], 1)
    ]
    (made / "u.csv").write_text("t,x,u\n" + "\n".join(rows) + "\n")
    np.savez(made / "q.npz", x=np.linspace(-1, 1, 6), q=rng.normal(size=6))
    scipy.io.savemat(made / "q.mat", {"x": np.linspace(-1, 1, 6), "q": rng.normal(size=6)})
    (made / "mine.yaml").write_text(yaml.safe_dump(PROBLEM, sort_keys=False))
    return made


PROBLEM: dict[str, Any] = {
    "coordinates": {"t": [0, 1], "x": [-1, 1]},
    "unknowns": {"u": ["t", "x"], "q": ["x"]},
    "parameters": {"k": {"prior": "lognormal", "median": 1, "spread": 0.5, "reference": 2, "start": 1.5}},
    "constants": {"D": 0.1},
    "equations": {"heat": "u_t - D*u_xx + k*u - q", "left": "u"},
    "observed": {
        "u": {"file": "u.csv", "noise": 0.1},
        "q": {"file": "q.npz", "noise": {"kind": "learned", "scale": 0.2}, "hold_out": {"calibration": 1}},
        "heat": {"value": 0, "points": 20, "noise": "exact"},
        "left": {"value": "sin(t)", "points": 5, "at": {"x": -1}, "noise": {"kind": "exact", "scale": 0.05}},
    },
    "exact": {"u": "t*x"},
    "grid": {"t": 4, "x": 6},
    "slices": {"end": {"t": 1}},
    "probe": {"u": [0.5, 0.0]},
    "hold_out": {"validation": 1},
}


def checked(config: dict[str, Any]) -> Any:
    """What ``sciuq-run`` checks of one job before it starts it."""
    try:
        return prepare(assemble(config))
    except Exception as error:
        if not is_shortage(error):
            raise
        raise ConfigError("There is not enough memory for the data of this problem: choose fewer readings.") from error


def assert_meaningful(found: Any) -> None:
    """Data that one can learn from, and a posterior density that is a number."""
    dataset, target = found
    for data in dataset.values():
        assert np.isfinite(data.train.x).all()
        assert np.isfinite(data.train.y).all()
        assert np.isfinite(data.test.x).all()
        assert len(data.test.x)
    target.model.n_starts = 1  # which draw is the likeliest is known once a generator is trained
    theta = target.init(2, torch.Generator().manual_seed(0))
    assert theta.shape == (2, target.size)


def test_problems_are_refused_or_have_finite_data(folder, tried):
    register_resolvers()
    (choice,) = adopt_files([f"problem={folder / 'mine.yaml'}"])
    base = plain(compose([choice, "fidelity=smoke", "method=hmc"], None))

    def check(changes: list[Any]) -> None:
        node = PROBLEM
        for change in changes:
            node = changed(node, change)
        problem = {"_target_": base["problem"]["_target_"], **node, "file": base["problem"]["file"]}
        found = answered(lambda: checked({**base, "problem": problem}))
        if found is not None:
            assert_meaningful(found)

    assert_meaningful(checked(base))
    tried("problems", check, CHANGES)


def test_files_that_should_be_problems_are_refused_or_read(folder, tried):
    """The text of a YAML file, cut, mixed up, and with bytes of other kinds in it."""
    text = (folder / "mine.yaml").read_bytes()
    scraps = st.sampled_from(
        [b"", b":", b"- ", b"\t", b"{", b"]", b"&a", b"*a", b"!!python/name:os.system ", b"\xff", b"${"]
    )

    def check(place: int, length: int, scrap: bytes, more: bytes) -> None:
        at = place % len(text)
        path = folder / "text.yaml"
        path.write_bytes(text[:at] + scrap + more + text[at + length :])
        answered(lambda: adopt_files([f"problem={path}"]))

    tried("texts", check, st.integers(0, 5000), st.integers(0, 40), scraps, st.binary(max_size=4))


# Data files


def test_data_files_are_refused_or_give_finite_columns(folder, tried):
    contents = {name: (folder / name).read_bytes() for name in ("u.csv", "q.npz", "q.mat")}

    def check(name: str, place: int, length: int, scrap: bytes) -> None:
        content = contents[name]
        at = place % len(content)
        path = folder / f"bad{Path(name).suffix}"
        path.write_bytes(content[:at] + scrap + content[at + length :])
        columns = ["t", "x", "u"] if name == "u.csv" else ["x", "q"]
        found = answered(lambda: read_columns(path, columns, "problem.observed.u.file"))
        if found is not None:
            assert list(found) == columns
            assert len({values.shape for values in found.values()}) == 1
            assert all(values.ndim == 1 and np.isfinite(values).all() for values in found.values())
        if path.suffix != ".csv":
            arrays = answered(lambda: read_arrays(path, columns[:1], columns[1:], "problem.data"))
            assert arrays is None or all(np.isfinite(values).all() for values in arrays.values())

    scraps = st.one_of(
        st.binary(max_size=6),
        st.sampled_from([b"\n", b",", b";", b"nan", b"1e999", b"#", b'"', b"\0", b"t,x,u\n", b"\xef\xbb\xbf"]),
    )
    tried("files", check, st.sampled_from(list(contents)), st.integers(0, 5000), st.integers(0, 30), scraps)


@pytest.mark.parametrize("dtype", ["f8", "f2", "i8", "u1", "c16", "U3", "S3", "?", "M8[s]", "m8[s]", "V4", "O"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (3, 1), (2, 3), (1, 1, 1)])
def test_arrays_of_every_kind_are_refused_or_read(tmp_path, dtype, shape):
    buffer = io.BytesIO()
    np.savez(buffer, x=np.zeros(shape, dtype=dtype), q=np.zeros(shape, dtype=dtype))
    (tmp_path / "a.npz").write_bytes(buffer.getvalue())
    found = answered(lambda: read_columns(tmp_path / "a.npz", ["x", "q"], "file"))
    assert (found is not None) == (np.dtype(dtype).kind in "fiu" and 0 not in shape)


# Settings


CHOICES = [
    ("problem=function", "method=hmc"),
    ("problem=function", "method=dens", "problem.case=heteroscedastic", "calibration=var"),
    ("problem=function", "method=la", "problem.case=unknown", "calibration=[cdf,conformal]"),
    ("problem=mixed_pde", "method=mfvi"),
    ("problem=forward_pde", "method=swag"),
    ("problem=function", "method=sgld", "problem.case=student_t"),
    ("problem=function", "model=gan_fp", "method=hmc"),
]


def test_settings_are_refused_or_give_a_target(tried):
    register_resolvers()
    bases = [plain(compose([*choice, "fidelity=smoke", "tracking=none"], None)) for choice in CHOICES]

    def check(number: int, changes: list[Any]) -> None:
        config = bases[number]
        for change in changes:
            config = changed(config, change)
        found = answered(lambda: checked(config))
        if found is not None:
            assert_meaningful(found)

    for base in bases:
        assert_meaningful(checked(base))
    tried("settings", check, st.sampled_from(range(len(bases))), CHANGES)


KEYS = st.sampled_from(
    [
        *("seed", "method", "problem", "model", "problem.case", "method.n_samples", "method.n_smples", "calibration"),
        *("gold", "temperature", "device", "dtype", "fidelity", "tracking", "threads", "trust", "detection", "tuned"),
        *("experiment", "hydra.run.dir", "model.width", "resume", "~method", "+seed", "++seed", "", "a.b.c"),
        *("problem@x", "hydra/launcher"),
    ]
)
TEXTS = st.one_of(
    st.sampled_from(
        ["-1", "0", "1e3", "hmc", "dens", "[", "]", "{", "{a:1}", "[1,2]", "1,2", "null", "", "'", '"', "nan"]
    ),
    st.sampled_from(
        ["inf", "${seed}", "${oops}", "${oc.env:HOME}", "range(3)", "choice(1,2)", "x.yaml", "/", "..", "é", "\\"]
    ),
    st.text(max_size=6).filter(lambda text: "\0" not in text),
)


def test_command_lines_are_refused_or_understood(tmp_path, monkeypatch, capsys, tried):
    """The real entry, which shows a configuration that it understands instead of running it."""
    monkeypatch.chdir(tmp_path)

    def check(pairs: list[tuple[str, str]], more: list[str]) -> None:
        arguments = [f"{key}={text}" for key, text in pairs] + more
        answered(lambda: parse_arguments(list(arguments)))
        answered(lambda: run([*arguments, "--cfg", "job"]))
        capsys.readouterr()

    flags = st.lists(st.sampled_from(["-m", "--multirun", "--cfg", "--nope", "-x", "oops", "a=b=c"]), max_size=1)
    tried("lines", check, st.lists(st.tuples(KEYS, TEXTS), min_size=1, max_size=2), flags)
    assert not list(tmp_path.iterdir())


# Files that are named in another way than they should, or hold something else

SMALL = "coordinates: {x: [0, 1]}\nunknowns: {u: [x]}\nobserved:\n  u: {value: 0, points: 5, noise: 0.1}\n"
NAMED = [
    *(
        "./alone",
        "alone",
        "alone.yml",
        "sub/my",
        "sub/wärme",
        "sub/none",
        "./darcy",
        "none.YML",
        "~nobody_at_all/x.yaml",
    ),
    *("./p.json", "none.json", "alone.json", "folder.yaml", "sub/"),
]


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """Problems under several names."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "folder.yaml").mkdir()
    for name in ("alone.yaml", "Y.YAML", "wärme.yaml", "日本.yml", "sub/my.yaml", "sub/wärme.yaml"):
        (tmp_path / name).write_text(SMALL)
    (tmp_path / "p.json").write_text("{}")
    return tmp_path


def refusal(inside: Inside, *arguments: str) -> str:
    """The one sentence with which the program refuses."""
    found = inside(*arguments, "fidelity=smoke", "method=dens", "tracking=none")
    assert found.status == 2, found.out
    assert found.err.startswith("sciuq-run: ")
    assert found.err.count("\n") == 1, found.err
    return found.err.removeprefix("sciuq-run: ").rstrip("\n")


@pytest.mark.parametrize("value", NAMED)
def test_what_is_meant_as_a_file_is_answered_as_a_file(inside, named, sentence, value):
    said = refusal(inside, f"problem={value}")
    assert said.startswith(f"problem={value}")
    sentence(said)


@pytest.mark.parametrize("value", ["./Y.YAML", "wärme.yaml", "日本.yml", "'alone.yaml'"])
def test_a_file_may_have_any_name(inside, named, value):
    found = inside(f"problem={value}", "--cfg", "job")
    assert found.status == 0, found.err
    assert f"file: {named / value.strip(chr(39))}" in found.out.replace('"', "")


def test_a_choice_in_a_folder_of_ones_own_stays_a_choice(inside, named):
    (named / "conf/problem/sub").mkdir(parents=True)
    (named / "conf/problem/sub/my.yaml").write_text("_target_: sciuq_runner.problems.function.Function\n")
    found = inside("--config-dir", "conf", "problem=sub/my", "--cfg", "job")
    assert found.status == 0, found.err
    assert "_target_: sciuq_runner.problems.function.Function" in found.out


CONTENTS = {
    "a word": "hello\n",
    "a list": "- a\n- list\n",
    "nothing": "",
    "no names": "{}",
    "a name twice": f"{SMALL}coordinates: 1\n",
    "a tab": "grid:\n\tx: 1\n",
    "no name": f"{SMALL}null: 1\n",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_that_holds_no_problem_says_what_it_should_hold(inside, tmp_path, sentence, name):
    (tmp_path / "other.yaml").write_text(CONTENTS[name])
    said = refusal(inside, "problem=other.yaml")
    assert said.startswith(f"{tmp_path / 'other.yaml'} ")
    sentence(said)


FORMS = {
    "unknowns: {u: x}": "problem.unknowns.u",
    "unknowns: {on: [x]}": "problem.unknowns",
    "coordinates: {x: '0, 1'}": "problem.coordinates.x",
    "coordinates:": "problem.coordinates",
    "grid: 21": "problem.grid",
    "off: 1": "problem",
}


@pytest.mark.parametrize("line", FORMS)
def test_a_setting_of_the_wrong_form_is_answered(inside, tmp_path, sentence, line):
    key = line.partition(":")[0]
    others = "".join(text for text in SMALL.splitlines(keepends=True) if not text.startswith(f"{key}:"))
    (tmp_path / "form.yaml").write_text(f"{others}{line}\n")
    said = refusal(inside, "problem=form.yaml")
    assert re.match(rf"{FORMS[line]}[ =]", said), said
    sentence(said)


def test_groups_with_nothing_below_them_are_left_out(tmp_path):
    (tmp_path / "groups.yaml").write_text(f"{SMALL}parameters:\nequations:\ngrid:\nhold_out:\n")
    register_resolvers()
    choices = adopt_files([f"problem={tmp_path / 'groups.yaml'}"])
    assert_meaningful(checked(plain(compose([*choices, "fidelity=smoke", "method=hmc"], None))))


BROKEN = {
    "a name twice": b"_target_: a.B\nx: 1\nx: 2\n",
    "a bracket": b"a: [1\nb: 2\n",
    "no text": b"a: \xff\n",
    "a special character": b"a: \x01\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_in_a_folder_of_ones_own_is_named(inside, tmp_path, sentence, name):
    path = tmp_path / "conf/problem/broken.yaml"
    path.parent.mkdir(parents=True)
    path.write_bytes(BROKEN[name])
    found = refusal(inside, "--config-dir", str(tmp_path / "conf"), "problem=broken", "gold=null")
    assert found.startswith(f"{path} ")
    sentence(found)


def test_a_problem_without_its_class_says_which_to_write(inside, tmp_path, sentence):
    path = tmp_path / "conf/problem/bare.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(SMALL)
    found = refusal(inside, "--config-dir", "conf", "problem=bare")
    assert found.startswith("problem._target_ ")
    sentence(found)
