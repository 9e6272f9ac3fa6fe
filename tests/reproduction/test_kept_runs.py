"""Runs that are kept in a repository: small, without places on a machine, and enough for the whole comparison."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sciuq_runner import layout
from sciuq_runner.config.configuration_hash import COMMIT, RUN_FOLDER
from sciuq_runner.evaluation.result_files import read_results, write_results
from sciuq_runner.evaluation.results import PredictedObservations, Result
from sciuq_runner.physics.observations import PointObservations
from sciuq_runner.report.recorded_runs import RecordedRun
from sciuq_runner.reproduction import paper_markdown
from sciuq_runner.reproduction.evidence import Evidence
from sciuq_runner.reproduction.kept_runs import PREDICTED, keep, kept_runs
from sciuq_runner.reproduction.paper_comparison import build
from sciuq_runner.reproduction.paper_jobs import Job, jobs_of
from tests.reproduction.conftest import FIDELITY, fake_run

PLACE = "/somewhere/on/a/machine"


def result() -> Result:
    x = np.linspace(-1, 1, 11)[:, None]
    std, observed = np.full_like(x, 1 / 3), PointObservations(x, np.sin(x))
    held = PredictedObservations(observed, np.cos(x), np.full_like(x, 0.1))
    everywhere = {"id": np.ones(11, dtype=bool)}
    values = (np.cos(x), std, std, std, std, np.sin(x), np.sin(x))
    return Result(("x",), x, *values, True, None, everywhere, held, held, {})


def finished(job: Job, folder: Path, seed: int = 0, started: float = 1000.0) -> RecordedRun:
    """A run with its files."""
    folder.mkdir()
    config = {**job.config, "seed": seed, "tracking": {"artifacts": PLACE}, "trust": [PLACE]}
    content = {"u": {"id": {"rl2e": started}}, "config": {**config, "choices": {"fidelity": job.fidelity}}}
    (folder / layout.METRICS).write_text(json.dumps(content))
    write_results(folder, {"u": result()})
    run = fake_run(job, seed, {"u/id/rl2e": started}, tracking__artifacts=PLACE, trust=PLACE)
    tags = {**run.tags, RUN_FOLDER: PLACE, "mlflow.source.name": PLACE, "mine": PLACE, COMMIT: "abc"}
    return replace(run, tags=tags, started=started, file=reader(folder))


def reader(folder: Path) -> Callable[[str], bytes | None]:
    return lambda name: (folder / name).read_bytes() if (folder / name).is_file() else None


def kept(folder: Path) -> set[float]:
    """The numbers that tell kept runs apart."""
    return {run.metrics["u/id/rl2e"] for run in kept_runs(folder)}


def test_the_last_run_of_a_job_is_kept_without_places_and_with_what_is_read_of_it(tmp_path):
    with_arrays, without = jobs_of("network_size", "smoke")[0], jobs_of("forward_n15", "smoke")[0]
    runs = [finished(with_arrays, tmp_path / "a"), finished(without, tmp_path / "b", started=2000.0)]
    folder = tmp_path / "kept"
    keep(runs, [with_arrays, without], folder)
    (folder / "README.md").write_text("no run")
    assert not any(PLACE in path.read_text() for path in folder.rglob("*.json"))
    found = {run.metrics["u/id/rl2e"]: run for run in kept_runs(folder)}
    assert set(found) == {1000.0, 2000.0}
    assert found[2000.0].tags[COMMIT] == "abc"
    assert found[2000.0].file(layout.PREDICTIONS) is None
    (predicted,) = Evidence(list(found.values()), "smoke").results("network_size", *with_arrays.choices)
    np.testing.assert_allclose(predicted["u"].mean, result().mean, rtol=1e-6)
    assert predicted["u"].mean.dtype == np.float32
    assert read_results(tmp_path / "a")["u"].mean.dtype == np.float64

    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")}
    keep(runs, [with_arrays, without], folder)  # there already
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")} == before
    again = finished(without, tmp_path / "c", started=3000.0)
    keep([*runs, again], [with_arrays, without], folder)  # in place of the earlier one
    assert kept(folder) == {1000.0, 3000.0}


def test_runs_of_another_fidelity_stay(tmp_path):
    smoke, paper = (jobs_of("forward_n15", fidelity)[0] for fidelity in ("smoke", FIDELITY))
    keep([finished(paper, tmp_path / "a", started=1.0)], [paper], tmp_path / "kept")
    keep([finished(smoke, tmp_path / "b", started=2.0)], [smoke], tmp_path / "kept")
    assert kept(tmp_path / "kept") == {1.0, 2.0}


def test_only_whole_runs_with_the_present_settings_are_kept(tmp_path, caplog):
    job, other = jobs_of("forward_n15", "smoke")
    run = finished(job, tmp_path / "a")
    keep([replace(run, status="KILLED"), run], [other], tmp_path / "kept")
    keep([replace(run, status="KILLED")], [job], tmp_path / "kept")
    assert not caplog.text
    content = json.loads((tmp_path / "a" / layout.METRICS).read_text())
    content["config"]["calibration"] = {"by": {}, "n": 7}  # calibrated anew since
    (tmp_path / "a" / layout.METRICS).write_text(json.dumps(content))
    for damaged in (run, replace(run, file=lambda name: b"{"), replace(run, file=lambda name: None)):
        keep([damaged], [job], tmp_path / "kept")
        assert "is not kept" in caplog.text
        caplog.clear()
    assert kept_runs(tmp_path / "kept") == []


def test_findings_and_figures_read_predictions_of_no_other_presets(monkeypatch, as_in_the_paper):
    asked: set[str] = set()
    read = Evidence.results

    def results(self: Evidence, preset: str, *choices: str) -> list[dict[str, Result]]:
        asked.add(preset)
        return read(self, preset, *choices)

    monkeypatch.setattr(Evidence, "results", results)
    build(as_in_the_paper, FIDELITY)
    assert asked == set(PREDICTED)


RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.full
def test_the_page_of_the_repository_is_that_of_its_runs():
    """Nothing in it is typed by hand but the words of explanations, which have a file of their own."""
    paper = build(kept_runs(RESULTS / "runs"), None)
    assert paper_markdown.markdown(paper, "figures") == (RESULTS / "paper.md").read_text(encoding="utf-8")
