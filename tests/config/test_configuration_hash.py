"""The hash by which a run is known to have been made before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.config.configuration_hash import configuration_hash
from sciuq_runner.files import write_json

register_resolvers()


def hash_of(*overrides: str) -> str:
    return configuration_hash(plain(compose(overrides, None)))


@pytest.mark.parametrize(
    "override",
    [
        "threads=2",
        "checkpoint_interval=5",
        "figures=false",
        "tracking=none",
        "tracking.experiment=other",
        "trust=[mine]",
        "method=hmc",
    ],
)
def test_bookkeeping_and_defaults_that_are_named_change_nothing(override):
    assert hash_of(override) == hash_of()


@pytest.mark.parametrize("override", ["seed=1", "method=dens", "method.n_burn=7", "fidelity=paper", "temperature=0.5"])
def test_whatever_changes_the_result_changes_the_hash(override):
    assert hash_of(override) != hash_of()


def test_a_number_is_the_same_however_it_is_written():
    assert hash_of("temperature=1") == hash_of("temperature=1.0")
    assert hash_of("method.step_size=1e-3") == hash_of("method.step_size=0.001")


def test_the_order_of_keys_does_not_count_but_that_of_calibrators_does():
    assert configuration_hash({"a": 1, "b": {"c": 2, "d": 3}}) == configuration_hash({"b": {"d": 3, "c": 2}, "a": 1})
    assert hash_of("calibration=[var,cdf]") != hash_of("calibration=[cdf,var]")


def test_metrics_json_gives_the_same_hash_as_the_configuration_that_it_was_made_with(tmp_path: Path):
    config = plain(compose(["problem=darcy", "method=dens"], None))
    config["method"]["learning_rate"] = float("inf")
    kept = {"choices": {"method": "dens"}, **{key: value for key, value in config.items() if key != "tracking"}}
    write_json(tmp_path / "metrics.json", kept)
    assert configuration_hash(json.loads((tmp_path / "metrics.json").read_text())) == configuration_hash(config)
