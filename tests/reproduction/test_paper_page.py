"""The page beside the paper."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sciuq_runner.cli.report import beside_the_paper, main, parse
from sciuq_runner.errors import ConfigError
from sciuq_runner.report.report_markdown import plain
from sciuq_runner.reproduction import paper_comparison, paper_figures, paper_page
from sciuq_runner.reproduction.paper_comparison import HOW_TO_READ_PAPER, Paper, build, first_of
from sciuq_runner.reproduction.paper_jobs import ORDER, jobs
from sciuq_runner.reproduction.paper_markdown import markdown
from sciuq_runner.reproduction.paper_statements import FINDINGS
from sciuq_runner.reproduction.paper_texts import number
from tests.config.test_configs import CONF
from tests.report.conftest import png
from tests.reproduction.conftest import FIDELITY

UNDECIDED, CONFIRMED = "hmc_grows_with_noise", "other_fields_are_harder"


@pytest.fixture(scope="module")
def paper(as_in_the_paper) -> Paper:
    runs = [replace(run, figures=lambda: {"u_bands": png()}) for run in as_in_the_paper]
    with pytest.MonkeyPatch.context() as patch:
        words = {"spde": "First `code` <b>.\n\nSecond.", UNDECIDED: "For no reason.", CONFIRMED: "It holds."}
        patch.setattr(paper_comparison, "explanations", lambda: words)
        return build(runs, None)


def test_all_cells_and_findings_are_on_both_pages(paper):
    text, html = markdown(paper, "figures"), paper_page.html(paper)
    assert len(re.findall(r"\| +2 \| \**(?:better|within 3 std|worse|setting)\** +\|$", text, re.MULTILINE)) == 345
    for table in paper.tables.values():
        assert f"## {table.title}" in text
        assert f'id="{table.name}"' in html
    for item in FINDINGS.values():
        assert plain(item.statement) in text
    for command in ("experiment=paper/spde_clean", "experiment=paper/cost_gpu"):
        assert f"`sciuq-run -m {command}`" in text
        assert f"<code>sciuq-run -m {command}</code>" in html
    assert re.search(r"\| hmc rl2e +\| +22\.9 \| +22\.90 ± 0\.32 \| +2 \| (better|within 3 std) +\|", text)


def test_the_summary_leaves_the_cost_and_settings_aside(paper):
    assert paper.overall.total == paper.overall.met == paper.overall.run == 345 - 16 - 2
    assert "327 cells" in markdown(paper, "figures")
    assert "seeds 0, 1" in paper.origin()
    assert "paper fidelity" in paper.origin()


def answered(paper: Paper, name: str, answer: str) -> Paper:
    """The same with another answer to one finding."""
    outcomes = [replace(item, answer=answer) if item.finding.name == name else item for item in paper.outcomes]
    return replace(paper, outcomes=outcomes, explanations={**paper.explanations, name: "For a reason."})


def test_findings_are_explained_only_where_they_are_not_confirmed(paper):
    answers = {item.finding.name: item.answer for item in paper.outcomes}
    assert (answers[UNDECIDED], answers[CONFIRMED]) == ("not enough runs", "confirmed")
    for shown in (paper_page.html(paper), markdown(paper, "figures")):
        assert "For no reason." not in shown
        assert "It holds." not in shown
    refuted = answered(paper, CONFIRMED, "not confirmed")
    for shown in (paper_page.html(refuted), markdown(refuted, "figures")):
        assert "For a reason." in shown
    counted = [re.search(r"(\d+) are not \((\d+) of these explained\)", item.summary()[1]) for item in (paper, refuted)]
    before, after = ([int(text) for text in found.groups()] for found in counted)
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)


def test_explanations_stand_beside_their_table_and_are_no_markup(paper):
    html = paper_page.html(paper)
    assert "<p>First <code>code</code> &lt;b&gt;.</p>\n<p>Second.</p>" in html
    text = markdown(paper, "figures")
    assert text.index("## Stochastic equation") < text.index("Second.") < text.index("## Darcy flow, noisy")


def test_the_page_asks_nothing_of_any_network(paper):
    html = paper_page.html(paper)
    assert not re.search(r'(src|href)="(?!data:image/png;base64,|#)', html)
    assert html.count('src="data:image/png') > 50


def test_figures_for_which_there_are_runs_are_drawn(paper):
    assert "overview" in paper.figures
    for _, content in paper.figures.values():
        assert content.startswith(b"\x89PNG")
        assert len(content) < 100_000


def test_bars_are_the_standard_deviation_over_seeds_that_tables_have():
    drawn = []
    axes = SimpleNamespace(errorbar=lambda x, mean, spread, **_: drawn.extend([*mean, *spread]))
    values = {"a": [1.0, 3.0], "b": [5.0]}
    evidence = SimpleNamespace(values=lambda preset, choices, metric: values[choices])
    paper_figures.bars(axes, [0.1, 0.3], evidence, "preset", ["a", "b"], "o-", "")
    assert drawn == [2.0, 5.0, pytest.approx(2**0.5), 0.0]


def has_seed_of_its_own(node: object) -> bool:
    """Whether something is drawn by another seed than that of the run."""
    if not isinstance(node, Mapping):
        return False
    return any(str(key).endswith("_seed") or has_seed_of_its_own(value) for key, value in node.items())


def test_the_page_says_which_seeds_share_what_and_where_settings_depart():
    named = ("Darcy flow", "hmc_fp", "gp_pi_gan")
    for job in jobs(ORDER, FIDELITY):
        if has_seed_of_its_own(job.config):
            label = job.name.replace("darcy", "Darcy flow")
            assert any(name in label and f"{name}: " in HOW_TO_READ_PAPER for name in named), job.name
    assert "docs/deviations.md" in HOW_TO_READ_PAPER
    assert (CONF.parent / "docs/deviations.md").is_file()


def test_numbers_have_one_digit_more_than_the_paper_prints():
    assert [number(1.23456, like) for like in (60.0, 22.9, 0.15, 0.051)] == ["1.2", "1.23", "1.235", "1.235"]


def test_the_figure_that_says_most_comes_first():
    assert first_of(["u_calibration", "u_bands_var", "u_bands", "distributions"]) == "u_bands"
    assert first_of(["lambda_map", "u_map"]) == "u_map"
    assert first_of([]) == ""


def test_the_command_writes_pages_and_figures_or_says_why_not(paper, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paper_comparison, "build", lambda runs, fidelity: paper)
    beside_the_paper([], parse(["--paper", "--output", str(tmp_path / "new")]))
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"paper.html", "paper.md", "figures"}
    assert (tmp_path / "new/figures/overview.png").is_file()
    said = capsys.readouterr().out
    assert said.count("\n") == 13 + len(FINDINGS) + 2 + 2
    (tmp_path / "taken/figures/overview.png").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"overview\.png is a folder"):
        beside_the_paper([], parse(["--paper", "--output", str(tmp_path / "taken")]))
    assert not (tmp_path / "taken/paper.html").exists()


def test_without_runs_there_is_nothing_to_compare(as_in_the_paper, capsys):
    with pytest.raises(ConfigError, match="no finished run: make some with sciuq-reproduce"):
        build([], None)
    with pytest.raises(ConfigError, match="no finished run at quick fidelity"):
        build(as_in_the_paper[:1], "quick")
    with pytest.raises(SystemExit):
        main(["--fidelity", "paper"])
    assert "add --paper" in capsys.readouterr().err
