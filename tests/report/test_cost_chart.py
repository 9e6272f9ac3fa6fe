"""The chart of cost against accuracy."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from sciuq_runner.report import cost_chart, report_page
from sciuq_runner.report.run_tables import build
from tests.report.conftest import METHODS, run


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("values", [(1.0, 900.0), (0.2, 0.25), (3.0, 3.0), (1e-4, 1e6)])
def test_every_axis_has_ticks_inside(values, log):
    axis = cost_chart.Axis.around(values, 0.0, 100.0, log)
    assert 2 <= len(axis.ticks()) <= 13
    assert all(0 <= axis.place(tick) <= 100 for tick in axis.ticks())
    assert axis.place(values[0]) < axis.place(values[1]) or values[0] == values[1]


def test_names_in_a_chart_cover_neither_each_other_nor_points():
    places = [(200.0 + 12 * k, 200.0) for k in range(5)] + [(775.0, 40.0)]
    boxes = cost_chart.spots([f"method {k}" for k in range(6)], places)
    assert not any(cost_chart.overlap(a, b) for a, b in itertools.combinations(boxes, 2))
    assert not any(a <= x <= c and b <= y <= d for a, b, c, d in boxes for x, y in places)
    assert all(cost_chart.inside(box) for box in boxes)


def test_without_errors_there_is_no_chart_of_them():
    found = [replace(run(method), metrics={"u/id/mpl": 1.0, "cost/train_s": 2.0}) for method in METHODS]
    report = build(found, "")
    assert report.sections[0].headline == "u/id/mpl"
    assert "<svg" not in report_page.html(report)
