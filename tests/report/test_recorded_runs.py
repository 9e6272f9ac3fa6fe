"""Reading runs from MLflow and from folders."""

from __future__ import annotations

import json

from mlflow import MlflowClient

from sciuq_runner.report.recorded_runs import named
from sciuq_runner.report.run_tables import build
from tests.report.conftest import leave_folder, results


def test_a_run_that_went_on_after_a_stop_is_finished(tmp_path):
    """The log keeps the line of the stop; what counts are the results."""
    folder = leave_folder(tmp_path / "run", {**results("hmc", 0), "interrupted": True})
    (folder / "run.log").write_text("Stopped early: what was computed until then is in the run folder.")
    assert [run.status for run in named([str(folder)], None)] == ["KILLED"]
    (folder / "metrics.json").write_text(json.dumps({**results("hmc", 0), "interrupted": False}))
    assert [run.status for run in named([str(folder)], None)] == ["FINISHED"]


def test_ids_of_runs_and_of_sweeps(store, folders, monkeypatch):
    monkeypatch.chdir(store)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    client = MlflowClient(f"sqlite:///{store / 'mlflow.db'}")
    everything = client.search_runs([client.get_experiment_by_name("sciuq").experiment_id])
    ids = {item.info.run_name: item.info.run_id for item in everything}
    alone = ids["function known dens seed 1"]
    assert [item.name for item in named([alone], None)] == ["function known dens seed 1"]
    assert len(named([ids["sweep"]], None)) == 4
    assert len(named([ids["sweep"], alone], None)) == 4
    mixed = build(named([alone, str(folders / "sweep" / "dens_0")], None), "")
    assert [len(row.runs) for row in mixed.sections[0].rows] == [2]  # both sources spell their settings alike


def test_copies_of_run_folders_in_mlflow_do_not_count(tmp_path):
    leave_folder(tmp_path / "runs" / "a", results("hmc", 0))
    leave_folder(tmp_path / "mlartifacts" / "a" / "artifacts", results("hmc", 0))
    assert len(named([str(tmp_path)], None)) == 1
    assert len(named([str(tmp_path / "mlartifacts")], None)) == 1
