"""Every configuration file composes, shows all settings of its class, and has its line in the help."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from sciuq_runner.cli import help as help_text
from sciuq_runner.config.build import RunSetup, assemble
from sciuq_runner.config.compose import compose, plain
from sciuq_runner.sweeps.request import read_sweep

CONF = Path(__file__).parents[2] / "conf"
FIDELITIES = ("smoke", "quick", "paper")
NEEDED = {"problem=operator": ["problem.data=pairs.npz", "problem.coordinates=[x]"]}
"""What has no default: the person's own data."""


def names(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def run_of(*choices: str) -> RunSetup:
    return assemble(plain(compose([*choices, *(item for name in choices for item in NEEDED.get(name, []))], None)))


@pytest.mark.full
@pytest.mark.parametrize("group", ["problem", "model", "method", "calibration", "tracking", "detection"])
def test_every_choice_composes_at_every_fidelity(group):
    for name in names(group):
        for fidelity in FIDELITIES:
            run_of(f"{group}={name}", f"fidelity={fidelity}")


@pytest.mark.full
@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_every_problem_composes_with_every_method(fidelity):
    for problem in names("problem"):
        for method in names("method"):
            run_of(f"problem={problem}", f"method={method}", f"fidelity={fidelity}")


@pytest.mark.parametrize("group", ["problem", "model", "method", "detection"])
def test_files_show_exactly_the_settings_of_their_class(group):
    for name in names(group):
        run = run_of(f"{group}={name}")
        settings = {field.name for field in dataclasses.fields(getattr(run, group)) if field.init}
        assert set(run.config[group]) - {"_target_"} == settings, f"{group}={name}"


def test_tuned_values_reach_the_run_and_the_command_line_wins():
    tuned = assemble(plain(compose(["method=dens", "fidelity=paper"], None))).method
    assert (tuned.learning_rate, tuned.weight_decay, tuned.n_steps) == (1e-4, 5e-4, 20_000)
    own = assemble(plain(compose(["method=dens", "fidelity=paper", "method.learning_rate=0.5"], None))).method
    assert own.learning_rate == 0.5


def test_hmc_at_paper_fidelity_has_the_numbers_of_the_paper():
    method = assemble(plain(compose(["method=hmc", "fidelity=paper"], None))).method
    found = (method.step_size, method.n_leapfrog, method.n_burn, method.n_samples, method.target_accept)
    assert found == (0.1, 50, 2000, 1000, 0.6)


@pytest.mark.full
def test_experiments_expand():
    for name in names("experiment"):
        for job in read_sweep([f"experiment={name}", "fidelity=smoke"], None).jobs:
            assemble(plain(compose(job, None)))


NOT_CHOSEN = {"hydra", "tuned", "__pycache__"}
"""Folders whose files come by themselves."""


def test_help_lists_every_group_and_choice_with_its_line():
    shown = help_text.text()
    groups = {path.name for path in CONF.iterdir() if path.is_dir()} - NOT_CHOSEN
    assert [line for line in shown.splitlines() if line.rstrip("=") in groups] == [f"{g}=" for g in help_text.GROUPS]
    assert set(help_text.GROUPS) == groups
    for group in groups:
        for path in (CONF / group).glob("*.yaml"):
            first = next(line for line in path.read_text().splitlines() if "@package" not in line)
            assert first.startswith("# "), f"{path} should start with a comment that describes it"
            assert re.search(rf"^  {path.stem} +{re.escape(first[2:])}$", shown, re.MULTILINE), path
    assert shown.count("sciuq-run problem=function") + shown.count("sciuq-run -m") >= 3


def test_the_line_of_a_file_can_be_read_alone():
    for path in CONF.rglob("*.yaml"):
        lines = [line for line in path.read_text().splitlines() if line.startswith("# ") and "@package" not in line]
        if path.parent != CONF and "tuned" not in path.parts:
            assert len(lines[0]) <= 120
            assert re.match("# [A-Z0-9]", lines[0]), path
            assert not re.search(r"\b(the same|readings?|places?)\b", lines[0], re.IGNORECASE), path
