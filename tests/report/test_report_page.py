"""The page and its tables, looked at with a real browser too."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import jinja2
import pytest
from PIL import Image

import sciuq_runner
from sciuq_runner.report import html_templates, report_page
from sciuq_runner.report.figure_sources import data_uri
from sciuq_runner.report.recorded_runs import named, run_link
from sciuq_runner.report.report_markdown import markdown
from sciuq_runner.report.report_texts import title_of
from sciuq_runner.report.run_tables import build
from tests.report.conftest import leave_folder, png, report, results, run

HOSTILE = "<script>alert('x')</script>"


@pytest.mark.parametrize(
    ("table", "title"),
    [
        ("u/id", "u, in distribution"),
        ("u/cal_ood", "u, out of distribution, calibrated"),
        ("f/cal_var_id", "f, in distribution, calibrated by var"),
        ("u/all", "u, all"),
        ("u/far_ood", "u, far_ood"),
        ("cost", "Cost"),
    ],
)
def test_tables_have_titles_in_words(table, title):
    assert title_of(table) == title


def test_what_is_not_html_is_escaped():
    hostile = "<b>&\"'"
    figure = html_templates.EmbeddedFigure(hostile, hostile, hostile)
    macros = html_templates.environment().get_template("table_parts.html").module
    assert macros.figures([figure]).splitlines()[1] == (
        '<figure><img src="&lt;b&gt;&amp;&#34;&#39;" alt="&lt;b&gt;&amp;&#34;&#39;">'
        "<figcaption>&lt;b&gt;&amp;&#34;&#39;</figcaption></figure>"
    )


@pytest.mark.parametrize("package", ["report", "reproduction"])
def test_no_template_and_no_module_marks_text_as_safe(package):
    folder = Path(sciuq_runner.__file__).parent / package
    files = [*folder.glob("*.py"), *folder.glob("templates/*")]
    assert len(files) > 10
    for path in files:
        assert not re.search(r"\|\s*safe\b|Markup|autoescape\s+false|autoescape=False", path.read_text()), path


def test_a_value_that_a_template_lacks_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="'title' is undefined"):
        html_templates.render("report.html")


def test_hostile_settings_stay_text(tmp_path):
    content = results(HOSTILE, 0, problem__case=HOSTILE, method__n_samples=HOSTILE)
    other = results(HOSTILE, 0, problem__case=HOSTILE, method__n_samples="|a|`b`\n[c](d)")
    other[HOSTILE] = {HOSTILE: {HOSTILE: 1.0}}
    leave_folder(tmp_path / "a", content, (HOSTILE.replace("/", ""),))
    leave_folder(tmp_path / "b", other)
    found = build(named([str(tmp_path)], None), HOSTILE)
    assert "<script>alert" not in report_page.html(found)
    assert report_page.html(found).count("<script") == 1
    assert "<script" not in markdown(found)
    tables = [line for line in markdown(found).splitlines() if line.startswith("|")]
    assert any(r"\|a\|\`b\` \[c\](d)" in line for line in tables)


def test_large_figures_become_smaller_and_broken_ones_are_left_out():
    assert data_uri(b"no picture") == ""
    assert data_uri(png()[:-30]) == ""
    assert data_uri(png()).startswith("data:image/png;base64,iVBOR")
    noise = BytesIO()
    Image.effect_noise((1600, 1200), 80).save(noise, "PNG")
    assert len(data_uri(noise.getvalue())) < len(noise.getvalue())


def test_a_run_on_a_server_is_a_link_without_password():
    link = run_link("https://me:secret@host:5000/base/", "3", "abc")
    assert link == "https://host:5000/base/#/experiments/3/runs/abc"
    assert run_link("sqlite:///mlflow.db", "3", "abc") == ""
    assert run_link("javascript:alert(1)", "3", "abc") == ""
    linked = replace(run(), link=link, run_id="abc")
    assert f'<a href="{link}" rel="noreferrer"><code>abc</code></a>' in report_page.html(build([linked], ""))


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    """Chromium without a window."""
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if not all(programs):
        pytest.skip("needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(programs[0])
    flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    for flag in f"{flags} disable-component-update disable-sync disable-dev-shm-usage".split():
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path / 'profile'}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(programs[1])))
    yield driver
    driver.quit()


def column(browser: Any, number: int, table: int = 0) -> list[str]:
    """The texts of a column of a table, from top to bottom."""
    script = "return [...document.querySelectorAll('table')[arguments[1]].tBodies[0].rows]"
    return browser.execute_script(script + ".map(row => row.cells[arguments[0]].textContent.trim())", number, table)


def click(browser: Any, head: int, table: int = 0) -> str:
    """Click on the head of a column; returns its direction afterwards."""
    header = browser.find_elements("tag name", "table")[table].find_elements("tag name", "th")[head]
    header.find_element("tag name", "button").click()
    return header.get_attribute("aria-sort")


@pytest.mark.cli
def test_the_page_in_a_browser(folders, tmp_path, browser):
    leave_folder(folders / "odd", {**results("odd", 0), "u": {"id": {"rl2e": 12.5}}}, ())
    found = report(tmp_path, "--runs", "runs")
    assert found.returncode == 0, found.stderr
    browser.get((tmp_path / "report.html").as_uri())

    headings = [item.text for item in browser.find_elements("tag name", "h3")]
    assert headings[:3] == ["u, in distribution u/id", "u, out of distribution u/ood", "Cost"]
    heads = [item.text for item in browser.find_elements("css selector", "table:first-of-type th")]
    assert heads[:6] == ["method", "seeds", "rl2e ↓", "mpl ↑", "rmsce ↓", "piw"]
    assert column(browser, 0) == ["dens", "gp", "hmc", "mfvi", "odd"]
    marked = browser.execute_script(
        "return [...document.querySelectorAll('table')[0].tBodies[0].rows].map("
        "row => getComputedStyle(row.cells[2]).fontWeight)"
    )
    assert marked == ["400", "700", "700", "400", "400"]

    assert click(browser, 2) == "ascending"
    assert [text.split()[0] for text in column(browser, 2)] == ["0.220", "0.230", "0.250", "0.310", "12.500"]
    assert column(browser, 0) == ["gp", "hmc", "dens", "mfvi", "odd"]
    assert click(browser, 2) == "descending"
    assert column(browser, 0) == ["odd", "mfvi", "dens", "hmc", "gp"]
    assert click(browser, 3) == "ascending"
    assert column(browser, 0) == ["mfvi", "dens", "hmc", "gp", "odd"]
    assert click(browser, 3) == "descending"
    assert column(browser, 0) == ["gp", "hmc", "dens", "mfvi", "odd"]  # what has no value stays below
    assert click(browser, 0) == "ascending"
    assert column(browser, 0) == ["dens", "gp", "hmc", "mfvi", "odd"]
    assert column(browser, 0, table=1) == ["dens", "gp", "hmc", "mfvi"]  # only rows that have values

    widths = browser.execute_script("return [...document.images].map(image => image.complete && image.naturalWidth)")
    assert widths == [40] * 8
    captions = [item.text for item in browser.find_elements("tag name", "figcaption")]
    assert captions == [f"{method} (seed 0)" for method in ("dens", "gp", "hmc", "mfvi")] * 2
    assert len(browser.find_elements("css selector", "svg .point")) == 5
    assert len(browser.find_elements("css selector", "svg .point.on")) == 1
    shown = browser.find_element("id", "runs").text
    assert "function known hmc seed 7 KILLED was stopped before its end" in shown
    assert "died UNFINISHED left no metrics" in shown
    assert str(folders / "sweep" / "gp_2") in shown

    assert browser.execute_script("return performance.getEntriesByType('resource')") == []
    assert browser.get_log("browser") == []
    assert refused_directive(browser) == "img-src"


def refused_directive(browser: Any) -> str:
    """What the page says to a request that we ask it for."""
    return browser.execute_async_script(
        "document.addEventListener('securitypolicyviolation', event => arguments[0](event.effectiveDirective));"
        "new Image().src = 'http://127.0.0.1:9/x.png';"
    )
