"""Metrics of splits are those of the arrays under their masks, and a new metric is registered in one place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from sciuq_runner.calibration.var import Var
from sciuq_runner.evaluation import metrics
from sciuq_runner.evaluation.metrics import KNOWN_METRICS, SplitArrays, metric
from sciuq_runner.evaluation.split_metrics import evaluate_splits
from sciuq_runner.runs.console import print_summary
from tests.evaluation.samples import line, operator


def test_splits_are_evaluated_before_and_after_calibration():
    found = line().calibrate({"var": Var()}, np.array([2.0, -2.0]))
    values = evaluate_splits(found)
    assert list(values) == ["id", "ood", "cal_id", "cal_ood"]
    mask = found.splits["ood"]
    parts = found.mean[mask], found.std[mask], found.test_y[mask]
    assert values["ood"]["rmsce"] == metrics.rmsce(*parts)
    assert values["cal_ood"]["nll"] == metrics.nll(*parts, found.standards["var"])
    assert values["ood"]["coverage"] == metrics.coverage(*parts[:2], found.reference[mask])
    assert values["ood"]["epistemic_std"] == pytest.approx(0.2)
    assert values["ood"]["epistemic_coverage"] == 1  # an error of 0.1
    assert not {"epistemic_std", "epistemic_coverage"} & set(values["cal_ood"])


def test_several_calibrators_have_splits_of_their_own():
    found = line().calibrate({"var": Var(), "other": Var()}, np.array([2.0, -2.0]))
    names = ["cal_id", "cal_ood", "cal_var_id", "cal_var_ood", "cal_other_id", "cal_other_ood"]
    assert list(evaluate_splits(found)) == ["id", "ood", *names]


def test_a_gold_standard_is_compared_with_predictions_before_calibration():
    found = line().calibrate({"var": Var()}, np.array([2.0, -2.0]))
    values = evaluate_splits(found, (found.mean, 2 * found.std))
    assert values["id"]["nip_g"] == pytest.approx(1)
    assert values["id"]["kl_g"] == pytest.approx(0.5 * (4 - 1) - np.log(2))
    assert not {"nip_g", "kl_g"} & set(values["cal_id"])


def test_points_at_which_nothing_is_known_do_not_count():
    found = line()
    lost = found.test_y.copy()
    lost[found.splits["ood"]] = np.nan
    assert list(evaluate_splits(replace(found, test_y=lost))) == ["id"]


def test_realisations_have_no_epistemic_coverage():
    many = np.random.default_rng(0).standard_normal((60, 7))
    values = evaluate_splits(line(reference=many, test_y=many))["id"]
    assert "coverage" in values
    assert "epistemic_coverage" not in values


def test_the_error_of_functions_is_the_mean_over_them():
    found = operator(line())
    values = evaluate_splits(found)
    assert values["id"]["rl2e"] == pytest.approx(np.mean([0.1, 0.2, 0.3]))
    assert values["ood"]["rl2e"] == pytest.approx(np.mean([0.4, 0.5]))
    assert "rl2e_standardised" not in values["id"]


def test_standardised_values_have_errors_and_likelihoods_of_their_own():
    found = operator(line())
    centre, scale = np.full((60, 1), 0.5), np.full((60, 1), 4.0)
    values = evaluate_splits(replace(found, units=np.hstack([centre, scale])))["ood"]
    truth = found.reference - 0.5
    expected = [np.linalg.norm(found.mean[:, [i]] - found.reference) / np.linalg.norm(truth) for i in (3, 4)]
    assert values["rl2e_standardised"] == pytest.approx(np.mean(expected))
    assert values["mpl_standardised"] == pytest.approx(4 * values["mpl"])  # a density is per unit


@pytest.fixture
def _registry() -> Iterator[None]:
    """Metrics that a test registers are forgotten."""
    before = dict(KNOWN_METRICS)
    yield
    KNOWN_METRICS.clear()
    KNOWN_METRICS.update(before)


@pytest.mark.usefixtures("_registry")
def test_a_new_metric_is_everywhere_by_its_registration(tmp_path, capsys):
    @metric("largest error of the mean", "lower", heading="worst")
    def worst_error(location: np.ndarray, truth: np.ndarray) -> float:
        return float(np.abs(location - truth).max())

    @metric("needs a gold standard", heading=None)
    def gold_only(gold_mean: np.ndarray) -> float:
        return 1.0

    values = {"u": evaluate_splits(line())}
    assert values["u"]["id"]["worst_error"] == pytest.approx(0.1)
    assert "gold_only" not in values["u"]["id"]
    print_summary({**values, "diagnostics": {}, "noise": {}, "parameters": {}}, tmp_path, None)
    shown = capsys.readouterr().out
    assert "worst" in shown
    assert "interval " in shown
    assert "epistemic_coverage" not in shown
    assert KNOWN_METRICS["worst_error"].better == "lower"


@pytest.mark.usefixtures("_registry")
def test_a_metric_of_something_unknown_is_refused():
    with pytest.raises(TypeError, match="worst needs temperature, which no split has"):

        @metric("of what nobody knows")
        def worst(mean: np.ndarray, temperature: float) -> float:
            return 0.0


def test_the_truth_is_the_reference_only_where_errors_are_clean():
    mean, y, reference = np.zeros(3), np.ones(3), np.full(3, 2.0)
    split = SplitArrays(mean, np.ones(3), y, reference=reference)
    assert split.truth is reference
    assert replace(split, clean=False).truth is y
    assert replace(split, reference=None).truth is y
