"""The presets of the paper: which jobs each has, and that every job is a run that can start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sciuq_runner.config.build import assemble
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.config.configuration_hash import configuration_hash
from sciuq_runner.errors import ConfigError
from sciuq_runner.reproduction.paper_jobs import ORDER, check_names, jobs, jobs_of, presets
from sciuq_runner.sweeps.request import read_sweep
from tests.config.test_configs import CONF
from tests.reproduction.conftest import FIDELITY, fake_run

register_resolvers()

JOBS = {
    "function_known": 9,
    "epistemic_growth": 12,
    "network_size": 6,
    "calibration_size": 9,
    "function_unknown": 3,
    "function_heteroscedastic": 4,
    "function_student_t": 4,
    "mixed_pde_standard": 5,
    "mixed_pde_additional": 4,
    "spde_clean": 3,
    "spde_noisy": 3,
    "forward_n15": 2,
    "forward_n6": 2,
    "darcy_noisy": 4,
    "darcy_ood": 1,
    "darcy_clean": 1,
    "cost": 8,
    "cost_gpu": 8,
}


def test_every_file_has_its_place_in_the_order_and_a_line_that_describes_it():
    assert set(ORDER) == {path.stem for path in (CONF / "experiment/paper").glob("*.yaml")} == set(JOBS)
    assert all(presets().values())


@pytest.mark.full
@pytest.mark.parametrize("name", JOBS)
def test_a_preset_expands_to_its_jobs_and_each_can_start(name):
    found = jobs_of(name, FIDELITY)
    assert len(found) == len({job.hash(0) for job in found}) == JOBS[name]
    for job in found:
        assert job.fidelity == FIDELITY
        if job.config["device"] != "cuda":
            assemble(job.config)


@pytest.mark.parametrize("name", JOBS)
def test_alone_a_preset_is_of_paper_fidelity_and_five_seeds_or_ten_fields(name):
    config = compose([f"experiment=paper/{name}"], None, with_hydra=True)
    assert config.fidelity.name == "paper"
    assert config.hydra.sweeper.params.seed == ("range(0,10)" if name == "darcy_noisy" else "range(0,5)")


@pytest.mark.full
def test_what_presets_share_is_run_once():
    found = jobs(ORDER, FIDELITY)
    # Of the presets after the first, the runs of calibration size and cost are those of all methods, and the known
    # noise and network are those of the other sweeps.
    shared = JOBS["calibration_size"] + JOBS["cost"] + JOBS["darcy_clean"] + 2 + 1
    assert len(found) == sum(JOBS.values()) - shared
    assert not [job.name for job in found if job.preset in ("calibration_size", "cost", "darcy_clean")]


def test_the_hash_of_a_job_is_that_of_what_its_command_composes_to():
    job = jobs_of("function_heteroscedastic", FIDELITY)[3]
    assert job.choices == ("technique=hmc_fp",)
    assert job.hash(3) == configuration_hash(plain(compose(job.arguments(3), None)))
    assert job.hash(3) != job.hash(4)


def test_a_functional_prior_comes_with_what_is_tuned_for_it():
    config = plain(compose(["experiment=paper/mixed_pde_standard", "experiment/paper/technique=hmc_fp"], None))
    assert config["model"]["_target_"].endswith("GANFP")
    assert (config["problem"]["learn_noise"], config["method"]["n_leapfrog"]) == (False, 50)
    networks = plain(compose(["experiment=paper/mixed_pde_standard", "experiment/paper/technique=hmc"], None))
    assert (networks["problem"]["learn_noise"], networks["model"]["learn_prior"]) == (True, True)


@pytest.mark.parametrize("name", ["epistemic_growth", "network_size", "calibration_size", "darcy_ood"])
def test_names_of_before_still_work(name):
    first = read_sweep([f"experiment={name}"], None).jobs[0]
    assert plain(compose(first, None))["fidelity"]["name"] == "quick"


def test_a_run_belongs_to_a_job_if_all_settings_but_the_seed_agree():
    job, other = jobs_of("forward_n15", "smoke")
    assert job.made(fake_run(job, 7, {}).params)
    assert job.made(fake_run(job, 0, {}, threads="2", temperature="1").params)
    assert not job.made(fake_run(job, 0, {}, method__n_burn="7").params)
    assert not job.made(fake_run(other, 0, {}).params)
    older = {key: value for key, value in fake_run(job, 0, {}).params.items() if key != "temperature"}
    assert job.made(older)


def test_a_run_that_is_older_than_a_setting_did_what_the_class_does_by_default():
    """Without mirror images it is not a run of a job that asks for them, and one of a job that does not."""
    job = jobs_of("darcy_clean", "quick")[0]
    params = dict(fake_run(job, 0, {}).params)
    assert job.made(params)
    assert params.pop("problem.mirror") == "True"
    assert not job.made(params)
    once = replace(job, config={**job.config, "problem": {**job.config["problem"], "mirror": False}})
    assert once.made(params)


def test_a_run_with_other_calibrators_is_no_run_of_a_job():
    """One that was calibrated anew, or not at all, lacks what its cells ask for."""
    job = jobs_of("function_known", FIDELITY)[0]
    params = fake_run(job, 0, {}).params
    assert "calibration.by.var._target_" in params
    assert not job.made({key: value for key, value in params.items() if not key.startswith("calibration.by.")})


def test_names_are_checked():
    assert check_names(["paper/cost", "function_known"]) == ["function_known", "cost"]
    assert check_names([]) == list(ORDER)
    with pytest.raises(ConfigError, match="did you mean 'spde_clean'"):
        check_names(["spde_claen"])
