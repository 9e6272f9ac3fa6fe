"""Defaults are said once: a class does by default what its configuration says at quick fidelity."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from sciuq_runner.config.build import CalibrationSettings, Fidelity, Settings, TrackingSettings
from sciuq_runner.config.compose import Composer, compose, plain
from sciuq_runner.config.equal_terms import untuned
from sciuq_runner.predict.out_of_distribution import DetectionSettings
from sciuq_runner.schema import locate
from tests.config.test_configs import names

FILES = [(group, name) for group in ("problem", "model", "method") for name in names(group)]
REQUIRED = {"operator": {"data": "pairs.npz", "coordinates": ["x"]}}
"""Settings without a default: the person's own data."""


def differences(default: Any, written: Any, key: str) -> list[str]:
    """Settings of an object that are written otherwise, those of the objects inside it among them."""
    if not dataclasses.is_dataclass(default) or not isinstance(written, Mapping):
        value = list(default) if isinstance(default, tuple) else default
        return [] if value == written else [f"{key}: {value} in the class, {written} in the file"]
    node = dict(written)
    target = node.pop("_target_", None)
    wrong = [] if target is None or locate(target, key) is type(default) else [f"{key}: another class"]
    for item in dataclasses.fields(default):
        if item.init:
            wrong += differences(getattr(default, item.name), node[item.name], f"{key}.{item.name}")
    return wrong


@pytest.mark.parametrize(("group", "name"), FILES)
def test_a_class_and_its_file_agree(group, name):
    node = untuned(Composer(), [f"{group}={name}"])[group] | REQUIRED.get(name, {})
    assert differences(locate(node["_target_"], group)(**REQUIRED.get(name, {})), node, group) == []


@pytest.mark.parametrize("name", [name for name in names("calibration") if name != "none"])
def test_a_calibrator_and_its_file_agree(name):
    written = plain(compose([f"calibration={name}"], None))["calibration"]
    node = written.pop("by")[name]
    assert differences(locate(node["_target_"], name)(), node, name) == []
    assert differences(CalibrationSettings(), {**written, "by": {}}, "calibration") == []


@pytest.mark.parametrize(
    ("settings", "part"),
    [(TrackingSettings, "tracking"), (Fidelity, "fidelity"), (DetectionSettings, "detection")],
)
def test_settings_and_their_part_of_the_configuration_agree(settings, part, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert differences(settings(), plain(compose([], None))[part], part) == []


def test_the_settings_of_a_run_agree():
    composed = plain(compose([], None))
    own = [item for item in dataclasses.fields(Settings) if item.default is not dataclasses.MISSING]
    assert len(own) > 5
    assert {item.name: composed[item.name] for item in own} == {item.name: item.default for item in own}


def test_a_difference_is_found():
    node = untuned(Composer(), ["model=pa_gan_fp"])["model"]
    node["prior"]["gan"]["batch"] = 3
    assert differences(locate(node["_target_"], "model")(), node, "model") == [
        "model.prior.gan.batch: 64 in the class, 3 in the file"
    ]
