"""What stands beside the code says what is true of it: version, paths, checks and examples."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import sciuq_runner

ROOT = Path(__file__).resolve().parents[1]
CODE = re.compile(r"`([^`]+)`")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows(document: str, heading: str) -> list[list[str]]:
    """The cells of all tables below a heading, without the names of columns."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", document, re.DOTALL | re.MULTILINE)
    tables = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert tables, heading
    lines = [line for table in tables for line in table.splitlines()[2:]]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def is_path(name: str) -> bool:
    return re.fullmatch(r"[\w./-]+(/|\.py|\.yaml)|[\w.-]+(/[\w.-]+)+", name) is not None


def missing(cells: list[str], folders: list[str]) -> Iterator[str]:
    """Paths in a row that are neither there nor below one of its rooms."""
    for name in CODE.findall(" ".join(cells)):
        if is_path(name) and not any((ROOT / folder / name).exists() for folder in ("", *folders)):
            yield name


def test_missing_paths_are_found():
    cells = ["`sciuq_runner/target`, `nowhere/`, `sciuq_runner/gone`", "`density.py`, `gone.py`, `sq.run`, `x / y`"]
    assert list(missing(cells, ["sciuq_runner/target"])) == ["nowhere/", "sciuq_runner/gone", "gone.py"]


def test_every_path_of_the_contributors_map_is_there():
    found = rows(text("CONTRIBUTING.md"), "Where the code lives")
    assert len(found) > 15
    assert [name for cells in found for name in missing(cells, CODE.findall(cells[1]))] == []


def test_every_room_is_on_the_contributors_map():
    rooms = {
        path.name
        for path in (ROOT / "sciuq_runner").iterdir()
        if (path / "__init__.py").is_file() and path.name not in ("conf", "problems")
    }
    named = " ".join(cells[1] for cells in rows(text("CONTRIBUTING.md"), "Where the code lives"))
    assert rooms - {name.removeprefix("sciuq_runner/") for name in CODE.findall(named)} == set()


def test_every_path_of_the_readme_map_is_there():
    found = rows(text("README.md"), "How it is built")
    assert len(found) > 10
    assert [name for first, *_ in found for name in missing([first], [])] == []


def test_every_test_that_holds_a_promise_is_there():
    """And no file of the tests of security is left out."""
    holders = " ".join(cells[2] for cells in rows(text("SECURITY.md"), "How this is kept"))
    assert list(missing([holders], [])) == []
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "security").glob("test_*.py")}
    assert there - set(CODE.findall(holders)) == set()


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/operations.md"])
def test_links_lead_to_files_and_headings(name):
    prose = re.sub(r"```.*?```|`[^`]*`", "", text(name), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, heading = target.partition("#")
        there = ROOT / Path(name).parent / path if path else ROOT / name
        assert there.exists(), target
        titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
        assert not heading or heading in anchors, target


def test_the_version_is_the_same_everywhere():
    citation = yaml.safe_load(text("CITATION.cff"))
    assert str(citation["version"]) == sciuq_runner.__version__
    headings = re.findall(r"^## (\S+)", text("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == sciuq_runner.__version__
    assert len(set(headings)) == len(headings)


def test_the_citation_is_complete():
    """The fields that the Citation File Format 1.2.0 requires, and those by which the paper is found."""
    citation = yaml.safe_load(text("CITATION.cff"))
    assert str(citation["cff-version"]) == "1.2.0"
    assert {"message", "title", "authors", "abstract", "license"} <= citation.keys()
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Psaros", "Meng", "Zou", "Guo", "Karniadakis"]
    assert (paper["type"], paper["doi"]) == ("article", "10.1016/j.jcp.2022.111902")


def test_hooks_before_a_commit_use_the_environment_of_the_tests():
    (repository,) = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"]
    assert repository["repo"] == "local"
    programs = []
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        shell, flag, command, *_ = shlex.split(hook["entry"])
        assert (shell, flag) == ("bash", "-c")
        place, _, program = shlex.split(command)[0].partition("/bin/")
        assert place == "${SCIUQ_VENV:-.venv}"
        assert shutil.which(program, path=str(Path(sys.executable).parent)), program
        programs.append(program)
    assert programs == ["ruff", "ruff", "mypy", "lint-imports"]


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    (section,) = re.findall(r"^## From Python\n(.*?)^## ", text("README.md"), re.DOTALL | re.MULTILINE)
    code = "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))
    short = 'fidelity="smoke", figures=False, progress=False'
    for call in ('method="hmc", seed=3)', "problem)  "):
        assert code.count(call) == 1, call
        code = code.replace(call, call.replace(")", f", {short})"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(code, names)  # noqa: S102
    assert list(names["table"]["status"]) == ["finished"] * 2  # type: ignore[index]
    assert "u_cal_mean" in names["run"].predictions  # type: ignore[attr-defined]
