"""Tuned files change the problem for nobody without saying so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from sciuq_runner.config.compose import compose, plain
from sciuq_runner.config.equal_terms import TUNED, changed_terms, describe_changes, terms
from sciuq_runner.errors import ConfigError
from sciuq_runner.report import report_markdown, report_page
from sciuq_runner.report.recorded_runs import named
from sciuq_runner.report.run_tables import build
from sciuq_runner.tracking.flat_keys import flatten_metrics
from sciuq_runner.tracking.run_record import read_record
from tests.config.test_configs import CONF
from tests.conftest import read_metrics
from tests.report.conftest import leave_folder, results

FILES = sorted((CONF / "tuned").rglob("*.yaml"))


def changes(*overrides: str, config_dir: Path | None = None) -> Mapping[str, Mapping[str, Any]]:
    folder = str(config_dir) if config_dir else None
    cfg = compose(overrides, folder, with_hydra=True)
    choices = {name: str(cfg.hydra.runtime.choices[name]) for name in ("model", "method")}
    return changed_terms(plain(cfg), choices, overrides, folder)


def choices_of(path: Path) -> list[str]:
    """The choices that a tuned file is for."""
    group, problem, name = path.relative_to(CONF / "tuned").with_suffix("").parts
    model, method = {"method": (None, name), "model": (name, None), "model_method": name.rsplit("_", 1)}[group]
    return [f"{key}={value}" for key, value in (("problem", problem), ("model", model), ("method", method)) if value]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONF)))
def test_every_tuned_file_is_read_and_what_it_changes_of_the_problem_is_told(path):
    overrides, content = choices_of(path), yaml.safe_load(path.read_text())
    for choice in overrides:
        group, _, name = choice.partition("=")
        assert (CONF / group / f"{name}.yaml").is_file()
    composed = compose(overrides, None, with_hydra=True)
    group = path.relative_to(CONF).parts[1]
    assert composed.hydra.runtime.choices[f"tuned/{group}"] == f"{path.parent.name}/{path.stem}"
    written = set(terms(content))  # all but model and method
    whom = " ".join(overrides[1:])
    assert {key for key, change in changes(*overrides).items() if change["for"] == whom} == written


def test_a_run_without_changes_has_none():
    assert changes("problem=darcy", "method=dens") == {}
    assert changes("problem=mixed_pde", "method=hmc") == {}
    assert changes("problem=darcy", "method=hmc", "problem.case=noisy") == {}


def test_what_changed_is_told_with_its_usual_value_and_for_whom():
    found = changes("problem=darcy", "method=hmc")
    assert found == {
        "problem.n_pairs": {"value": 100, "usual": 1000, "for": "method=hmc"},
        "problem.stride": {"value": 4, "usual": 1, "for": "method=hmc"},
    }
    assert describe_changes(found) == (
        "Not on equal terms: problem.n_pairs=100 instead of 1000 and problem.stride=4 instead of 1 for method=hmc."
    )


def test_two_files_that_change_the_same_are_both_named():
    found = changes("problem=mixed_pde", "model=gan_fp", "method=mcd")
    assert found == {"problem.learn_noise": {"value": False, "usual": True, "for": "method=mcd model=gan_fp"}}
    assert "problem.learn_noise=false instead of true for method=mcd model=gan_fp." in describe_changes(found)


def test_what_the_person_has_chosen_is_no_change():
    assert changes("problem=mixed_pde", "method=mcd", "problem.learn_noise=false") == {}
    assert set(changes("problem=darcy", "method=hmc", "problem.n_pairs=50")) == {"problem.stride"}


def test_a_preset_brings_its_own_problem_and_the_file_of_its_model(tmp_path):
    paper = ["experiment=paper/mixed_pde_standard", "experiment/paper/technique=hmc_fp"]
    assert {change["for"] for change in changes(*paper).values()} == {"model=gan_fp"}
    assert changes(paper[0], "experiment/paper/technique=hmc") == {}


def test_a_file_of_the_persons_own_is_no_exception(tmp_path):
    path = tmp_path / "tuned/method/forward_pde/dens.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("# @package _global_\n# Mine\ntemperature: 0.5\nproblem: {n_test: 11}\nmethod: {n_members: 2}\n")
    found = changes("problem=forward_pde", "method=dens", config_dir=tmp_path)
    assert {key: (change["value"], change["usual"]) for key, change in found.items()} == {
        "temperature": (0.5, 1.0),
        "problem.n_test": (11, 201),
    }


def test_groups_are_those_of_the_folder_and_of_the_list_of_defaults():
    defaults = yaml.safe_load((CONF / "config.yaml").read_text())["defaults"]
    listed = [key.removeprefix("optional ") for item in defaults if isinstance(item, dict) for key in item]
    assert {path.relative_to(CONF).as_posix() for path in (CONF / "tuned").iterdir()} == set(TUNED)
    assert [name for name in listed if name.startswith("tuned")] == list(TUNED)


def test_a_run_says_it_and_keeps_it_when_it_is_resumed(inside, tmp_path):
    settings = ["problem=darcy", "method=la", "fidelity=smoke", "figures=false", "hydra.run.dir=run"]
    sentence = "problem.n_pairs=20 instead of 40 and problem.stride=5 instead of 1 for method=la."
    found = inside(*settings, "tracking=none")
    assert found.status == 0, found.err
    assert sentence in found.out
    first = read_metrics(tmp_path / "run")
    assert first["changed_terms"]["problem.stride"] == {"value": 5, "usual": 1, "for": "method=la"}
    assert sentence in read_record(tmp_path / "run").tags["changed_terms"]
    assert not [key for key in flatten_metrics(first) if key.startswith("changed_terms")]
    assert "changed_terms" not in first["config"]
    (tmp_path / "run/metrics.json").unlink()
    assert inside("resume=run").status == 0
    assert read_metrics(tmp_path / "run")["changed_terms"] == first["changed_terms"]


def test_a_run_on_equal_terms_has_no_such_key(finished):
    assert "changed_terms" not in read_metrics(finished)


def test_the_report_notes_it_below_the_table(tmp_path):
    told = {"problem.n": {"value": 1, "usual": 2, "for": "method=hmc"}}
    leave_folder(tmp_path / "a", {**results("hmc", 0), "changed_terms": told})
    leave_folder(tmp_path / "b", results("dens", 0))
    report = build(named([str(tmp_path)], None), "")
    note = "hmc: Not on equal terms: problem.n=1 instead of 2 for method=hmc."
    for text in (report_page.html(report), report_markdown.markdown(report)):
        assert text.count("equal terms") == 1
        assert text.index("rl2e") < text.index(note)


def test_the_report_answers_a_key_that_no_run_writes(tmp_path):
    leave_folder(tmp_path / "a", {**results("hmc", 0), "changed_terms": [1]})
    with pytest.raises(ConfigError, match=r"is not the metrics\.json of a run"):
        named([str(tmp_path)], None)
