"""``sciuq-run --cfg``: what it prints."""

from __future__ import annotations

import pytest
import yaml

from sciuq_runner.cli.run import check_composition, parse
from sciuq_runner.cli.show import shown
from sciuq_runner.config.compose import compose, plain
from sciuq_runner.errors import ConfigError


def show(*arguments: str) -> str:
    parsed, _ = parse(list(arguments))
    return shown(check_composition(parsed), parsed.cfg, parsed.package)


@pytest.fixture(autouse=True)
def _no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_a_job_has_the_values_that_its_run_has():
    choices = ["problem=darcy", "method=hmc", "fidelity=paper", "calibration=[var,cdf]"]
    found = show("--cfg", "job", *choices)
    assert "${" not in found
    printed = yaml.safe_load(found)
    assert printed.pop("sweep") == {"resume": False}
    assert printed == plain(compose(choices, None))


def test_all_has_the_part_of_hydra_with_what_only_a_job_knows_left_open():
    job, hydra, both = (yaml.safe_load(show("--cfg", kind)) for kind in ("job", "hydra", "all"))
    assert set(hydra) == {"hydra"}
    assert {key: value for key, value in both.items() if key != "hydra"} == job
    assert {key: value for key, value in both["hydra"].items() if key in hydra["hydra"]} == hydra["hydra"]
    assert hydra["hydra"]["run"]["dir"].startswith("runs/${now:")
    assert show("--cfg", "all", "--resolve") == show("--cfg", "all")


def test_a_package_is_a_part_or_a_value():
    assert show("--cfg", "job", "-p", "problem").startswith("# @package problem\n_target_: ")
    assert show("--cfg", "job", "--package", "method.n_burn", "method.n_burn=7") == "7\n"
    assert show("--cfg", "job", "-p", "threads") == "None\n"
    assert show("--cfg", "job", "-p", "_global_") == show("--cfg", "job")
    assert show("--cfg", "hydra", "-p", "hydra.sweep").startswith("# @package hydra.sweep\ndir: ")
    with pytest.raises(ConfigError, match="--package methd is not in the configuration: did you mean 'method'"):
        show("--cfg", "job", "-p", "methd")


def test_a_password_is_not_shown(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@server")
    assert "secret" not in show("--cfg", "job")
    assert yaml.safe_load(show("--cfg", "job"))["tracking"]["uri"] == "http://server"
    assert "secret" not in show("--cfg", "all")
