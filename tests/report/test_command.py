"""The command line of ``sciuq-report``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sciuq_runner.cli.report import main
from tests.report.conftest import leave_folder, results


def test_report_of_an_experiment(store, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(store)
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as ended:
        main(["--output", str(tmp_path / "new" / "folder")])
    assert not ended.value.code
    found = capsys.readouterr()
    assert found.err == ""
    assert found.out.splitlines()[-2:] == [f"report: {tmp_path}/new/folder/report.{kind}" for kind in ("html", "md")]
    assert "0.225 ± 0.007" in found.out
    text = (tmp_path / "new/folder/report.md").read_text()
    assert "| hmc    |     2 | **0.225 ± 0.007** |" in text
    for seed, status in enumerate(("FAILED", "KILLED", "RUNNING")):
        assert f"| function known mfvi seed {seed} | {status}" in text
    assert "sweep" not in text
    html = (tmp_path / "new/folder/report.html").read_text()
    assert html.count('src="data:image/png') == 2
    assert "/somewhere/function known hmc seed 0" in html
    assert {path.name for path in (tmp_path / "new/folder").iterdir()} == {"report.html", "report.md"}


MISTAKES = {
    "no database": (["--output", "out"], "--uri sqlite:///"),
    "no experiment": (["--uri", "STORE", "--experiment", "scuiq"], "did you mean 'sciuq'?"),
    "no runs": (["--uri", "STORE", "--experiment", "empty"], "--experiment empty has no runs"),
    "empty database": (["--uri", "sqlite:///empty.db"], "--uri sqlite:///empty.db is missing or empty"),
    "no server": (["--uri", "http://me:secret@127.0.0.1:9"], "--uri http://***@127.0.0.1:9 cannot be read"),
    "no store": (["--uri", "nonsense://x"], "--uri nonsense://x cannot be read"),
    "no folder": (["--runs", "nowhere"], "--runs nowhere is neither a folder nor the id of a run"),
    "no such id": (["--uri", "STORE", "--runs", "0" * 32], "is neither a folder nor the id of a run"),
    "empty folder": (["--runs", "hollow"], "--runs hollow holds no run"),
    "torn file": (["--runs", "torn"], "torn/metrics.json cannot be read"),
    "alien file": (["--runs", "alien"], "alien/metrics.json is not the metrics.json of a run (it has no 'config')"),
    "nothing finished": (["--runs", "died"], "--runs has no finished run with metrics (UNFINISHED)"),
    "file as output": (["--runs", "good", "--output", "good/metrics.json"], "--output good/metrics.json cannot be"),
    "folder as page": (["--runs", "good", "--output", "taken"], "--output taken cannot be written"),
    "both": (["--runs", "good", "--experiment", "sciuq"], "not allowed with argument --runs"),
    "unknown option": (["--rnus", "good"], "unrecognized arguments: --rnus good"),
}


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_end_in_one_sentence_and_leave_nothing(store, tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    leave_folder(tmp_path / "good", results("hmc", 0))
    for name in ("hollow", "torn", "alien", "died", "taken/report.md"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "torn/metrics.json").write_text('{"u": {"id": {"rl2')
    (tmp_path / "alien/metrics.json").write_text("{}")
    (tmp_path / "died/resume.json").write_text("{}")
    (tmp_path / "empty.db").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as ended:
        main([argument.replace("STORE", f"sqlite:///{store / 'mlflow.db'}") for argument in arguments])
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.out == ""
    assert said.err.startswith("sciuq-report: ")
    assert said.err.count("\n") == 1
    assert sentence in said.err
    assert "secret" not in said.err
    assert (tmp_path / "empty.db").stat().st_size == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from sciuq_runner.cli.report import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'mlflow', 'hydra', 'matplotlib', 'PIL', 'rich', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "--experiment NAME | --runs RUN" in found.stdout
