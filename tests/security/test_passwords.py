"""Passwords are in no file and on no screen."""

from __future__ import annotations

import pytest
from mlflow import MlflowClient
from omegaconf import OmegaConf

from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.config.uris import hide_password, take_credentials, with_credentials, without_credentials
from sciuq_runner.tracking.store_failures import complaint
from sciuq_runner.tracking.tracker import Tracker
from tests.conftest import Inside


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
    found = inside("fidelity=smoke", "method=dens", "gold=null", "figures=false", f"tracking.uri='{secret}'")
    assert found.status == 0, found.err
    assert "hunter2" not in found.out + found.err
    store = MlflowClient(uri)
    (run,) = store.search_runs([store.get_experiment_by_name("sciuq").experiment_id])
    assert run.data.params["tracking.uri"] == uri
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 20
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
