"""A method that is killed and goes on ends with the same samples, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sciuq_runner.config.compose import compose, plain
from sciuq_runner.errors import ConfigError
from sciuq_runner.files import read_tensors
from sciuq_runner.physics.data_files import digests
from sciuq_runner.physics.problem import Noise, PointObservations
from sciuq_runner.runs.resume import Origin, restart_arguments
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import LogDisplay, Loop
from tests.conftest import Inside, read_metrics, run_folders, start_and_kill
from tests.exact import linear_regression
from tests.table import ROWS


class Killed(BaseException):
    """Stands for SIGKILL: nothing gets a chance to react."""


def test_a_checkpoint_of_another_version_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    first = Loop(checkpoint=path)
    first.track({"theta": torch.zeros(2)}, torch.Generator())
    first.save()
    with pytest.raises(ConfigError, match="another version: start the run anew"):
        Loop(checkpoint=path).track({"position": torch.zeros(2)}, torch.Generator())


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
    made.validation_terms = made.make_terms({"u": PointObservations(made.terms[0].x.numpy(), made.terms[0].y.numpy())})
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


def test_the_time_that_processes_before_it_took_counts(tmp_path):
    path = tmp_path / "checkpoint.safetensors"

    def going_on(loop: Loop) -> Loop:
        loop.track({"theta": torch.zeros(1)}, torch.Generator())
        return loop

    for seconds, total in ((100, 0), (50, 100), (0, 150)):
        loop = going_on(Loop(checkpoint=path))
        assert total <= loop.earlier < total + 10
        loop.begun -= seconds
        loop.save()
    outer = Loop(checkpoint=tmp_path / "other.safetensors")
    going_on(outer.stage(path))  # before the method's own work
    assert 150 <= outer.earlier < 160
    going_on(outer.stage(tmp_path / "third.safetensors"))
    assert 150 <= outer.earlier < 160


def test_the_time_left_goes_by_what_was_done_since_the_first_step_here(caplog, monkeypatch):
    """Of 100 steps 90 were done before, and the first took a minute to compile."""
    clock = iter([0.0, 60.0, 61.0, 62.0])
    monkeypatch.setattr("sciuq_runner.training.loop.time.monotonic", lambda: next(clock))
    display = LogDisplay(interval=0.0)
    with caplog.at_level("INFO"):
        display.start("sampling", 100)
        for done in (91, 92, 93):
            display.update(done, {})
    assert caplog.messages == ["sampling 91/100", "sampling 92/100, 8 s left", "sampling 93/100, 7 s left"]


def test_a_run_whose_data_changed_is_refused(tmp_path):
    folder, data = tmp_path / "run", [tmp_path / name for name in ("a.csv", "b.csv")]
    for path in data:
        path.write_text("x,u\n0,1\n")
    Origin(["seed=3"], data=digests(data)).write(folder)
    assert restart_arguments(str(folder), [])[0] == "seed=3"
    data[1].write_text("x,u\n0,2\n")
    with pytest.raises(ConfigError) as caught:
        restart_arguments(str(folder), [])
    expected = f"resume={folder}: {data[1]} has changed since the run was started: restore it, or start anew."
    assert str(caught.value) == expected
    data[1].unlink()  # whoever reads it says so
    assert restart_arguments(str(folder), [])[0] == "seed=3"


def test_a_run_of_a_preset_of_an_earlier_version_names_its_group_as_it_is_called_now(tmp_path):
    Origin(["experiment=paper/mixed_pde_standard", "technique=hmc_fp", "seed=3"]).write(tmp_path)
    arguments = restart_arguments(str(tmp_path), [])
    assert plain(compose(arguments, None))["model"]["_target_"].endswith("GANFP")


@pytest.mark.cli
def test_a_killed_run_is_resumed_bit_for_bit(inside: Inside, tmp_path):
    settings = ["fidelity=smoke", "method.n_samples=1200", "checkpoint_interval=0.1", "method.compile=never"]
    settings += ["tracking=none", "figures=false", "gold=null"]
    killed = start_and_kill(tmp_path, *settings)
    resumed = inside(f"resume={killed}")
    assert resumed.status == 0, resumed.out + resumed.err
    assert "Going on after" in resumed.out
    assert inside(*settings, "hydra.run.dir=undisturbed").status == 0
    folders = (killed, tmp_path / "undisturbed")
    ours, theirs = (read_tensors(folder / "samples.safetensors")[0]["theta"] for folder in folders)
    assert torch.equal(ours, theirs)
    assert read_metrics(killed)["u"] == read_metrics(tmp_path / "undisturbed")["u"]


@pytest.mark.full
@pytest.mark.cli
def test_a_run_killed_with_sigkill_is_resumed_by_folder_and_by_id(cli, tmp_path):
    settings = ["fidelity=smoke", "method.n_burn=200", "method.n_samples=1200", "checkpoint_interval=0.3"]
    undisturbed = cli(*settings)
    assert undisturbed.returncode == 0, undisturbed.stderr
    (reference,) = run_folders(tmp_path)
    for by_id in (False, True):
        folder = start_and_kill(tmp_path, *settings)
        name = str(folder)
        if by_id:
            from mlflow import MlflowClient

            store = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
            experiment = store.get_experiment_by_name("sciuq").experiment_id
            (run,) = store.search_runs([experiment], "attributes.status = 'RUNNING'")
            name = run.info.run_id
        resumed = cli(f"resume={name}")
        assert resumed.returncode == 0, resumed.stderr
        assert "Going on after" in resumed.stdout
        assert not (folder / "checkpoint.safetensors").exists()
        ours, theirs = (read_tensors(path / "samples.safetensors")[0]["theta"] for path in (folder, reference))
        assert torch.equal(ours, theirs)
        assert read_metrics(folder)["u"] == read_metrics(reference)["u"]
        assert "already finished" in cli(f"resume={folder}").stderr
    from mlflow import MlflowClient

    store = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    statuses = [run.info.status for run in store.search_runs([store.get_experiment_by_name("sciuq").experiment_id])]
    assert statuses == ["FINISHED"] * 3
    assert cli("resume=nowhere").returncode == 2
    assert "leave out seed=3" in cli(f"resume={reference}", "seed=3").stderr
