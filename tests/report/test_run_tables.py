"""Grouping and comparing runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sciuq_runner.report.run_tables import REPEATED_RUN, SeedStatistics, best, build, pareto, spelled, tables_of
from tests.report.conftest import run


def test_runs_that_differ_only_in_seed_are_one_row():
    report = build([run(method, seed) for seed in (10, 9, 2) for method in ("hmc", "dens")], "")
    (section,) = report.sections
    assert [row.name for row in section.rows] == ["dens", "hmc"]
    assert [run.seed for run in section.rows[0].runs] == ["2", "9", "10"]
    assert section.columns == ["method"]  # what a method brings along is no column, nor are threads
    assert section.same == {"model": "bnn", "calibration": "none", "fidelity": "quick"}
    cell = section.rows[1].cells["u/id/rl2e"]
    assert (cell.mean, cell.count) == (pytest.approx(0.29), 3)
    assert cell.std == pytest.approx(0.0436, abs=1e-4)


def test_a_parameter_that_differs_makes_rows_and_a_column():
    runs = [run("hmc", seed, method__n_samples=n) for n in (20, 100, 3) for seed in (0, 1)] + [run("dens")]
    (section,) = build(runs, "").sections
    assert section.columns == ["method", "method.n_samples"]
    assert [row.name for row in section.rows] == [
        "dens, n_samples=10",
        "hmc, n_samples=3",
        "hmc, n_samples=20",
        "hmc, n_samples=100",
    ]


def test_problems_and_cases_are_not_compared_with_each_other():
    report = build([run(), run(problem__case="unknown"), run(problem__case="unknown", seed=1)], "")
    assert [(section.title, len(section.rows)) for section in report.sections] == [
        ("function, known", 1),
        ("function, unknown", 1),
    ]


def test_of_repeated_runs_the_last_counts_and_the_others_are_named():
    first, second = replace(run(), started=1.0), replace(run(), started=2.0)
    report = build([second, first], "")
    assert report.runs == [second]
    assert report.left_out == [replace(first, note=REPEATED_RUN)]


def test_tables_come_in_the_order_of_the_paper():
    keys = [
        "f/id/rl2e",
        "u/cal_id/zeta",
        "u/cal_id/mpl",
        "u/ood/rl2e",
        "u/id/sdcv",
        "u/id/rl2e",
        "noise/u/mean",
        "cost/a",
    ]
    found = tables_of([dict.fromkeys(keys, 1.0)])
    assert list(found) == ["u/id", "u/ood", "u/cal_id", "f/id", "cost"]
    assert found["u/id"] == ["rl2e", "sdcv"]
    assert found["u/cal_id"] == ["mpl", "zeta"]
    assert tables_of([{"cost/train_s": 1.0}]) == {}


@pytest.mark.parametrize(
    ("metric", "expected"),
    [("u/id/rl2e", {0, 1}), ("u/id/mpl", {1, 3}), ("u/id/piw", set()), ("u/id/unheard_of", set())],
)
def test_the_best_and_those_that_overlap_it_are_marked(metric, expected):
    column = [SeedStatistics(0.2, 0.01, 3, 3), SeedStatistics(0.23, 0.02, 3, 3), None, SeedStatistics(0.24, 0.0, 1, 1)]
    assert best(column, metric) == expected
    assert best(column[:1], metric) == set()


def test_the_front_holds_what_nothing_beats():
    assert pareto([(1, 3), (2, 2), (2, 3), (3, 2), (4, 1), (1, 3)]) == {0, 1, 4, 5}


def test_numbers_of_a_column_stand_below_each_other():
    column = [
        SeedStatistics(0.0213, 0.001, 3, 3),
        SeedStatistics(12.5, 0.0, 1, 1),
        None,
        SeedStatistics(0.5, 0.1, 2, 3),
    ]
    assert spelled(column) == [
        " 0.0213 ± 0.0010         ",
        "12.5000                  ",
        "",
        " 0.5000 ± 0.1000 (2 of 3)",
    ]
    assert spelled([SeedStatistics(1e-6, 0, 1, 1), SeedStatistics(1, 0, 1, 1)]) == ["1.00e-06", "1.00e+00"]
    assert spelled([SeedStatistics(20000, 0, 1, 1), SeedStatistics(0, 0, 1, 1)]) == ["20000", "    0"]


def test_one_seed_without_a_value_is_not_hidden():
    whole = run(seed=0)
    hole = replace(run(seed=1), metrics={key: v for key, v in whole.metrics.items() if key != "u/id/rl2e"})
    (section,) = build([whole, hole], "").sections
    assert spelled(section.column("u/id/rl2e")) == ["0.220 (1 of 2)"]
