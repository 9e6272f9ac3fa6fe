"""Everything that the page beside the paper says, before it is set as HTML or Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sciuq_runner.config.configuration_hash import COMMIT
from sciuq_runner.errors import ConfigError
from sciuq_runner.report.recorded_runs import RecordedRun
from sciuq_runner.report.run_tables import by_number
from sciuq_runner.reproduction.evidence import COST_TABLE, Comparison, Evidence, Tally, best_fidelity, compare
from sciuq_runner.reproduction.explanations import explanations, filled
from sciuq_runner.reproduction.findings import judge
from sciuq_runner.reproduction.job_costs import spoken
from sciuq_runner.reproduction.paper_figures import draw_all
from sciuq_runner.reproduction.paper_statements import FindingOutcome
from sciuq_runner.reproduction.paper_tables import PaperTable, tables
from sciuq_runner.tracking.run_record import FINISHED

HOW_TO_READ_PAPER = (
    "Every number that the paper prints, in its units, beside ours: mean ± standard deviation over seeds; the paper "
    "reports one draw. A seed is a new draw of the noise, or of the realisations of a random field, and of all "
    "starting points, with these exceptions. Darcy flow: all seeds share the pairs that operators learn from, the "
    "test functions and the generator that scores them, so that with new conductivities only the ensemble differs "
    "between seeds; with noisy readings they share the operator and the learned prior too, and the field and its "
    "readings differ. hmc_fp: all seeds share the prior, and the history that it has learned from; gp_pi_gan: what "
    "the GAN starts from. Their spread over seeds leaves out what is shared. Better: our mean is better than the "
    "paper's value (lower for rl2e, rmsce and piw, higher for mpl and sdcv; nearer to the truth for a learned noise "
    "scale; a smaller rise of the error out of distribution). Within 3 std: not better, but no further from it than "
    "three standard deviations over seeds; for scores of detection and the spread of an ensemble, which have no "
    "better direction, this is all that there is to meet. Worse: neither. One seed has no spread, so that nothing is "
    "within it. Findings compare jobs on the seeds that all of them have. Settings that the paper prints among its "
    "numbers do not count. Where the settings of our own runs "
    "depart from the paper's is listed in docs/deviations.md."
)


@dataclass(frozen=True)
class Paper:
    """The comparison with the paper."""

    fidelity: str
    tables: Mapping[str, PaperTable]
    comparisons: Mapping[str, Sequence[Comparison]]
    outcomes: Sequence[FindingOutcome]
    figures: Mapping[str, tuple[str, bytes]]
    pictures: Mapping[str, Mapping[str, bytes]]
    runs: Sequence[RecordedRun]
    explanations: Mapping[str, str]

    @property
    def overall(self) -> Tally:
        """All cells but those of the cost."""
        return Tally.of(item for name, found in self.comparisons.items() if name != COST_TABLE for item in found)

    def explanation(self, item: FindingOutcome) -> str:
        """Why a finding is not confirmed, where that was found out; there is nothing to explain about any other."""
        return self.explanations.get(item.finding.name, "") if item.answer == "not confirmed" else ""

    def summary(self) -> list[str]:
        """What the page comes to, in a few sentences."""
        answers = [item.answer for item in self.outcomes]
        explained = sum(bool(self.explanation(item)) for item in self.outcomes)
        return [
            f"Overall (the cost aside): {self.overall}.",
            f"Findings: {len(answers)}, of which {answers.count('confirmed')} are confirmed, "
            f"{answers.count('not confirmed')} are not "
            f"({explained} of these explained), and {answers.count('not enough runs')} have not enough runs.",
        ]

    def origin(self) -> str:
        """What the numbers were made from."""
        commits = sorted({short(run.tags.get(COMMIT, "unknown")) for run in self.runs})
        seeds = sorted({run.seed for run in self.runs}, key=by_number)
        seconds = sum(run.metrics.get("cost/total_s", 0.0) for run in self.runs)
        return (
            f"{len(self.runs)} runs at {self.fidelity} fidelity, seeds {', '.join(seeds) or 'none'}, "
            f"{spoken(seconds)} of work in all, commit {', '.join(commits) or 'none'}. "
            f"Made by sciuq-reproduce --fidelity {self.fidelity} and sciuq-report --paper."
        )


def short(commit: str) -> str:
    """A commit by its first digits, and whether files differed from it."""
    digits, mark, _ = commit.partition("-")
    return digits[:12] + ("-dirty" if mark else "")


def build(runs: Sequence[RecordedRun], fidelity: str | None) -> Paper:
    """Compare runs with the paper: those of one fidelity, the highest that there is unless another is asked for."""
    chosen = fidelity or best_fidelity(runs)
    finished = [run for run in runs if run.status == FINISHED and run.params.get("fidelity") == chosen]
    if chosen is None or not finished:
        wanted = f" at {fidelity} fidelity" if fidelity else ""
        raise ConfigError(f"--paper: there is no finished run{wanted}: make some with sciuq-reproduce first.")
    evidence = Evidence(runs, chosen)
    comparisons = {name: compare(table, evidence) for name, table in tables().items()}
    outcomes = judge(evidence)
    figures = draw_all(evidence, [item for found in comparisons.values() for item in found])
    pictures = {name: pictures_of(table, evidence) for name, table in tables().items()}
    words = filled(explanations(), evidence)
    return Paper(chosen, tables(), comparisons, outcomes, figures, pictures, evidence.used, words)


def pictures_of(table: PaperTable, evidence: Evidence) -> dict[str, bytes]:
    """A figure of the first seed of every job behind a table, by the name of the job."""
    found = {}
    for preset, choices in dict.fromkeys((cell.preset, cell.choices) for cell in table.cells):
        for run in evidence.runs(preset, *choices)[:1] if table.name not in (COST_TABLE, "function_known_ood") else ():
            drawn = run.figures()
            name = first_of(drawn)
            if name:
                label = ", ".join(text.partition("=")[2] for text in evidence.jobs(preset)[choices].choices)
                found[f"{label or preset} (seed {run.seed})"] = drawn[name]
    return found


def first_of(names: Iterable[str]) -> str:
    """The figure that says most of a run: bands of u, else its maps, else the first."""
    ordered = sorted(
        names, key=lambda name: (not name.startswith("u_bands"), not name.startswith("u"), len(name), name)
    )
    return ordered[0] if ordered else ""
