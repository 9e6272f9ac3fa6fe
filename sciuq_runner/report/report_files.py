"""The files of a report: all of them are written, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sciuq_runner.errors import ConfigError

if TYPE_CHECKING:  # the command line shows names of files before anything heavy is imported
    from sciuq_runner.report.run_tables import Report

REPORT_PAGE, REPORT_TABLES = "report.html", "report.md"


def write_report(report: Report, folder: Path) -> list[Path]:
    """The report as a page and as tables in Markdown; returns where they are."""
    from sciuq_runner.report import report_markdown, report_page

    write_files(folder, {REPORT_PAGE: report_page.html(report), REPORT_TABLES: report_markdown.markdown(report)})
    return [folder.absolute() / name for name in (REPORT_PAGE, REPORT_TABLES)]


def write_files(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    """All files or none: each takes its name after those behind it are complete."""
    from sciuq_runner.files import write_atomically

    def write_from(names: Sequence[str]) -> None:
        content = contents[names[0]]
        data = content if isinstance(content, bytes) else content.encode("utf-8", errors="replace")

        def write_these(target: Path) -> None:
            target.write_bytes(data)
            if names[1:]:
                write_from(names[1:])

        write_atomically(folder / names[0], write_these)

    try:
        for path in (folder / name for name in contents):
            if path.is_dir():
                raise IsADirectoryError(0, f"{path.name} is a folder")
        write_from(list(contents))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"--output {folder} cannot be written ({reason}): name a folder that you can write to."
        ) from error
