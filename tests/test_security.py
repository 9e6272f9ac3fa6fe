"""What comes from elsewhere (a problem, data, a run folder, an artifact) runs no code and writes nowhere."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import subprocess
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from mlflow import MlflowClient
from omegaconf import OmegaConf

from sciuq_runner import files
from sciuq_runner.composition import compose, plain, refuse_bomb, refuse_code, register_resolvers
from sciuq_runner.datafiles import read_arrays, read_columns
from sciuq_runner.errors import ConfigError
from sciuq_runner.expressions import parse
from sciuq_runner.pretraining import Store
from sciuq_runner.report import main as report
from sciuq_runner.resume import Origin, restart_arguments
from sciuq_runner.sweeps.plan import Plan, Planned
from sciuq_runner.sync import main as sync
from sciuq_runner.tools import calibrate, plot, predict
from sciuq_runner.tracking.failures import complaint
from sciuq_runner.tracking.tracker import Tracker
from sciuq_runner.uris import hide_password, take_credentials, with_credentials, without_credentials
from tests.conftest import Inside

ROOT = Path(__file__).parent.parent
SMOKE = ("fidelity=smoke", "method=dens", "tracking=none", "gold=null")


class Attack:
    """Unpickling it leaves a mark in the working folder."""

    def __reduce__(self):
        return os.mkdir, ("ATTACKED",)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """All happens in a folder of its own, in which no attack may leave its mark."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "ATTACKED").exists()


def test_the_attack_of_these_tests_works(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    pickle.loads(pickle.dumps(Attack()))  # noqa: S301
    assert (tmp_path / "inner" / "ATTACKED").exists()


# Data files


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


# Expressions


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').mkdir('ATTACKED')",
        '__import__("os")',
        "u.__class__",
        "u.__class__.__mro__[1].__subclasses__()",
        "exec(u)",
        "eval(u)",
        "open(u)",
        "lambda: u",
        "(u for u in u)",
        "u if u else u",
        "u := 1",
        "[u]",
        "{u}",
        "f'{u}'",
        "u; u",
        "u\n\nimport os",
        "getattr(u, x)",
        "torch(u)",
        "@u",
        "u @ u",
        "\x00",
    ],
)
def test_expressions_are_no_python(text):
    with pytest.raises(ConfigError):
        parse(text, "problem.equations.f")


@pytest.mark.parametrize(
    "text", ["9**9**9**9", "2**1e308", "1e308*10", "10**10**10", "exp(exp(exp(9)))", "9**9**9**9**9**9 * u", "1e999"]
)
def test_huge_numbers_cost_no_time(text):
    with pytest.raises(ConfigError, match=r"no finite number|too large"):
        parse(text, "problem.equations.f")


@pytest.mark.parametrize(
    "text", ["(" * 5000 + "u" + ")" * 5000, "-" * 9000 + "u", "sin(" * 2000 + "u", "u**" * 3000 + "u"]
)
def test_deep_nesting_is_refused(text):
    with pytest.raises(ConfigError, match=r"levels of nesting|characters long"):
        parse(text, "problem.equations.f")


# Problems and configurations


PROBLEM = """
coordinates: {x: [0, 1]}
unknowns: {u: [x]}
observed:
  u: {value: 0, points: 5, noise: 0.1}
"""

BAD_PROBLEMS = {
    "target": f"_target_: os.system\n{PROBLEM}",
    "inner target": PROBLEM.replace("noise: 0.1", "noise: {_target_: os.mkdir, path: ATTACKED}"),
    "source target": PROBLEM.replace("{value: 0, points: 5, noise: 0.1}", "{_target_: os.mkdir, path: ATTACKED}"),
    "parameter target": f"{PROBLEM}\nparameters: {{k: {{_target_: os.mkdir, path: ATTACKED}}}}",
    "python object": f"{PROBLEM}\nexact: !!python/object/apply:os.mkdir [ATTACKED]",
    "python name": f"{PROBLEM}\nexact: {{u: !!python/name:os.system }}",
    "python module": f"{PROBLEM}\nexact: {{u: !!python/object/new:os.system [mkdir ATTACKED]}}",
    "defaults": f"defaults: [/hydra/launcher: basic]\n{PROBLEM}",
    "import": PROBLEM.replace("value: 0", "value: \"__import__('os').mkdir('ATTACKED')\""),
    "resolver": PROBLEM.replace("value: 0", "value: ${eval:1}"),
    "laughs": "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
    + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + PROBLEM,
    "itself": f"{PROBLEM}\nexact: &a {{u: *a}}",
    "deep": f"{PROBLEM}\nexact: {'[' * 3000}{']' * 3000}",
    "link": PROBLEM.replace("value: 0, points: 5", "file: /dev/zero"),
    "folder": PROBLEM.replace("value: 0, points: 5", "file: ../../../../../../etc/passwd"),
}


@pytest.mark.parametrize("name", BAD_PROBLEMS)
def test_a_malicious_problem_is_refused_in_a_sentence(inside: Inside, tmp_path, name):
    (tmp_path / "problem.yaml").write_text(BAD_PROBLEMS[name])
    found = inside("problem=problem.yaml", *SMOKE)
    assert found.status == 2, found.out
    assert found.err.startswith("sciuq-run: ")
    assert found.err.count("\n") == 1, found.err
    assert not (tmp_path / "runs").exists()


CALL = "{_target_: os.mkdir, path: ATTACKED}"
START = "{_target_: subprocess.Popen, args: [mkdir, ATTACKED]}"


def everywhere(text: str) -> str:
    """A configuration that may set anything."""
    return f"# @package _global_\n{text}\n"


BAD_CONFIGS = {
    "problem/bad": "_target_: os.mkdir\npath: ATTACKED\n",
    "method/bad": "_target_: subprocess.Popen\nargs: [mkdir, ATTACKED]\n",
    "model/bad": f"_target_: sciuq_runner.models.bnn.BNN\nnetwork: {START}\n",
    "calibration/bad": f"by: {{bad: {CALL}}}\n",
    "experiment/trust": everywhere(f"trust: [subprocess]\nmodel: {{network: {START}}}"),
    "experiment/callback": everywhere(f"hydra: {{callbacks: {{bad: {CALL}}}}}"),
    "experiment/launcher": everywhere(f"hydra: {{launcher: {CALL}}}"),
    "experiment/sweeper": everywhere(f"hydra: {{sweeper: {{max_batch_size: {CALL}}}}}"),
    "experiment/logging": everywhere(
        "hydra: {job_logging: {handlers: {bad: {class: subprocess.Popen, args: [mkdir, ATTACKED]}}}}"
    ),
    "experiment/factory": everywhere('hydra: {hydra_logging: {formatters: {bad: {"()": os.mkdir, path: ATTACKED}}}}'),
    "experiment/attribute": everywhere(
        "hydra: {callbacks: {bad: {_target_: sciuq_runner.cli.os.mkdir, path: ATTACKED}}}"
    ),
    "experiment/attribute_of_hydra": everywhere(
        "hydra: {callbacks: {bad: {_target_: hydra._internal.utils.os.mkdir, path: ATTACKED}}}"
    ),
    "experiment/elsewhere": everywhere(f"hydra: {{callbacks: {{bad: '${{architecture}}'}}}}\narchitecture: {CALL}"),
    "experiment/chosen": everywhere(f"hydra: {{callbacks: {{bad: '${{at:{{smoke: {CALL}}}}}'}}}}"),
    "experiment/later": everywhere(f"hydra: {{callbacks: {{bad: '${{pick:${{hydra.job.num}},{{else: {CALL}}}}}'}}}}"),
    "experiment/path": everywhere("hydra: {job: {env_set: {PATH: mine}}}"),
    "experiment/copied": everywhere("hydra: {job: {env_copy: [HOME]}}"),
    "experiment/name": everywhere("hydra: {job: {name: ../../ATTACKED}}"),
    "experiment/subdir": everywhere("hydra: {output_subdir: ../../ATTACKED}"),
    "experiment/mode": everywhere("hydra: {mode: MULTIRUN, sweeper: {params: {hydra.job.env_set.PATH: mine}}}"),
    "experiment/file": everywhere("hydra: {job_logging: {handlers: {file: {filename: ATTACKED}}}}"),
    "experiment/other_file": everywhere(
        "hydra: {hydra_logging: {handlers: {bad: {class: logging.FileHandler, filename: ATTACKED, mode: w}}}}"
    ),
    "experiment/truncated": everywhere(  # a formatter is made with its format first, which is here a file to open
        "hydra: {job_logging: {formatters: {bad: {class: logging.FileHandler, format: ATTACKED, datefmt: w}}}}"
    ),
    "experiment/imported": everywhere("hydra: {job_logging: {root: {level: 'ext://evil.INFO'}}}"),
    "experiment/laughs": everywhere(BAD_PROBLEMS["laughs"]),
    "experiment/tag": everywhere("seed: !!python/object/apply:os.mkdir [ATTACKED]"),
}


@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_a_malicious_configuration_is_refused_in_a_sentence(inside: Inside, tmp_path, name):
    group, _, choice = name.partition("/")
    (tmp_path / "mine" / group).mkdir(parents=True)
    (tmp_path / "mine" / f"{name}.yaml").write_text(BAD_CONFIGS[name])
    settings = [item for item in SMOKE if item.partition("=")[0] != group]
    found = inside("--config-dir", "mine", f"{group}={choice}", *settings)
    assert found.status == 2, found.out
    assert found.err.count("\n") == 1, found.err
    assert not (tmp_path / "runs").exists()


BAD_LAUNCHERS = {
    "setup": "hydra: {launcher: {setup: [mkdir ATTACKED]}}",
    "parameter": "hydra: {launcher: {additional_parameters: {comment: mkdir}}}",
    "line": 'hydra: {launcher: {additional_parameters: {"a\\nmkdir ATTACKED\\n": 1}}}',
    "comment": 'hydra: {launcher: {comment: "a\\nmkdir ATTACKED\\n"}}',
    "folder": "hydra: {launcher: {submitit_folder: outside}}",
    "hidden": "hydra: {launcher: {setup: [mkdir ATTACKED]}, sweeper: {params: {hydra.launcher.setup: 'null'}}}",
}


@pytest.mark.parametrize("name", BAD_LAUNCHERS)
def test_a_configuration_cannot_tell_a_cluster_what_to_run(inside: Inside, tmp_path, name):
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    (tmp_path / "mine/experiment/bad.yaml").write_text(everywhere(BAD_LAUNCHERS[name]))
    found = inside("--config-dir", "mine", "-m", "experiment=bad", "sweep=slurm", "seed=0,1", *SMOKE)
    assert found.status == 2, found.out
    assert found.err.count("\n") == 1, found.err
    assert "cannot come from a configuration file" in found.err
    assert not (tmp_path / "runs").exists()


def test_what_is_typed_may_tell_a_cluster_what_to_run():
    register_resolvers()
    typed = [
        "sweep=slurm",
        "hydra.launcher.setup=[module load cuda]",
        "+hydra.launcher.additional_parameters.mail_user=me",
        "hydra.launcher.partition=${oc.env:HOME}",
    ]
    refuse_code(compose(typed, None, with_hydra=True), typed)
    for index in (1, 2):
        with pytest.raises(ConfigError, match="give it on the command line"):
            refuse_code(compose(typed, None, with_hydra=True), [*typed[:index], *typed[index + 1 :]])


@pytest.mark.parametrize(
    "choices", [[], ["sweep=local"], ["sweep=slurm"], ["sweep=slurm_local"], ["hydra/job_logging=default"]]
)
def test_what_we_ship_needs_no_trust(choices):
    register_resolvers()
    refuse_code(compose(choices, None, with_hydra=True), choices)


def test_a_callback_needs_trust(monkeypatch):
    register_resolvers()
    typed = ["+hydra.callbacks.mine={_target_: my_module.Callback}"]
    composed = compose(typed, None, with_hydra=True)
    monkeypatch.delenv("SCIUQ_TRUST", raising=False)
    with pytest.raises(ConfigError, match=r"add trust=\[my_module\] on the command line"):
        refuse_code(composed, typed)
    monkeypatch.setenv("SCIUQ_TRUST", "my_module")
    refuse_code(composed, typed)


def test_aliases_are_fine_while_they_are_few(tmp_path):
    (tmp_path / "fine.yaml").write_text("a: &a {x: [1, 2, 3]}\nb: *a\nc: [*a, *a]\n")
    refuse_bomb(tmp_path / "fine.yaml")


# Run folders


@pytest.fixture
def folder(finished, tmp_path) -> Path:
    """A copy of it, beside a folder that does not belong to it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "points.csv").write_text("x\n0.5\n")
    return Path(shutil.copytree(finished, tmp_path / "run"))


def sentences(commands, capsys) -> list[str]:
    """What commands refuse with, each in one sentence."""
    found = []
    for command, arguments in commands:
        with pytest.raises(SystemExit) as caught:
            command(arguments)
        said = capsys.readouterr()
        assert caught.value.code == 2, said
        assert "Traceback" not in said.out + said.err
        found.append(said.out + said.err)
    return found


def tools(folder: Path) -> list:
    name = str(folder)
    return [(calibrate, [name, "calibration=cdf"]), (plot, [name]), (predict, [name, "points.csv"]), (sync, [name])]


@pytest.mark.parametrize("link", ["figures", "model", "predictions.npz", "metrics.json", "figures/new.png"])
def test_links_out_of_a_run_folder_are_not_followed(folder, tmp_path, capsys, link, inside):
    outside = tmp_path / "outside" / Path(link).name
    inner = folder / link
    if inner.is_dir() or inner.exists():
        shutil.move(inner, outside)
    else:
        outside.write_text("secret")
    inner.symlink_to(outside)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "outside").rglob("*")}
    for said in sentences(tools(folder), capsys):
        assert "is a link that leads out of the run folder" in said
    found = inside("resume=run")
    assert found.status == 2
    assert "is a link that leads out of the run folder" in found.err
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "outside").rglob("*")} == before
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.parametrize("name", ["../../outside/u", "/tmp/u", "u*", "..", "a/b", ""])
def test_names_in_a_run_folder_lead_nowhere(folder, tmp_path, capsys, name):
    arrays = files.read_npz(folder / "predictions.npz")
    renamed = {key.replace("u_", f"{name}_", 1) if key.startswith("u_") else key: item for key, item in arrays.items()}
    np.savez(folder / "predictions.npz", **{**renamed, "quantities": np.array([name])})
    for said in sentences(tools(folder)[:2], capsys):
        assert "predictions.npz" in said or "metrics.json" in said
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "trust=[subprocess]",
        "hydra.callbacks.bad._target_=os.mkdir",
        "+hydra.callbacks.bad={_target_: os.mkdir, path: ATTACKED}",
        "++hydra.launcher._target_=os.system",
        "hydra/launcher=basic",
        "--config-dir=outside",
        "-m",
        "hydra.run.dir=outside",
    ],
)
def test_a_run_folder_cannot_say_whom_to_trust(folder, tmp_path, inside: Inside, text):
    (folder / "metrics.json").unlink()
    origin = json.loads((folder / "resume.json").read_text())
    network = "model.network={_target_: subprocess.Popen, args: [mkdir, ATTACKED]}"
    (folder / "resume.json").write_text(json.dumps({**origin, "overrides": [*origin["overrides"], text, network]}))
    found = inside("resume=run")
    assert found.status == 2
    assert found.err.count("\n") == 1, found.err
    assert not list((tmp_path / "outside").iterdir())


def test_a_run_that_needs_trust_gets_it_again_from_the_command_line(folder, inside: Inside, tmp_path):
    remembers(folder, "trust=[mine]")
    found = inside("resume=run")
    assert found.status == 2
    assert "add 'trust=[mine]' if you trust it" in found.err
    found = inside("resume=run", "trust=[mine]")
    assert found.status == 0, found.err


def remembers(folder: Path, *overrides: str, config_dir: str | None = None) -> None:
    """Let a folder say that its run, which did not end, was started with these too."""
    (folder / "metrics.json").unlink(missing_ok=True)
    origin = json.loads((folder / "resume.json").read_text())
    said = {**origin, "overrides": [*origin["overrides"], *overrides], "config_dir": config_dir}
    (folder / "resume.json").write_text(json.dumps(said))


def test_a_run_folder_brings_no_configurations(folder, inside: Inside, tmp_path):
    evil = folder / "evil"
    (evil / "experiment").mkdir(parents=True)
    (evil / "experiment/bad.yaml").write_text(everywhere("seed: 3"))
    remembers(folder, "experiment=bad", config_dir="run/evil")
    for wrong in ([], ["--config-dir", "outside"]):
        found = inside("resume=run", *wrong)
        assert found.status == 2
        assert "add --config-dir run/evil if you trust them" in found.err
        assert found.err.count("\n") == 1, found.err
    (evil / "experiment/bad.yaml").write_text(everywhere(f"hydra: {{callbacks: {{bad: {CALL}}}}}"))
    assert "would run code" in inside("resume=run", "--config-dir", "run/evil").err


def test_a_run_with_configurations_goes_on_when_they_are_named_again(folder, inside: Inside, tmp_path):
    (tmp_path / "mine/experiment").mkdir(parents=True)
    (tmp_path / "mine/experiment/fine.yaml").write_text(everywhere("method: {n_members: 3}"))
    remembers(folder, "experiment=fine", config_dir=str(tmp_path / "mine"))
    found = inside("resume=run", "--config-dir=mine")
    assert found.status == 0, found.err
    assert json.loads((folder / "metrics.json").read_text())["config"]["method"]["n_members"] == 3
    remembers(folder, config_dir=None)
    assert "leave out --config-dir mine" in inside("-cd", "mine", "resume=run").err


@pytest.mark.parametrize(
    "text",
    [
        "tracking.uri=http://127.0.0.1:9",
        "tracking.uri=sqlite:///outside/x.db",
        "++tracking.uri=sqlite:///outside/x.db",
        "tracking.uri=${oc.env:HOME}",
        "tracking={kind: mlflow, uri: 'sqlite:///outside/x.db'}",
        "tracking.artifacts=outside",
    ],
)
def test_a_run_folder_does_not_say_where_results_go(folder, inside: Inside, tmp_path, text):
    remembers(folder, "tracking=mlflow", text)
    found = inside("resume=run")
    assert found.status == 2
    assert found.err.count("\n") == 1, found.err
    assert "sends its results elsewhere" in found.err or "which no run leaves there" in found.err
    assert not list((tmp_path / "outside").iterdir())


def test_a_run_goes_on_in_the_store_that_is_named_again(folder, tmp_path, monkeypatch):
    uri, own = "postgresql://me@host/db", f"sqlite:///{tmp_path / 'mlflow.db'}"
    remembers(folder, f"tracking.uri='{uri}'")
    with pytest.raises(ConfigError, match="sends its results elsewhere"):
        restart_arguments("run", [])
    with pytest.raises(ConfigError, match=r"leave out tracking\.uri=http://other"):
        restart_arguments("run", ["tracking.uri=http://other"])
    assert f"tracking.uri='{uri}'" in restart_arguments("run", [f"tracking.uri={uri}"])
    assert f"tracking.uri='{uri}'" in restart_arguments(
        "run", take_credentials(["tracking.uri=" + uri.replace("@", ":secret@")])
    )
    assert f"tracking.uri='{uri}'" in restart_arguments("run", [])  # of the environment, by now
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    remembers(folder, f"tracking.uri={own}", "tracking.artifacts=null")
    with pytest.raises(ConfigError, match="sends its results elsewhere"):
        restart_arguments("run", [])  # the first of the two is still there
    origin = json.loads((folder / "resume.json").read_text())
    origin["overrides"].remove(f"tracking.uri='{uri}'")
    (folder / "resume.json").write_text(json.dumps(origin))
    assert f"tracking.uri={own}" in restart_arguments("run", [])


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "sqlite:///outside/x.db"])
def test_a_run_folder_does_not_say_where_it_is_uploaded(folder, tmp_path, capsys, uri):
    record = json.loads((folder / "tracking.json").read_text())
    (folder / "tracking.json").write_text(json.dumps({**record, "uri": uri}))
    (said,) = sentences([(sync, ["run"])], capsys)
    assert f"add --uri {uri} if you want to send it there" in said
    assert not list((tmp_path / "outside").iterdir())


def test_a_sweep_does_not_go_on_where_links_lead_out(folder, tmp_path):
    (tmp_path / "sweep").mkdir()
    plan = Plan(tmp_path / "sweep", {"digest": [(folder, Origin(["seed=0"]))]})

    def planned(name: str) -> Planned:
        return plan.place([name], lambda overrides: overrides[0])

    assert planned("digest").resumes
    (folder / "figures/new.png").symlink_to(tmp_path / "outside")
    assert "is a link that leads out of the run folder" in planned("digest").refusal
    assert not planned("another").refusal
    (tmp_path / "sweep/0").symlink_to(tmp_path / "outside")
    assert "is a link" in planned("another").refusal


@pytest.mark.parametrize("name", ["model/config.json", "metrics.json"])
def test_settings_of_a_run_folder_start_nothing(folder, capsys, name):
    attack = {"_target_": "subprocess.Popen", "args": ["mkdir", "ATTACKED"]}
    values = json.loads((folder / name).read_text())
    inner = values if name.startswith("model") else values["config"]
    for key in ("problem", "model"):
        inner[key] = {**attack, "case": "known"}
    inner["calibration"] = {"by": {"bad": attack}}
    (folder / name).write_text(json.dumps(values))
    chosen = [predict, [str(folder), "points.csv"]] if name.startswith("model") else [plot, [str(folder)]]
    (said,) = sentences([chosen], capsys)
    assert "add trust=[subprocess] on the command line" in said


def test_a_pickle_in_a_run_folder_is_not_loaded(folder, capsys):
    payload = pickle.dumps(Attack())
    for name in ("predictions.npz", "model/samples.safetensors", "calibration.json", "model/calibration.json"):
        (folder / name).write_bytes(payload)
    for said in sentences([*tools(folder)[:3]], capsys):
        assert "is the file complete?" in said


def test_what_was_pretrained_is_data(tmp_path, capsys):
    """From the folder and from MLflow: a pickle, and a link to a file that is none of ours."""
    store = Store(tmp_path / "pretrained")
    (tmp_path / "pretrained").mkdir()
    store.path("a").write_bytes(pickle.dumps(Attack()))
    assert store.find("a") is None
    (tmp_path / "secret").write_text("secret")
    store.path("b").symlink_to(tmp_path / "secret")
    assert store.find("b") is None
    import torch

    store.keep("b", {"x": torch.zeros(1)})
    assert (tmp_path / "secret").read_text() == "secret"  # the link is replaced, not followed


def test_artifacts_of_mlflow_stay_where_they_are_put(tmp_path):
    """A run whose artifact is a pickle, and one whose tag names a path."""
    tracker = Tracker(None, "sciuq", tmp_path)
    tracker.connect()
    tracker.start("bad", {}, {})
    (tmp_path / "k.safetensors").write_bytes(pickle.dumps(Attack()))
    tracker.keep_pretrained("k", tmp_path / "k.safetensors")
    assert Store(tmp_path / "pretrained", tracker).find("k") is None
    assert tracker.find_pretrained("../../outside", tmp_path / "pretrained") is None
    assert tracker.find_pretrained("x' OR tags.pretrained = 'k", tmp_path / "pretrained") is None
    assert {path.name for path in (tmp_path / "pretrained").iterdir()} == {"k.safetensors"}


def test_a_report_shows_names_as_text(folder, tmp_path, capsys):
    values = json.loads((folder / "metrics.json").read_text())
    script = "<script>alert(1)</script>"
    values["config"]["choices"]["method"] = script
    values["config"]["method"][script] = script
    values[script] = values["u"]
    (folder / "metrics.json").write_text(json.dumps(values))
    with pytest.raises(SystemExit) as caught:
        report(["--runs", str(folder)])
    assert caught.value.code == 0, capsys.readouterr()
    assert script not in (tmp_path / "report.html").read_text()


# Passwords


@pytest.mark.parametrize(
    ("uri", "kept"),
    [
        ("http://me:secret@host:5000/x", "http://host:5000/x"),
        ("https://secret@host", "https://host"),
        ("https://me:se/cr@et:secret@host/x", "https://host/x"),
        ("postgresql://me:secret@host/db", "postgresql://me@host/db"),
        ("mysql+pymysql://me:secret@host:3306/db?ssl=1", "mysql+pymysql://me@host:3306/db?ssl=1"),
        ("postgresql://host/db?user=me&password=secret", "postgresql://host/db?user=me"),
        ("postgresql://host/db?password=secret&user=me", "postgresql://host/db?user=me"),
        ("postgresql://host/db?password=secret&token=secret", "postgresql://host/db"),
        ("postgresql://host/db?a=1&sslpassword=secret&user=me", "postgresql://host/db?a=1&user=me"),
        ("postgresql://me:12345/secret@host/db", "postgresql://me@host/db"),
        ("postgresql://me@host:5432/db?", "postgresql://me@host:5432/db?"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("http://host:5000/a@b", "http://host:5000/a@b"),
        ("sqlite:////tmp/a@b/mlflow.db", "sqlite:////tmp/a@b/mlflow.db"),
    ],
)
def test_addresses_are_kept_without_passwords(monkeypatch, uri, kept):
    assert without_credentials(uri) == kept
    assert "secret" not in hide_password(f"MLflow at {uri} (or '{uri}') is away")
    assert take_credentials([f"tracking.uri={uri}", "seed=1"]) == [f"tracking.uri={kept}", "seed=1"]
    if uri != kept:
        assert with_credentials(kept) == uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://you:other@host/elsewhere")
    assert with_credentials(kept) == kept


def test_passwords_are_in_no_file_and_on_no_screen(inside: Inside, tmp_path, monkeypatch):
    """The store is a file, to which the password means nothing; the run is real, and so are its folder and what MLflow
    keeps of it."""
    uri = f"sqlite:///{tmp_path / 'store.db'}"
    secret = f"{uri}?password=hunter2"
    monkeypatch.setattr(Tracker, "database", property(lambda self: tmp_path / "store.db"))
    monkeypatch.setattr("sciuq_runner.tracking.tracker.with_credentials", lambda kept: without_credentials(str(kept)))
    found = inside("fidelity=smoke", "method=dens", "gold=null", f"tracking.uri='{secret}'")
    assert found.status == 0, found.err
    assert "hunter2" not in found.out + found.err
    store = MlflowClient(uri)
    (run,) = store.search_runs([store.get_experiment_by_name("sciuq").experiment_id])
    assert run.data.params["tracking.uri"] == uri
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 30
    assert not [path for path in written if b"hunter2" in path.read_bytes()]


def test_a_password_in_the_environment_is_in_no_configuration(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:hunter2@host")
    register_resolvers()
    composed = compose([], None)
    assert "hunter2" not in OmegaConf.to_yaml(composed)  # which is what is saved
    assert plain(composed)["tracking"]["uri"] == "http://host"


def test_a_password_in_a_configuration_file_is_refused(inside: Inside, tmp_path):
    (tmp_path / "mine" / "tracking").mkdir(parents=True)
    (tmp_path / "mine/tracking/ours.yaml").write_text("kind: mlflow\nuri: http://me:hunter2@host\nexperiment: sciuq\n")
    found = inside("--config-dir", "mine", "tracking=ours", "fidelity=smoke")
    assert found.status == 2
    assert "put it into the environment variable MLFLOW_TRACKING_URI" in found.err
    assert "hunter2" not in found.err


def test_a_password_of_an_artifact_store_is_refused(inside: Inside, tmp_path):
    found = inside("fidelity=smoke", "tracking.artifacts=ftp://me:hunter2@host/files")
    assert found.status == 2
    assert "tracking.artifacts=ftp://***@host/files has a password" in found.err
    assert "hunter2" not in found.err
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.parametrize("length", range(150, 200, 7))
def test_a_long_complaint_is_cut_after_the_password_was_hidden(length):
    text = f"{'x' * length} http://me:{'hunter2' * 9}@host is away"
    assert "hunter" not in complaint(OSError(text))
    assert len(complaint(OSError(text))) <= 200


def test_a_server_that_refuses_does_not_show_the_password(inside: Inside, tmp_path):
    found = inside("fidelity=smoke", "tracking.uri=http://me:hunter2@127.0.0.1:9")
    assert found.status == 2
    assert "cannot be used" in found.err
    assert "hunter2" not in found.err


# Servers


def refused_database(tmp_path: Path, folder: Path) -> str:
    """What scripts/postgres says of a folder; programs that do nothing stand for PostgreSQL, which may not be here."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    for name in ("initdb", "postgres"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\nexit 3\n")
        (tmp_path / "bin" / name).chmod(0o755)
    found = subprocess.run(
        [str(ROOT / "scripts" / "postgres"), str(folder)],
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2, found
    assert found.stderr.count("\n") == 1, found.stderr
    return found.stderr


def test_a_database_takes_nothing_away(tmp_path):
    """A folder of the person's own, with data of theirs: neither these nor who may read them changes."""
    folder = tmp_path / "mine"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "results.csv").write_text("x\n1\n")
    folder.chmod(0o755)
    before = folder.stat()
    said = refused_database(tmp_path, folder)
    assert "holds no database of PostgreSQL" in said or "not to postgres" in said or "does not run as root" in said
    assert (folder / "data" / "results.csv").read_text() == "x\n1\n"
    assert (folder.stat().st_uid, folder.stat().st_mode) == (before.st_uid, before.st_mode)
    if os.getuid() == 0 and "not to postgres" in said:  # as root, a folder of the server's own user
        shutil.chown(folder, "postgres")
        assert "holds no database of PostgreSQL" in refused_database(tmp_path, folder)
        assert (folder / "data" / "results.csv").read_text() == "x\n1\n"


def test_servers_listen_to_this_machine_alone(tmp_path):
    lines = (ROOT / "scripts" / "ui").read_text().splitlines()
    (command,) = [line for line in lines if line.startswith("exec ")]
    assert " --host 127.0.0.1 " in command
    assert Tracker(None, "sciuq", tmp_path).ui_command.endswith("--host 127.0.0.1")
    shown = [line for line in (ROOT / "README.md").read_text().splitlines() if "mlflow models serve -m" in line]
    assert shown
    assert all("--host 127.0.0.1" in line for line in shown)
