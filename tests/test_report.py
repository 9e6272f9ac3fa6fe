"""``sciuq-report``: from runs in MLflow or in folders to a page, looked at with a real browser."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from PIL import Image

from sciuq_runner import cli as cli_module
from sciuq_runner.report import chart, main, page
from sciuq_runner.report.markup import tag
from sciuq_runner.report.runs import STOPPED_EARLY, Run, named, run_link
from sciuq_runner.report.tables import REPEATED, Cell, best, build, pareto, spelled, tables_of
from sciuq_runner.tracking import flatten_metrics, flatten_params
from tests.conftest import environment

HOSTILE = "<script>alert('x')</script>"
METHODS = {"gp": 0.21, "dens": 0.24, "hmc": 0.22, "mfvi": 0.30}
COST = {"gp": 1.0, "dens": 30.0, "hmc": 150.0, "mfvi": 12.0}


# Runs that nobody ran


def results(method: str, seed: int, **changes: Any) -> dict[str, Any]:
    """What a run would have written, made up; ``changes`` are settings, with __ for a dot."""
    error = METHODS.get(method, 0.5) + 0.01 * seed
    config: dict[str, Any] = {
        "choices": {
            "problem": "function",
            "model": "bnn",
            "method": method,
            "calibration": "none",
            "fidelity": "quick",
        },
        "problem": {"_target_": "sciuq_runner.problems.function.Function", "case": "known"},
        "method": {"_target_": f"sciuq_runner.methods.{method}", "n_samples": 100 if method == "hmc" else 10},
        "seed": seed,
        "threads": seed,
    }
    for key, value in changes.items():
        group, _, name = key.partition("__")
        config[group] = {**config[group], name: value} if name else value
    return {
        "u": {
            "ood": {"rl2e": 3 * error, "mpl": 1 / error},
            "id": {"piw": 0.4, "rmsce": error / 4, "mpl": 0.5 / error, "rl2e": error},
        },
        "noise": {"u": {"mean": 0.1, "std": 0.01}},
        "diagnostics": {"rhat_max": 1.01},
        "cost": {"train_s": COST.get(method, 5.0), "grad_evals": 1000},
        "config": config,
    }


def png(width: int = 40, height: int = 30) -> bytes:
    """A small picture."""
    found = BytesIO()
    Image.new("RGB", (width, height), "teal").save(found, "PNG")
    return found.getvalue()


def leave_folder(folder: Path, content: dict[str, Any], figures: tuple[str, ...] = ("u_bands",)) -> Path:
    """A run folder."""
    (folder / "figures").mkdir(parents=True)
    (folder / "metrics.json").write_text(json.dumps(content))
    for name in figures:
        (folder / "figures" / f"{name}.png").write_bytes(png())
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Run folders of four methods with three seeds each, some deep, and two runs that did not end well."""
    top = tmp_path / "runs"
    for method in METHODS:
        for seed in range(3):
            leave_folder(top / "sweep" / f"{method}_{seed}", results(method, seed), ("u_bands", "u_calibration"))
    stopped = leave_folder(top / "stopped", results("hmc", 7))
    (stopped / "run.log").write_text(f"WARNING sciuq_runner.cli: {STOPPED_EARLY}: what was computed until then …\n")
    (top / "died").mkdir()
    (top / "died" / "resume.json").write_text("{}")
    return top


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a real MLflow store: a sweep of four jobs, and runs that failed, were killed, or still run."""
    folder = tmp_path_factory.mktemp("store")
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.create_experiment("sciuq", (folder / "mlartifacts").as_uri())
    client.create_experiment("empty")
    parent = client.create_run(experiment, tags={"sweep": "method=hmc,dens"}, run_name="sweep").info.run_id
    for method in ("hmc", "dens"):
        for seed in (0, 1):
            log_run(client, experiment, results(method, seed), "FINISHED", parent, folder)
    log_run(client, experiment, results("mfvi", 0), "FAILED", None, folder)
    log_run(client, experiment, results("mfvi", 1), "KILLED", None, folder)
    log_run(client, experiment, results("mfvi", 2), "RUNNING", None, folder)
    client.set_terminated(parent, "FAILED")
    return folder


def log_run(
    client: MlflowClient, experiment: str, content: dict[str, Any], status: str, parent: str | None, folder: Path
) -> None:
    """Record a run as the tracking module does."""
    config = dict(content["config"])
    choices = config.pop("choices")
    name = f"function known {choices['method']} seed {config['seed']}"
    tags = {"run_folder": f"/somewhere/{name}"} | ({"mlflow.parentRunId": parent} if parent else {})
    run_id = client.create_run(experiment, tags=tags, run_name=name).info.run_id
    params = [Param(key, str(value)) for key, value in flatten_params(config, choices).items()]
    metrics = [Metric(key, value, 0, 0) for key, value in flatten_metrics(content).items()]
    client.log_batch(run_id, metrics if status != "FAILED" else (), params)
    figure = folder / "u_bands.png"
    figure.write_bytes(png())
    client.log_artifact(run_id, str(figure), "figures")
    if status != "RUNNING":
        client.set_terminated(run_id, status)


def report(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Start the real program."""
    return subprocess.run(
        [sys.executable, "-m", "sciuq_runner.report", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run(method: str = "hmc", seed: int = 0, **changes: Any) -> Run:
    """A finished run."""
    content = results(method, seed, **changes)
    config = dict(content["config"])
    params = {key: str(value) for key, value in flatten_params(config, config.pop("choices")).items()}
    return Run(f"{method} {seed}", "FINISHED", params, flatten_metrics(content), time.time(), dict)


# Grouping and comparing


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
    assert report.left_out == [replace(first, note=REPEATED)]


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
    column = [Cell(0.2, 0.01, 3, 3), Cell(0.23, 0.02, 3, 3), None, Cell(0.24, 0.0, 1, 1)]
    assert best(column, metric) == expected
    assert best(column[:1], metric) == set()


def test_the_front_holds_what_nothing_beats():
    assert pareto([(1, 3), (2, 2), (2, 3), (3, 2), (4, 1), (1, 3)]) == {0, 1, 4, 5}


def test_numbers_of_a_column_stand_below_each_other():
    column = [Cell(0.0213, 0.001, 3, 3), Cell(12.5, 0.0, 1, 1), None, Cell(0.5, 0.1, 2, 3)]
    assert spelled(column) == [
        " 0.0213 ± 0.0010         ",
        "12.5000                  ",
        "",
        " 0.5000 ± 0.1000 (2 of 3)",
    ]
    assert spelled([Cell(1e-6, 0, 1, 1), Cell(1, 0, 1, 1)]) == ["1.00e-06", "1.00e+00"]
    assert spelled([Cell(20000, 0, 1, 1), Cell(0, 0, 1, 1)]) == ["20000", "    0"]


def test_one_seed_without_a_value_is_not_hidden():
    whole = run(seed=0)
    hole = replace(run(seed=1), metrics={key: v for key, v in whole.metrics.items() if key != "u/id/rl2e"})
    (section,) = build([whole, hole], "").sections
    assert spelled(section.column("u/id/rl2e")) == ["0.220 (1 of 2)"]


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("values", [(1.0, 900.0), (0.2, 0.25), (3.0, 3.0), (1e-4, 1e6)])
def test_every_axis_has_ticks_inside(values, log):
    axis = chart.Axis.around(values, 0.0, 100.0, log)
    assert 2 <= len(axis.ticks()) <= 13
    assert all(0 <= axis.place(tick) <= 100 for tick in axis.ticks())
    assert axis.place(values[0]) < axis.place(values[1]) or values[0] == values[1]


def test_names_in_a_chart_cover_neither_each_other_nor_points():
    places = [(200.0 + 12 * k, 200.0) for k in range(5)] + [(775.0, 40.0)]
    boxes = chart.spots([f"method {k}" for k in range(6)], places)
    assert not any(chart.overlap(a, b) for a, b in itertools.combinations(boxes, 2))
    assert not any(a <= x <= c and b <= y <= d for a, b, c, d in boxes for x, y in places)
    assert all(chart.inside(box) for box in boxes)


def test_without_errors_there_is_no_chart_of_them():
    found = [replace(run(method), metrics={"u/id/mpl": 1.0, "cost/train_s": 2.0}) for method in METHODS]
    report = build(found, "")
    assert report.sections[0].headline == "u/id/mpl"
    assert "<svg" not in page.html(report)


# Pages


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
    assert page.title_of(table) == title


def test_what_is_not_html_is_escaped():
    assert tag("p", "<b>", tag("i", "&"), title='"') == '<p title="&quot;">&lt;b&gt;<i>&amp;</i></p>'


def test_hostile_settings_stay_text(tmp_path):
    content = results(HOSTILE, 0, problem__case=HOSTILE, method__n_samples=HOSTILE)
    other = results(HOSTILE, 0, problem__case=HOSTILE, method__n_samples="|a|`b`\n[c](d)")
    other[HOSTILE] = {HOSTILE: {HOSTILE: 1.0}}
    leave_folder(tmp_path / "a", content, (HOSTILE.replace("/", ""),))
    leave_folder(tmp_path / "b", other)
    found = build(named([str(tmp_path)], None), HOSTILE)
    assert "<script>alert" not in page.html(found)
    assert page.html(found).count("<script") == 1
    assert "<script" not in page.markdown(found)
    tables = [line for line in page.markdown(found).splitlines() if line.startswith("|")]
    assert any(r"\|a\|\`b\` \[c\](d)" in line for line in tables)


def test_large_figures_become_smaller_and_broken_ones_are_left_out():
    assert page.data_uri(b"no picture") == ""
    assert page.data_uri(png()[:-30]) == ""
    assert page.data_uri(png()).startswith("data:image/png;base64,iVBOR")
    noise = BytesIO()
    Image.effect_noise((1600, 1200), 80).save(noise, "PNG")
    assert len(page.data_uri(noise.getvalue())) < len(noise.getvalue())


def test_a_run_on_a_server_is_a_link_without_password():
    link = run_link("https://me:secret@host:5000/base/", "3", "abc")
    assert link == "https://host:5000/base/#/experiments/3/runs/abc"
    assert run_link("sqlite:///mlflow.db", "3", "abc") == ""
    assert run_link("javascript:alert(1)", "3", "abc") == ""
    linked = replace(run(), link=link, run_id="abc")
    assert f'<a href="{link}" rel="noreferrer"><code>abc</code></a>' in page.html(build([linked], ""))


def test_the_sign_of_a_stopped_run_is_what_the_program_says():
    assert f'"{STOPPED_EARLY}: ' in Path(cli_module.__file__).read_text(encoding="utf-8")


# The program


@pytest.mark.cli
def test_report_of_an_experiment(store, tmp_path):
    found = report(store, "--output", str(tmp_path / "new" / "folder"))
    assert found.returncode == 0, found.stderr
    assert found.stderr == ""
    assert found.stdout.splitlines()[-2:] == [f"report: {tmp_path}/new/folder/report.{kind}" for kind in ("html", "md")]
    assert "0.225 ± 0.007" in found.stdout
    text = (tmp_path / "new/folder/report.md").read_text()
    assert "| hmc    |     2 | **0.225 ± 0.007** |" in text
    for seed, status in enumerate(("FAILED", "KILLED", "RUNNING")):
        assert f"| function known mfvi seed {seed} | {status}" in text
    assert "sweep" not in text
    html = (tmp_path / "new/folder/report.html").read_text()
    assert html.count('src="data:image/png') == 2
    assert "/somewhere/function known hmc seed 0" in html
    assert {path.name for path in (tmp_path / "new/folder").iterdir()} == {"report.html", "report.md"}


def test_ids_of_runs_and_of_sweeps(store, folders, monkeypatch):
    monkeypatch.chdir(store)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    client = MlflowClient(f"sqlite:///{store / 'mlflow.db'}")
    everything = client.search_runs([client.get_experiment_by_name("sciuq").experiment_id])
    ids = {item.info.run_name: item.info.run_id for item in everything}
    alone = ids["function known dens seed 1"]
    assert [item.name for item in named([alone], None)] == ["function known dens seed 1"]
    assert len(named([ids["sweep"]], None)) == 4
    assert len(named([ids["sweep"], alone], None)) == 4
    mixed = build(named([alone, str(folders / "sweep" / "dens_0")], None), "")
    assert [len(row.runs) for row in mixed.sections[0].rows] == [2]  # both sources spell their settings alike


def test_copies_of_run_folders_in_mlflow_do_not_count(tmp_path):
    leave_folder(tmp_path / "runs" / "a", results("hmc", 0))
    leave_folder(tmp_path / "mlartifacts" / "a" / "artifacts", results("hmc", 0))
    assert len(named([str(tmp_path)], None)) == 1
    assert len(named([str(tmp_path / "mlartifacts")], None)) == 1


MISTAKES = {
    "no database": (["--output", "out"], "--uri sqlite:///"),
    "no experiment": (["--uri", "STORE", "--experiment", "scuiq"], "did you mean 'sciuq'?"),
    "no runs": (["--uri", "STORE", "--experiment", "empty"], "--experiment empty has no runs"),
    "empty database": (["--uri", "sqlite:///empty.db"], "--uri sqlite:///empty.db is missing or empty"),
    "no server": (["--uri", "http://me:secret@127.0.0.1:9"], "--uri http://me:***@127.0.0.1:9 cannot be read"),
    "no store": (["--uri", "nonsense://x"], "--uri nonsense://x cannot be read"),
    "no folder": (["--runs", "nowhere"], "--runs nowhere is neither a folder nor the id of a run"),
    "no such id": (["--uri", "STORE", "--runs", "0" * 32], "is neither a folder nor the id of a run"),
    "empty folder": (["--runs", "hollow"], "--runs hollow holds no run"),
    "torn file": (["--runs", "torn"], "torn/metrics.json cannot be read"),
    "alien file": (["--runs", "alien"], "alien/metrics.json is not the metrics.json of a run (it has no 'config')"),
    "nothing finished": (["--runs", "died"], "--runs has no finished run with metrics (UNFINISHED)"),
    "file as output": (["--runs", "good", "--output", "good/metrics.json"], "--output good/metrics.json cannot be"),
    "folder as page": (["--runs", "good", "--output", "taken"], "--output taken cannot be written"),
    "both": (["--runs", "good", "--experiment", "sciuq"], "not allowed with argument --runs"),
    "unknown option": (["--rnus", "good"], "unrecognized arguments: --rnus good"),
}


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_end_in_one_sentence_and_leave_nothing(store, tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    leave_folder(tmp_path / "good", results("hmc", 0))
    for name in ("hollow", "torn", "alien", "died", "taken/report.md"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "torn/metrics.json").write_text('{"u": {"id": {"rl2')
    (tmp_path / "alien/metrics.json").write_text("{}")
    (tmp_path / "died/resume.json").write_text("{}")
    (tmp_path / "empty.db").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as ended:
        main([argument.replace("STORE", f"sqlite:///{store / 'mlflow.db'}") for argument in arguments])
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.out == ""
    assert said.err.startswith("sciuq-report: ")
    assert said.err.count("\n") == 1
    assert sentence in said.err
    assert "secret" not in said.err
    assert (tmp_path / "empty.db").stat().st_size == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from sciuq_runner.report import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'mlflow', 'hydra', 'matplotlib', 'PIL', 'rich', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "--experiment NAME | --runs RUN" in found.stdout


# The browser


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
