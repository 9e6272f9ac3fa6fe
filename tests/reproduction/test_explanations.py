"""Explanations, and the numbers in them."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from sciuq_runner.errors import ConfigError
from sciuq_runner.reproduction import explanations as shipped
from sciuq_runner.reproduction.evidence import Evidence
from sciuq_runner.reproduction.explanations import MISSING, PLACE, explanations, filled
from sciuq_runner.reproduction.kept_runs import kept_runs
from tests.reproduction.test_kept_runs import RESULTS

SETTINGS = {"0.05", "0.1", "0.2", "0.3", "0.5", "95 %", "82 %"}
"""Noises, dropout rates, lengths and levels, which are what was done and not what came out; the last is a formula's."""


def evidence(**values: list[float]) -> SimpleNamespace:
    return SimpleNamespace(values=lambda preset, choices, metric: values[f"{preset}_{'_'.join(choices)}_{metric}"])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("mean", "0.2"),
        ("median", "0.15"),
        ("range", "0.1 to 0.35"),
        ("each", "0.1, 0.35 and 0.15"),
        ("std", "0.132"),
    ],
)
def test_numbers_over_seeds_are_those_of_runs(kind, expected):
    found = filled({"spde": f"It is {{{kind} job choice metric}}."}, evidence(job_choice_metric=[0.1, 0.35, 0.15]))
    assert found == {"spde": f"It is {expected}."}


def test_without_runs_it_says_so():
    none, one = evidence(job__metric=[]), evidence(job__metric=[0.5])
    assert filled({"spde": "{mean job metric}"}, none) == {"spde": MISSING}
    assert filled({"spde": "{std job metric}, {range job metric}, {each job metric}"}, one) == {
        "spde": f"{MISSING}, 0.5, 0.5"
    }


def test_numbers_of_the_paper_are_in_our_units_and_those_of_scripts_as_kept(monkeypatch):
    monkeypatch.setattr(shipped, "measured", lambda: {"a/b/seed_0": 0.1, "a/b/seed_1": 0.2, "a/bc": 0.3})
    text = "{paper function_known_id/dens/piw}, {paper function_unknown/learned_sigma_u/hmc}"
    assert filled({"spde": text}, evidence()) == {"spde": "0.405, 0.15"}
    assert filled({"spde": "{measured a/b}; {measured a/bc}"}, evidence()) == {"spde": "0.1 and 0.2; 0.3"}
    assert filled({"spde": "{measured nothing}"}, evidence()) == {"spde": MISSING}
    for strange in ("{paper nothing}", "{mode job metric}"):
        with pytest.raises(KeyError):
            filled({"spde": strange}, evidence(job__metric=[1.0]))


def test_shipped_explanations_are_of_tables_and_findings_that_there_are(monkeypatch):
    explanations()
    monkeypatch.setattr("yaml.safe_load", lambda text: {"nothing": "x"})
    with pytest.raises(ConfigError, match="explains nothing, which is neither"):
        explanations()


def test_all_numbers_of_shipped_explanations_have_runs():
    found = filled(explanations(), Evidence(kept_runs(RESULTS / "runs"), "paper"))
    for name, text in found.items():
        assert MISSING not in text, name
        assert not set("{}") & set(text), name


def test_no_result_is_typed_by_hand():
    typed = {
        number for text in explanations().values() for number in re.findall(r"\d+\.\d+|\d+ %", PLACE.sub("", text))
    }
    assert typed <= SETTINGS
