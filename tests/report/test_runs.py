"""Reading runs from MLflow and from folders."""

from __future__ import annotations

from pathlib import Path

from mlflow import MlflowClient

from sciuq_runner import cli as cli_module
from sciuq_runner.report.runs import STOPPED_EARLY, named
from sciuq_runner.report.tables import build
from tests.report.conftest import leave_folder, results


def test_the_sign_of_a_stopped_run_is_what_the_program_says():
    assert f'"{STOPPED_EARLY}: ' in Path(cli_module.__file__).read_text(encoding="utf-8")


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
