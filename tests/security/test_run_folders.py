"""Run folders, and what earlier runs left in MLflow: neither is followed, loaded nor obeyed."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from sciuq_runner import files
from sciuq_runner.cli.calibrate import main as calibrate
from sciuq_runner.cli.plot import main as plot
from sciuq_runner.cli.predict import main as predict
from sciuq_runner.cli.report import main as report
from sciuq_runner.cli.sync import main as sync
from sciuq_runner.models.pretraining import Store
from sciuq_runner.runs.resume import Origin
from sciuq_runner.sweeps.plan import Plan, Planned
from sciuq_runner.tracking.tracker import Tracker
from tests.security.conftest import Attack


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
