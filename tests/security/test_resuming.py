"""A run folder says what to compute, never whom to trust or where results go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sciuq_runner.config.uris import take_credentials
from sciuq_runner.errors import ConfigError
from sciuq_runner.runs.resume import restart_arguments
from tests.conftest import Inside
from tests.security.conftest import CALL, everywhere


def remembers(folder: Path, *overrides: str, config_dir: str | None = None) -> None:
    """Let a folder say that its run, which did not end, was started with these too."""
    (folder / "metrics.json").unlink(missing_ok=True)
    origin = json.loads((folder / "resume.json").read_text())
    said = {**origin, "overrides": [*origin["overrides"], *overrides], "config_dir": config_dir}
    (folder / "resume.json").write_text(json.dumps(said))


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
