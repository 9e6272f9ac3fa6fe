"""Every number of the paper has one command and one metric of ours, and the right verdict."""

from __future__ import annotations

import re

import pytest

from sciuq_runner.reproduction.evidence import COST_TABLE, Comparison, Evidence, Tally, best_fidelity, compare, number
from sciuq_runner.reproduction.paper_jobs import jobs_of
from sciuq_runner.reproduction.paper_tables import PaperCell, last_part, tables
from tests.reproduction.conftest import FIDELITY, all_cells, fake_run, job_of

COUNTS = {
    "function_known_id": 54,
    "function_known_ood": 54,
    "function_epistemic_id": 36,
    "function_unknown": 21,
    "function_heteroscedastic": 24,
    "function_student_t_id": 12,
    "mixed_pde_standard": 53,
    "mixed_pde_additional": 16,
    "spde": 24,
    "darcy_noisy_inference": 24,
    "darcy_clean_inference": 7,
    "darcy_ood_detection": 4,
    "cost_seconds": 16,
}


def test_there_are_345_cells():
    assert {name: len(table.cells) for name, table in tables().items()} == COUNTS
    assert len({cell.name for cell in all_cells()}) == 345
    assert all(re.search("tab:|fig:", table.source) for table in tables().values())


@pytest.mark.full
def test_every_cell_has_one_job_and_a_metric_that_no_other_number_has():
    places: dict[tuple[str, str], PaperCell] = {}
    for cell in all_cells():
        other = places.setdefault((job_of(cell).hash(0), cell.metric), cell)
        same = other is cell or other.printed == cell.printed  # the paper repeats two columns in its table of growth
        assert same, f"{cell.name} and {other.name}"
    assert len(places) == 345 - 6


def test_directions():
    found = {last_part(cell.metric): cell.better for cell in all_cells() if cell.table != "darcy_ood_detection"}
    rises = {cell.keys[0]: cell.better for cell in tables()["darcy_ood_detection"].cells}
    assert rises == {"rl2e": "lower", "gan_mse": "near", "gan_nll": "near", "dens_std": "near"}
    assert found == {
        "rl2e": "lower",
        "rl2e_standardised": "lower",
        "member_standardised": "lower",
        "rmsce": "lower",
        "piw": "lower",
        "mpl": "higher",
        "mpl_standardised": "higher",
        "sdcv": "higher",
        "train_s": "lower",
        "mean": "near",
        "mean_id": "near",
        "mean_ood_0.15": "near",
        "length": "near",
        "1": "near",
    }


def test_runs_like_the_paper_meet_every_cell(as_in_the_paper):
    evidence = Evidence(as_in_the_paper, FIDELITY)
    found = [item for table in tables().values() for item in compare(table, evidence)]
    assert len(found) == 345
    for item in found:
        assert item.verdict in (("setting",) if item.cell.keys[-1] == "l" else ("better", "within 3 std")), item.cell
        assert item.mean == pytest.approx(item.cell.printed)
        assert len(item.values) == 2
    assert all(not item.values for item in compare(tables()["spde"], Evidence([], "smoke")))


CELL = PaperCell("t", ("k",), 20.0, "p", frozenset(), "u/id/rl2e", 0.01, "lower")
HIGHER = PaperCell("t", ("k",), 20.0, "p", frozenset(), "u/id/mpl", 0.01, "higher")
TRUTH = PaperCell("t", ("k",), 0.15, "p", frozenset(), "noise/u/mean", 1, "near", 0.1)
NEAR = PaperCell("t", ("k",), 60.0, "p", frozenset(), "detection/gan_mse/rise_ood_0.15", 0.01, "near")
SETTING = PaperCell("t", ("k",), 0.25, "p", frozenset(), "problem.length", 1, "near")
VERDICTS = [
    (CELL, (), "not run"),
    (CELL, (19.0,), "better"),
    (CELL, (21.0,), "worse"),  # one seed has no spread
    (CELL, (20.0,), "within 3 std"),
    (CELL, (20.5, 21.5), "within 3 std"),  # mean 21, std 0.71
    (CELL, (20.9, 21.1), "worse"),  # mean 21, std 0.14
    (CELL, (21.0, 21.0), "worse"),
    (CELL, (18.0, 21.0), "better"),
    (HIGHER, (21.0,), "better"),
    (HIGHER, (19.0, 19.1), "worse"),
    (HIGHER, (18.0, 20.5), "within 3 std"),
    (TRUTH, (0.12,), "better"),
    (TRUTH, (0.06,), "better"),
    (TRUTH, (0.16,), "worse"),
    (TRUTH, (0.04,), "worse"),
    (TRUTH, (0.15, 0.17), "within 3 std"),
    (NEAR, (60.0,), "within 3 std"),
    (NEAR, (827.0,), "worse"),  # far more is not better
    (NEAR, (55.0, 75.0), "within 3 std"),
    (SETTING, (0.25,), "setting"),
]


@pytest.mark.parametrize(("cell", "values", "verdict"), VERDICTS)
def test_verdicts(cell, values, verdict):
    assert Comparison(cell, values).verdict == verdict


def test_tallies_count_and_say_the_share_of_all_and_of_those_that_were_run():
    cells = [Comparison(CELL, values) for values in ((), (19.0,), (21.0,), (20.5, 21.5), (30.0,))]
    tally = Tally.of([*cells, Comparison(SETTING, (0.25,)), Comparison(SETTING, ())])
    assert (tally.total, tally.run, tally.met) == (5, 4, 2)
    assert str(tally) == (
        "5 cells, 1 better, 1 within 3 std, 2 worse, 1 not run: 2 are met, 40 % of all cells, 50 % of those run"
    )
    assert str(Tally.of(cells[:1])) == "1 cells, 0 better, 0 within 3 std, 0 worse, 1 not run"
    assert COST_TABLE in tables()


def test_evidence_takes_finished_runs_of_its_fidelity_and_the_last_of_every_seed():
    job = jobs_of("forward_n15", "smoke")[0]
    runs = [
        fake_run(job, 1, {"u/id/rl2e": 0.3}),
        fake_run(job, 10, {"u/id/rl2e": 0.4}),
        fake_run(job, 2, {"f/id/rl2e": 0.5}),
        fake_run(job, 1, {"u/id/rl2e": 0.2}),
        fake_run(job, 3, {"u/id/rl2e": 9.0}, "KILLED"),
        fake_run(job, 4, {"u/id/rl2e": 9.0}, fidelity="quick"),
        fake_run(job, 5, {"u/id/rl2e": 9.0}, method__n_burn="7"),
    ]
    evidence = Evidence(runs, "smoke")
    assert [run.seed for run in evidence.runs(job.preset, *job.choices)] == ["1", "2", "10"]
    assert evidence.values(job.preset, job.choices, "u/id/rl2e") == [0.2, 0.4]
    assert best_fidelity(runs) == "quick"
    assert best_fidelity(runs[4:5]) is None


def test_settings_are_numbers_too():
    (job,) = jobs_of("darcy_clean", "smoke")
    run = fake_run(job, 0, {})
    assert (number(run, "problem.length"), number(run, "problem.test_lengths.1")) == (0.25, 0.15)
    assert number(run, "problem.test_lengths.99") is None
    assert number(run, "problem.nothing") is None
