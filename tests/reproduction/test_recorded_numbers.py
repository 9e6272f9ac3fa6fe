"""Runs record every number that is compared with the paper, and every one that a finding asks for, under its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from sciuq_runner.config.build import assemble, prepare
from sciuq_runner.config.compose import compose, plain, register_resolvers
from sciuq_runner.evaluation import plots
from sciuq_runner.models.pretraining import Store
from sciuq_runner.report.recorded_runs import RecordedRun
from sciuq_runner.reproduction.evidence import Evidence, T
from sciuq_runner.reproduction.findings import judge
from sciuq_runner.reproduction.paper_jobs import ORDER, Job, jobs
from sciuq_runner.reproduction.paper_tables import PaperCell
from sciuq_runner.runs.pipeline import execute
from sciuq_runner.tracking.flat_keys import flatten_metrics
from sciuq_runner.training.loop import Loop
from tests.reproduction.conftest import all_cells, fake_run, job_of

register_resolvers()

ONE_OF_EACH = {  # a job for every problem and case, the one that records most
    "function_known": ("method=hmc",),
    "function_unknown": ("method=hmc",),
    "function_heteroscedastic": ("technique=hmc",),
    "function_student_t": ("method=hmc", "temperature=1.0"),
    "mixed_pde_standard": ("technique=hmc",),
    "mixed_pde_additional": ("problem.case=steep",),
    "spde_clean": ("model=nnpc_plus",),
    "spde_noisy": ("model=nnpc_plus",),
    "forward_n15": ("model=bnn",),
    "forward_n6": ("model=bnn",),
    "darcy_noisy/0.25": ("model=pa_bnn_fp", "problem.new_length=0.25"),
    "darcy_noisy/0.2": ("model=pa_bnn_fp", "problem.new_length=0.2"),
    "darcy_ood": (),
}
SAME_KIND = {
    "epistemic_growth": "function_known",
    "network_size": "function_known",
    "calibration_size": "function_known",
    "cost": "function_known",
    "cost_gpu": "function_known",
    "darcy_clean": "darcy_ood",
}

Recorded = Callable[[Job], RecordedRun]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterable[Recorded]:
    """A real run of a job, without its figures; of the same job once."""
    folder = tmp_path_factory.mktemp("recorded")
    known: dict[str, RecordedRun] = {}

    def run(job: Job) -> RecordedRun:
        key = job.hash(0)
        if key not in known:
            place = folder / str(len(known))
            place.mkdir()
            run = assemble({**job.config, "gold": None})
            found = execute(run, *prepare(run), place, Loop(), {}, Store(folder / "pretrained"))
            known[key] = replace(fake_run(job, 0, flatten_metrics(found.metrics)), file=reader(place))
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "draw_all", lambda *_: None)
        yield run


def reader(folder: Path) -> Callable[[str], bytes | None]:
    """What reads the files that a run has left."""
    return lambda name: (folder / name).read_bytes() if (folder / name).is_file() else None


@cache
def composed(preset: str, choices: tuple[str, ...]) -> Job:
    """One job of a preset, without its others: composing takes as long as running."""
    job = Job(preset, choices, {"fidelity": {"name": "smoke"}})
    return replace(job, config=plain(compose(job.arguments(0), None)))


class OneOfEach(Evidence):
    """Of every problem and case one run, whatever the method."""

    def __init__(self, recorded: Recorded) -> None:
        super().__init__([], "smoke")
        self.recorded = recorded

    def runs(self, preset: str, *choices: str) -> list[RecordedRun]:
        kind = SAME_KIND.get(preset, preset)
        lengths = [text.partition("=")[2] for text in choices if text.startswith("problem.new_length=")]
        name = "/".join([kind, *lengths])
        return [self.recorded(composed(kind, ONE_OF_EACH[name]))]

    def on_equal_terms(self, check: Callable[[Evidence], T]) -> T:
        return check(self)


def missing(evidence: Evidence, cells: Iterable[PaperCell]) -> list[str]:
    """Cells for which the runs have no number."""
    return [cell.name for cell in cells if not evidence.values(cell.preset, sorted(cell.choices), cell.metric)]


def undecided(evidence: Evidence) -> list[str]:
    """Findings for which the runs do not have all that they ask for."""
    return [item.finding.name for item in judge(evidence) if item.answer == "not enough runs"]


def test_a_run_of_every_problem_and_case_records_what_cells_and_findings_ask_for(recorded):
    assert {*(name.partition("/")[0] for name in ONE_OF_EACH), *SAME_KIND} == set(ORDER)
    evidence = OneOfEach(recorded)
    assert missing(evidence, all_cells()) == []
    assert undecided(evidence) == []


def test_a_name_that_no_run_records_is_missed(recorded):
    (cell,) = [cell for cell in all_cells() if cell.name == "function_known_id/hmc/rl2e"]
    assert missing(OneOfEach(recorded), [replace(cell, metric="u/id/rl2"), cell]) == [cell.name]


@pytest.mark.full
def test_every_job_records_what_its_own_cells_and_findings_ask_for(recorded):
    """What a run records depends on its method and model too."""
    cells = [cell for cell in all_cells() if cell.preset != "cost_gpu"]
    runs = {job.hash(0): recorded(job) for job in jobs(ORDER, "smoke") if job.config["device"] != "cuda"}
    assert {job_of(cell, "smoke").hash(0) for cell in cells} <= set(runs)
    evidence = Evidence(runs.values(), "smoke")
    assert missing(evidence, cells) == []
    assert undecided(evidence) == []
