"""Half of a run, or of a file, is no result."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciuq_runner import layout
from sciuq_runner.cli.calibrate import main as calibrate
from sciuq_runner.cli.plot import main as plot
from sciuq_runner.cli.predict import main as predict
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation.gold_standard import read_run
from sciuq_runner.report.recorded_runs import read_folder
from tests.faults.conftest import copy

pytestmark = pytest.mark.cli


def refused(command, arguments: list[str], capsys) -> str:
    """The sentence that a command refuses with."""
    with pytest.raises(SystemExit) as caught:
        command(arguments)
    assert caught.value.code == 2
    sentence = capsys.readouterr().err
    assert sentence.count("\n") == 1, sentence
    assert "Traceback" not in sentence
    return sentence


def test_a_run_without_its_last_file_is_no_result(finished, tmp_path, capsys):
    folder = copy(finished, tmp_path)
    (folder / "metrics.json").unlink()
    for command, more in ((calibrate, ["calibration=cdf"]), (plot, []), (predict, ["points.csv"])):
        assert "name the folder of a finished run" in refused(command, [str(folder), *more], capsys)
    assert read_folder(folder).status == "UNFINISHED"
    with pytest.raises(ConfigError, match=r"has no metrics\.json: name the folder of a finished run"):
        read_run(folder, {})


LATER = ("tracking.json", "resume.json", "run.log")


def test_the_metrics_are_the_last_file_of_a_run(finished):
    """What comes later, beside the log, are notes on how the run ended."""
    results = [path for path in finished.rglob("*") if path.is_file() and path.name not in LATER]
    assert max(results, key=lambda path: path.stat().st_mtime_ns).name == "metrics.json"
    assert len(results) > 10


def test_a_calibration_that_was_killed_is_no_result_until_it_is_done_again(finished, tmp_path, capsys, monkeypatch):
    folder = copy(finished, tmp_path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sciuq_runner.runs.afterwards.redraw", killed)
        with pytest.raises(SystemExit):
            calibrate([str(folder), "calibration=cdf"])
    capsys.readouterr()
    again = "run sciuq-calibrate on it again"
    assert again in refused(plot, [str(folder)], capsys)
    assert again in refused(predict, [str(folder), "points.csv"], capsys)
    assert read_folder(folder).status == "HALF CALIBRATED"
    with pytest.raises(ConfigError, match=again):
        read_run(folder, {})
    with pytest.raises(SystemExit) as caught:
        calibrate([str(folder), "calibration=cdf"])
    assert caught.value.code == 0
    assert not (folder / layout.RECALIBRATING).exists()
    assert read_folder(folder).status == "FINISHED"


@pytest.mark.parametrize("name", ["metrics.json", "predictions.npz", "samples.safetensors", "model/config.json"])
def test_a_damaged_file_is_named(finished, tmp_path, capsys, name):
    """Cut in the middle: by a copy that was interrupted, since we leave no such file."""
    folder = copy(finished, tmp_path)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    (folder / "model/samples.safetensors").write_bytes((folder / "samples.safetensors").read_bytes())
    (tmp_path / "points.csv").write_text("x\n0.5\n")
    if name.startswith(("model", "samples")):
        sentence = refused(predict, [str(folder), str(tmp_path / "points.csv")], capsys)
    else:
        sentence = refused(plot, [str(folder)], capsys)
    assert Path(name).name in sentence
    assert "is the file complete?" in sentence
