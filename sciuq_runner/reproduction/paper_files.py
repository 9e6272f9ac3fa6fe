"""The files of the comparison with the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sciuq_runner.report.report_files import write_files

if TYPE_CHECKING:  # the command line shows names of files before anything heavy is imported
    from sciuq_runner.reproduction.paper_comparison import Paper

PAPER_PAGE, PAPER_TABLES, PAPER_FIGURES = "paper.html", "paper.md", "figures"


def write_paper(paper: Paper, folder: Path) -> list[Path]:
    """The comparison as a page, as Markdown and as figures beside it; returns where page and Markdown are."""
    from sciuq_runner.reproduction import paper_markdown, paper_page

    contents: dict[str, str | bytes] = {
        PAPER_PAGE: paper_page.html(paper),
        PAPER_TABLES: paper_markdown.markdown(paper, PAPER_FIGURES),
    }
    contents |= {f"{PAPER_FIGURES}/{name}.png": png for name, (_, png) in paper.figures.items()}
    write_files(folder, contents)
    return [folder.absolute() / name for name in (PAPER_PAGE, PAPER_TABLES)]
