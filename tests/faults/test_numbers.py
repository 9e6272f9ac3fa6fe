"""Numbers that go wrong."""

from __future__ import annotations

import json
import re

import pytest

from sciuq_runner.models.prior_training import PriorTraining
from tests.conftest import Inside

pytestmark = pytest.mark.cli

TOO_FAST = {
    "dens": ["method.learning_rate=1e30"],
    "sens": ["method.learning_rate=1e30"],
    "swag": ["method.learning_rate=1e30"],
    "mcd": ["method.learning_rate=1e30"],
    "mfvi": ["method.learning_rate=1e30"],
    "la": ["method.learning_rate=1e30"],
    "ld": ["method.step_size=1e30"],
    "sgld": ["method.step_size=1e30", "method.final_step_size=1e30"],
    "sghmc": ["method.step_size=1e30", "method.final_step_size=1e30"],
}


@pytest.mark.parametrize("method", TOO_FAST)
def test_nan_in_training_is_a_failure_with_advice(inside: Inside, method, tmp_path):
    found = inside("fidelity=smoke", "tracking=none", f"method={method}", *TOO_FAST[method], "hydra.run.dir=run")
    assert found.status == 1, found.out
    (sentence,) = [line for line in found.out.splitlines() if line.startswith("Error")]
    assert re.search(r"try a smaller method\.(learning_rate|step_size)", sentence)
    assert "Traceback" not in found.out + found.err
    assert not (tmp_path / "run" / "metrics.json").exists()
    assert json.loads((tmp_path / "run" / "tracking.json").read_text())["status"] == "FAILED"


@pytest.mark.parametrize(("factor", "said"), [(0.0, "has collapsed"), (1e3, "has run away")])
def test_a_generator_that_loses_the_game_is_a_failure_with_advice(inside: Inside, tmp_path, monkeypatch, factor, said):
    """All of its realisations become one, or far too different."""
    good = PriorTraining.simulate
    monkeypatch.setattr(PriorTraining, "simulate", lambda self, *inputs: factor * good(self, *inputs))
    found = inside("fidelity=smoke", "tracking=none", "model=gan_fp", "model.gan.compile=never", "hydra.run.dir=run")
    assert found.status == 1, found.out
    (sentence,) = [line for line in found.out.splitlines() if line.startswith("Error")]
    assert f"The generator {said}" in sentence
    assert "try a smaller model.gan.learning_rate" in sentence
    assert "None of its weights were good yet" in sentence  # 20 steps end in the first look at them
    assert not (tmp_path / "run" / "last_good.safetensors").exists()
    assert not (tmp_path / "run" / "metrics.json").exists()
    assert not list(tmp_path.glob("pretrained/*.safetensors"))
