"""A method that is killed and goes on ends with the same samples, bit for bit."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from sciuq_runner.files import read_tensors
from sciuq_runner.loop import Loop
from sciuq_runner.problem import Noise, Readings
from sciuq_runner.target import Target
from tests.conftest import environment, program, read_metrics, run_folders
from tests.exact import linear_regression
from tests.table import ROWS


class Killed(BaseException):
    """Stands for SIGKILL: nothing gets a chance to react."""


class Fatal(Loop):
    """Dies after some numbers were shown."""

    def __init__(self, checkpoint: Path, after: int) -> None:
        super().__init__(checkpoint=checkpoint, interval=0.0)
        self.left = after

    def show(self, **numbers: float) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed


def target(name: str) -> Target:
    noise = Noise("known" if ROWS[name].noisy is None else "learned", 0.3)
    made = linear_regression(noise=noise).target
    made.validation_terms = made.make_terms({"u": Readings(made.terms[0].x.numpy(), made.terms[0].y.numpy())})
    return made


@pytest.mark.parametrize("after", [3, 8])
@pytest.mark.parametrize("name", [name for name in ROWS if name != "gp"])  # has no iterations
def test_a_killed_method_goes_on_bit_for_bit(name, after, tmp_path):
    method, path = ROWS[name].with_settings(ROWS[name].brief), tmp_path / "checkpoint.safetensors"
    whole = method.run(target(name), torch.Generator().manual_seed(0), Loop())
    with pytest.raises(Killed):
        method.run(target(name), torch.Generator().manual_seed(0), Fatal(path, after))
    if name != "nuts":  # saves at the end of a chain only
        assert path.exists()
    again = Loop(checkpoint=path)
    resumed = method.run(target(name), torch.Generator().manual_seed(0), again)
    assert torch.equal(resumed.theta, whole.theta)
    assert resumed.diagnostics == whole.diagnostics


@pytest.mark.cli
def test_a_run_killed_with_sigkill_is_resumed_by_folder_and_by_id(cli, tmp_path):
    settings = ["fidelity=smoke", "method.n_burn=200", "method.n_samples=1200", "checkpoint_interval=0.05"]
    undisturbed = cli(*settings)
    assert undisturbed.returncode == 0, undisturbed.stderr
    (reference,) = run_folders(tmp_path)
    for by_id in (False, True):
        process = subprocess.Popen(
            program(*settings), cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 120
        while not (found := list(tmp_path.glob("runs/*/checkpoint.safetensors"))) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        (path,) = found
        name = str(path.parent)
        if by_id:
            from mlflow import MlflowClient

            store = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
            experiment = store.get_experiment_by_name("sciuq").experiment_id
            (run,) = store.search_runs([experiment], "attributes.status = 'RUNNING'")
            name = run.info.run_id
        resumed = cli(f"resume={name}")
        assert resumed.returncode == 0, resumed.stderr
        assert "Going on after" in resumed.stdout
        assert not path.exists()
        ours, theirs = (read_tensors(folder / "samples.safetensors")[0]["theta"] for folder in (path.parent, reference))
        assert torch.equal(ours, theirs)
        assert read_metrics(path.parent)["u"] == read_metrics(reference)["u"]
        assert "already finished" in cli(f"resume={path.parent}").stderr
    from mlflow import MlflowClient

    store = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    statuses = [run.info.status for run in store.search_runs([store.get_experiment_by_name("sciuq").experiment_id])]
    assert statuses == ["FINISHED"] * 3
    assert cli("resume=nowhere").returncode == 2
    assert "leave out seed=3" in cli(f"resume={reference}", "seed=3").stderr
