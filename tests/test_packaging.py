"""What people install and start: the wheel, the locks and the scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Stands in for every Python in the tests of the scripts: an environment in no time, and a record of what pip
# was asked for. FAKE_VERSION is the version it claims, FAKE_PIP the exit status of pip.
FAKE_PYTHON = """\
#!/bin/sh
[ "$1" = -I ] && shift
claim="import sys; sys.version_info = (${{FAKE_VERSION:-3, 11}}); exec(sys.argv[1])"
case "$1 $2" in
  "-c import torch") exit 0 ;;
  "-c "*) exec "{real}" -I -c "$claim" "$2" ;;
  "-m venv")
    mkdir -p "$3/bin"
    cp "$0" "$3/bin/python"
    printf '#!/bin/sh\\necho ran in "$PWD" with "$@"\\n' >"$3/bin/sciuq-run"
    chmod +x "$3/bin/sciuq-run" ;;
  "-m pip") echo "$@" >>"{record}"; sleep 0.2; exit "${{FAKE_PIP:-0}}" ;;
esac
"""


def copy_tree(destination: Path) -> Path:
    """The source tree as a fresh clone would have it, with the files that are not committed yet."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode != 0:  # an archive of the tree has no git
        made = (".*", "*.egg-info", "__pycache__", "build", "dist", "runs", "mlflow.db", "mlartifacts", "mlruns")
        kept_out = shutil.ignore_patterns(*made)
        return Path(shutil.copytree(ROOT, destination, ignore=kept_out))
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (destination / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, destination / name)
    return destination


def environment(**extra: str) -> dict[str, str]:
    """The environment without what would point programs at this tree or at a tracking server."""
    dropped = ("MLFLOW", "SCIUQ", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {key: value for key, value in os.environ.items() if not key.startswith(dropped)} | extra


def call(command: list[str], cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder and in the environment above."""
    return subprocess.run(
        command, cwd=cwd, env=environment(**extra), capture_output=True, text=True, timeout=1800, check=False
    )


def pins(name: str) -> dict[str, Version]:
    """The packages of a lock file with their versions."""
    found: dict[str, Version] = {}
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            package, _, version = line.partition("==")
            found[canonicalize_name(package)] = Version(version.partition(";")[0])
    return found


# The wheel


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source tree that tests may build in."""
    return copy_tree(tmp_path_factory.mktemp("source") / "tree")


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the tools of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(tree)]
    built = call(command, folder)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_wheel_holds_configuration_and_problems(wheel: Path, tree: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    beside = [*tree.glob("conf/**/*.yaml"), *tree.glob("problems/**/*.py")]
    wanted = {f"sciuq_runner/{path.relative_to(tree).as_posix()}" for path in beside}
    inside = [
        *tree.glob("sciuq_runner/**/*.py"),
        *tree.glob("sciuq_runner/**/*.yaml"),
        *tree.glob("sciuq_runner/**/templates/*"),
    ]
    wanted |= {path.relative_to(tree).as_posix() for path in inside}
    assert "sciuq_runner/report/templates/report.html" in wanted
    assert "sciuq_runner/conf/config.yaml" in wanted
    assert "sciuq_runner/problems/function.py" in wanted
    assert wanted - names == set()


def test_wheel_takes_one_import_name(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"sciuq_runner"}


@pytest.fixture
def empty_environment(tmp_path: Path) -> Iterator[Path]:
    """A new environment, removed at once: pytest keeps its temporary folders, and this one is large."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], env=environment(), check=True)
    yield folder / "bin"
    shutil.rmtree(folder)


def install(environment: Path, *arguments: str) -> None:
    command = [str(environment / "python"), "-I", "-m", "pip", "install", "-q", "--no-compile", "--no-deps"]
    done = call([*command, "--disable-pip-version-check", *arguments], environment)
    assert done.returncode == 0, done.stderr


def check_program(environment: Path, folder: Path) -> None:
    """The installed program does a whole run, from its own files alone."""
    folder.mkdir()
    where = "import sciuq_runner, sciuq_runner.problems.function as f; print(sciuq_runner.__file__, f.__file__)"
    found = call([str(environment / "python"), "-c", where], folder).stdout.split()
    assert len(found) == 2
    assert all(Path(path).is_relative_to(environment.parent) for path in found)
    command = [str(environment / "sciuq-run"), "fidelity=smoke", "method=dens"]
    done = call(command, folder, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(folder.glob("runs/*/metrics.json"))) == 1
    assert (folder / "mlflow.db").is_file()


@pytest.mark.full
@pytest.mark.cli
def test_wheel_runs_outside_of_the_source_tree(wheel: Path, empty_environment: Path, tmp_path: Path) -> None:
    """In an environment of its own, which takes the packages that it needs from this one: scripts/test has installed
    them from the same lock."""
    install(empty_environment, str(wheel))
    (packages,) = empty_environment.parent.glob("lib/python*/site-packages")
    (packages / "shared.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    check_program(empty_environment, tmp_path / "not the source tree")


@pytest.mark.slow
@pytest.mark.cli
def test_wheel_runs_in_an_empty_environment(wheel: Path, empty_environment: Path, tmp_path: Path) -> None:
    """With nothing but what the lock names."""
    install(empty_environment, "-r", str(ROOT / "requirements.lock"))
    install(empty_environment, str(wheel))
    python = str(empty_environment / "python")
    if call([python, "-I", "-c", "import torch"], tmp_path).returncode != 0:  # as scripts/_setup.sh does
        lock, torch = str(ROOT / "requirements.lock"), f"torch=={pins('requirements.lock')['torch']}"
        assert call([python, "-I", "-m", "pip", "install", "-q", "-c", lock, torch], tmp_path).returncode == 0
    check_program(empty_environment, tmp_path / "not the source tree")


# The locks


@pytest.mark.parametrize("text", PROJECT["dependencies"])
def test_lock_satisfies_dependency(text: str) -> None:
    requirement = Requirement(text)
    assert pins("requirements.lock")[canonicalize_name(requirement.name)] in requirement.specifier


@pytest.mark.parametrize("text", PROJECT["optional-dependencies"]["test"])
def test_test_lock_satisfies_dependency(text: str) -> None:
    requirement = Requirement(text)
    assert pins("requirements-test.lock")[canonicalize_name(requirement.name)] in requirement.specifier


def test_locks_share_nothing() -> None:
    assert pins("requirements.lock").keys() & pins("requirements-test.lock").keys() == set()


def test_lock_leaves_the_build_of_torch_open() -> None:
    locked = pins("requirements.lock")
    assert locked["torch"] == Version("2.13.0")
    unwanted = ("torchvision", "nvidia", "cuda", "triton")
    assert [name for name in locked if name.startswith(unwanted)] == []


# The scripts


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the scripts read, on a path with spaces, with a fake Python beside it."""
    folder = tmp_path / "a project"
    folder.mkdir()
    for name in ("requirements.lock", "requirements-test.lock", "pyproject.toml"):
        shutil.copy2(ROOT / name, folder)
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    tools = tmp_path / "tools"
    tools.mkdir()
    fake = tools / "python3"
    fake.write_text(FAKE_PYTHON.format(real=sys.executable, record=tmp_path / "record"))
    fake.chmod(0o755)
    return folder


def script(project: Path, name: str, *arguments: str, cwd: Path | None = None, **extra: str) -> list[str]:
    """Run a script with the fake Python first on the path; returns exit status, output and errors."""
    command = [str(project / "scripts" / name), *arguments]
    tools = project.parent / "tools"
    settings = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHON": "", **extra}
    done = call(command, cwd or project.parent, **settings)
    return [str(done.returncode), done.stdout.strip(), done.stderr.strip()]


def pip_calls(project: Path) -> int:
    """How often pip was started so far."""
    record = project.parent / "record"
    return len(record.read_text().splitlines()) if record.exists() else 0


def test_run_names_the_missing_python(project: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    for name in ("bash", "cat", "dirname", "readlink"):
        (tools / name).symlink_to(str(shutil.which(name)))
    before = sorted(tmp_path.rglob("*"))
    venv = tmp_path / "venv"
    status, output, errors = script(
        project, "run", "fidelity=smoke", PATH=str(tools), FAKE_VERSION="3, 9", SCIUQ_VENV=str(venv)
    )
    assert status == "2"
    assert output == ""
    assert errors.startswith("run: Python 3.11 or newer is needed")
    assert len(errors.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_run_sets_up_once(project: Path, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "sciuq"
    link.parent.mkdir()
    link.symlink_to(project / "scripts" / "run")
    folder = tmp_path / "my runs"
    folder.mkdir()
    first = call([str(link), "seed=3", "a b"], folder, PYTHON=str(tmp_path / "tools" / "python3"))
    assert (first.returncode, first.stdout) == (0, f"ran in {folder} with seed=3 a b\n")
    assert first.stderr == "Setting up (once, some minutes) ...\n"
    assert (project / ".venv").is_dir()
    calls = pip_calls(project)
    assert script(project, "run", cwd=folder) == ["0", f"ran in {folder} with", ""]
    assert pip_calls(project) == calls


def test_changed_lock_installs_again(project: Path) -> None:
    script(project, "run")
    calls = pip_calls(project)
    with (project / "requirements.lock").open("a") as lock:
        lock.write("# another line\n")
    assert script(project, "run")[2] == "Setting up (once, some minutes) ..."
    assert pip_calls(project) == 2 * calls


def test_moved_project_is_set_up_anew(project: Path) -> None:
    script(project, "run")
    moved = project.rename(project.parent / "moved")
    stale = moved / ".venv" / "stale"
    stale.touch()
    status, _, errors = script(moved, "run")
    assert (status, errors) == ("0", "Setting up (once, some minutes) ...")
    assert not stale.exists()


def test_interrupted_set_up_does_not_count(project: Path) -> None:
    status, output, errors = script(project, "run", FAKE_PIP="1")
    assert (status, output) == ("1", "")
    assert "did not finish" in errors
    half_done = project / ".venv" / "half-done"
    half_done.touch()
    assert script(project, "run")[0] == "0"
    assert not half_done.exists()


def test_two_first_uses_take_turns(project: Path) -> None:
    command = [str(project / "scripts" / "run")]
    settings = environment(PYTHON=str(project.parent / "tools" / "python3"))
    both = [subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0].startswith("ran in") for process in both] == [True, True]
    assert pip_calls(project) == 2  # the lock and the project, once


def test_run_leaves_an_environment_of_others_alone(project: Path) -> None:
    mine = project / ".venv" / "mine"
    mine.parent.mkdir()
    mine.touch()
    status, _, errors = script(project, "run")
    assert status == "2"
    assert errors.endswith("was not made by this script: remove it, or name another folder with SCIUQ_VENV.")
    assert list(mine.parent.iterdir()) == [mine]


def test_ui_without_runs_says_so(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    venv = tmp_path / "venv"
    status, output, errors = script(project, "ui", cwd=folder, SCIUQ_VENV=str(venv))
    assert (status, output) == ("2", "")
    assert errors.startswith(f"ui: there are no runs in {folder} yet")
    assert len(errors.splitlines()) == 1
    assert not venv.exists()


def test_ui_opens_the_database_of_the_folder(project: Path, tmp_path: Path) -> None:
    script(project, "run")
    mlflow = project / ".venv" / "bin" / "mlflow"
    mlflow.write_text('#!/bin/sh\necho "$MLFLOW_BACKEND_STORE_URI: $@"\n')
    mlflow.chmod(0o755)
    folder = tmp_path / "my runs"
    folder.mkdir()
    (folder / "mlflow.db").touch()
    here = f"sqlite:///{folder}/mlflow.db: ui --host 127.0.0.1 --workers 1"
    assert script(project, "ui", "--port", "5001", cwd=folder)[1] == f"{here} --port 5001"
    assert script(project, "ui", "my runs", MLFLOW_TRACKING_URI="sqlite:///other.db")[1] == here
    elsewhere = script(project, "ui", MLFLOW_TRACKING_URI="postgresql://me:secret@host/db")[1]
    assert elsewhere == "postgresql://me:secret@host/db: ui --host 127.0.0.1 --workers 1"


def test_ui_does_not_show_the_password_of_a_server(project: Path) -> None:
    status, output, errors = script(project, "ui", MLFLOW_TRACKING_URI="http://me:secret@host?token=secret")
    assert (status, output) == ("0", "")
    assert "open its address in a browser" in errors
    assert "secret" not in errors
