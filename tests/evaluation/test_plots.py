"""Figures show what they say, and a new kind of figure needs its own module alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.figure import Figure

from sciuq_runner import files, layout
from sciuq_runner.calibration.cdf import CDF
from sciuq_runner.calibration.var import Var
from sciuq_runner.errors import ConfigError
from sciuq_runner.evaluation import plots
from sciuq_runner.evaluation.plots import registry
from sciuq_runner.evaluation.plots.bands import segments
from sciuq_runner.evaluation.plots.distributions import DISTRIBUTIONS
from sciuq_runner.evaluation.plots.style import canvas, frame
from sciuq_runner.evaluation.results import Result
from sciuq_runner.evaluation.sections import typical_function
from sciuq_runner.predict.scaled_residual import LEVEL
from sciuq_runner.tracking.logged_results import outputs
from tests.evaluation.samples import line, observed, operator, plane, result

CALIBRATORS = {"var": Var(), "cdf": CDF()}


def drawing(folder: Path, calibrated: bool = False, **results: Result) -> plots.Drawing:
    by = CALIBRATORS if calibrated else {}
    found = {name: item.calibrate(by, item.calibration.residuals) for name, item in results.items()}
    return plots.Drawing(folder, found, "A title", by, seed=3)


def labelled(figure: Figure, label: str, axes: int = 0) -> Any:
    """The line or area of a label."""
    handles, labels = figure.axes[axes].get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))[label]


def edges(area: Any) -> np.ndarray:
    """Lower and upper edge of an area over x, ``[2, N]``."""
    points = area.get_paths()[0].vertices
    n = (len(points) - 3) // 2
    return np.stack([points[1 : n + 1, 1], points[n + 2 : -1, 1][::-1]])


def panels(figure: Figure) -> dict[str, Any]:
    """What is painted, by the title of its axes."""
    return {axes.get_title(): axes.collections[0] for axes in figure.axes if axes.get_title()}


# One coordinate


def test_bands_are_those_of_the_prediction(tmp_path):
    found = line()
    figure = plots.figures(drawing(tmp_path, u=found))["u_bands"]()
    np.testing.assert_allclose(labelled(figure, "mean").get_ydata(), found.mean[:, 0])
    np.testing.assert_allclose(labelled(figure, "exact").get_ydata(), found.reference[:, 0])
    np.testing.assert_allclose(labelled(figure, "training data").get_ydata(), found.train.y[:, 0])
    for label, std in (("95 % total", found.std), ("95 % epistemic", found.epistemic_std)):
        expected = [found.mean[:, 0] - 1.96 * std[:, 0], found.mean[:, 0] + 1.96 * std[:, 0]]
        np.testing.assert_allclose(edges(labelled(figure, label)), expected, atol=1e-4)
    assert figure.axes[0].get_title() == "A title"


def test_calibrated_bands_move_and_widen_as_the_calibrator_says(tmp_path):
    own = drawing(tmp_path, calibrated=True, u=line())
    found = own.results["u"]
    figure = plots.figures(own)["u_bands_cdf"]()
    lower, upper = found.standards["cdf"].interval(LEVEL)
    expected = [found.mean[:, 0] + bound * found.std[:, 0] for bound in (lower, upper)]
    np.testing.assert_allclose(edges(labelled(figure, "95 % calibrated")), expected)
    moved = found.mean[:, 0] + found.standards["cdf"].mean * found.std[:, 0]
    np.testing.assert_allclose(labelled(figure, "mean").get_ydata(), moved)
    assert figure.axes[0].get_title() == "A title, cdf"


def test_a_quantity_without_truth_has_bands_alone(tmp_path):
    nothing, none = np.full((60, 1), np.nan), observed(line().x[:0], 1)
    figures = plots.figures(drawing(tmp_path, u=line(reference=nothing, test_y=nothing, train=none)))
    assert list(figures) == ["u_bands"]
    assert set(figures["u_bands"]().axes[0].get_legend_handles_labels()[1]) == {"95 % total", "95 % epistemic", "mean"}


def test_limits_of_a_constant_are_around_it():
    assert frame(line(reference=np.full((60, 1), 2.0), train=observed(line().x[:0], 1))) == (0.9, 3.1)


def test_no_line_crosses_a_jump():
    values = np.concatenate([np.linspace(0, 1, 200), np.linspace(5, 6, 300)])
    assert segments(values) == [slice(0, 200), slice(200, 500)]
    assert segments(np.zeros(1)) == [slice(0, 1)]


def test_realisations_of_a_random_field_are_shown(tmp_path):
    found = line()
    many = np.random.default_rng(0).standard_normal((60, 30))
    found = replace(found, reference=many, test_y=many, train=observed(found.x[::5], 1, 30, random=True))
    figures = plots.figures(drawing(tmp_path, u=found))
    axes = figures["u_bands"]().axes[0]
    shown = [item for item in axes.lines if len(item.get_xdata()) == 60 and item.get_label() != "mean"]
    np.testing.assert_array_equal(np.stack([item.get_ydata() for item in shown], 1), many[:, :20])
    assert {"unseen realisations", "training data"} < set(axes.get_legend_handles_labels()[1])


@pytest.mark.parametrize("known", [True, False])
def test_noise_that_varies_has_a_figure(tmp_path, known):
    assert "u_noise" not in plots.figures(drawing(tmp_path, u=line()))
    scale = np.linspace(0.1, 0.4, 60)[:, None]
    found = line(noise_mean=scale, noise_spread=scale, noise_reference=2 * scale if known else None)
    figure = plots.figures(drawing(tmp_path, u=found))["u_noise"]()
    low, high = edges(labelled(figure, "95 % epistemic"))
    np.testing.assert_allclose(high, 2.96 * scale[:, 0], rtol=1e-3)
    assert not low.any()  # there is no negative noise
    assert ("true" in figure.axes[0].get_legend_handles_labels()[1]) is known


# Two coordinates


def test_maps_of_a_grid_show_every_part(tmp_path):
    found = plane()
    parts = panels(plots.figures(drawing(tmp_path, u=found))["u_maps"]())
    assert list(parts) == ["reference", "mean", "absolute error", "epistemic std", "total std", "error / total std"]
    assert all(isinstance(item, QuadMesh) for item in parts.values())
    np.testing.assert_allclose(parts["mean"].get_array().reshape(8, 8), found.mean.reshape(8, 8).T)
    np.testing.assert_allclose(parts["absolute error"].get_array(), 0.1)
    assert parts["mean"].get_clim() == parts["reference"].get_clim()


def test_maps_without_a_reference_or_noise_leave_out_what_is_unknown(tmp_path):
    found = plane()
    nothing = np.full_like(found.mean, np.nan)
    found = replace(found, reference=nothing, test_y=nothing, aleatoric_std=0 * found.mean)
    assert list(panels(plots.figures(drawing(tmp_path, u=found))["u_maps"]())) == ["mean", "epistemic std"]


def test_scattered_points_are_dots(tmp_path):
    whole = plane()
    kept = np.arange(64) != 9
    names = ("x", "mean", "aleatoric_std", "epistemic_std", "noise_mean", "noise_spread", "reference", "test_y")
    found = replace(whole, **{name: getattr(whole, name)[kept] for name in names}, splits={})
    parts = panels(plots.figures(drawing(tmp_path, u=found))["u_maps"]())
    assert all(isinstance(item, PathCollection) for item in parts.values())
    np.testing.assert_array_equal(parts["mean"].get_offsets(), found.x)


def test_a_split_that_fixes_a_coordinate_is_drawn_along_the_other(tmp_path):
    whole = plane()
    last = whole.x[:, 0] == 1
    train = observed(whole.x, 1)
    figures = plots.figures(drawing(tmp_path, u=replace(whole, splits={"all": last | ~last, "t1": last}, train=train)))
    figure = figures["u_t1_bands"]()
    assert figure.axes[0].get_title() == "A title, t = 1"
    assert figure.axes[0].get_xlabel() == "x"
    np.testing.assert_allclose(labelled(figure, "mean").get_ydata(), whole.mean[last, 0])
    np.testing.assert_allclose(labelled(figure, "training data").get_ydata(), train.y[last, 0])  # none of other times


def test_a_split_along_no_coordinate_has_no_line(tmp_path):
    whole = plane()
    point = (whole.x == whole.x[9]).all(1)
    figures = plots.figures(drawing(tmp_path, u=replace(whole, splits={"point": point, "none": point & ~point})))
    assert set(figures) == {"u_maps", "u_calibration"}


# Operators


def test_of_an_operator_the_typical_function_is_drawn(tmp_path):
    found = operator(line())
    figure = plots.figures(drawing(tmp_path, u=found))["u_id_bands"]()
    np.testing.assert_allclose(labelled(figure, "mean").get_ydata(), found.mean[:, 1])  # errors of 1, 2, 3 tenths
    assert figure.axes[0].get_title() == "A title, in distribution"
    np.testing.assert_array_equal(typical_function(found, "ood").inputs, found.inputs[4:])


def test_maps_of_an_operator_show_its_input(tmp_path):
    found = operator(plane())
    figures = plots.figures(drawing(tmp_path, u=found))
    assert {"u_id_maps", "u_ood_maps"} < set(figures)
    parts = panels(figures["u_id_maps"]())
    np.testing.assert_allclose(parts["input"].get_array().reshape(8, 8), found.inputs[1].reshape(8, 8).T)


@pytest.mark.parametrize("numbered", [True, False])
def test_scores_are_relative_to_functions_of_the_kind_of_training(tmp_path, numbered):
    mask = np.array([1, 1, 0, 0]) == 1
    arrays = {"score_std": np.array([1.0, 3.0, 8.0, 12.0]), "score_rl2e": np.ones(4), "threshold_std": np.array(5.0)}
    arrays |= {"split_id": mask, "split_ood": ~mask, "label": np.array("length")}
    arrays |= {"value_id": np.array(0.25), "value_ood": np.array(0.15)} if numbered else {}
    files.write_npz(tmp_path / layout.DETECTION, arrays)
    figure = plots.figures(drawing(tmp_path))["detection"]()
    means = labelled(figure, "ensemble std")
    assert means.get_ydata() == pytest.approx([5.0, 1.0] if numbered else [1.0, 5.0])
    assert list(means.get_xdata()) == ([0.15, 0.25] if numbered else [0, 1])
    assert labelled(figure, "threshold", 1).get_ydata() == [5.0, 5.0]
    assert figure.axes[0].get_xlabel() == ("length" if numbered else "")


# Statistics and priors


def test_statistics_of_a_random_field_have_figures_of_their_own(tmp_path):
    field = line()
    mean = replace(field, statistic_of="u")
    values = np.array([[4.0], [2.0], [1.0], [0.0]])
    eigenvalues = result(np.arange(1.0, 5)[:, None], ("number",), statistic_of="u", reference=values)
    figures = plots.figures(drawing(tmp_path, calibrated=True, u=field, u_mean=mean, u_eigenvalues=eigenvalues))
    assert not {name for name in figures if name.startswith(("u_mean_", "u_eigenvalues_"))}
    figure = figures["u_mean"]()
    np.testing.assert_allclose(labelled(figure, "absolute error", 1).get_ydata(), 0.1)
    dotted = [item for item in figure.axes[0].lines if item.get_linestyle() == ":"]
    assert [item.get_xdata()[0] for item in dotted] == pytest.approx(field.train.x[:, 0])
    spectrum = figures["u_eigenvalues"]().axes[0]
    assert spectrum.get_yscale() == "log"
    assert spectrum.get_ylim()[0] == pytest.approx(0.1)  # a tenth of the least that is positive


def test_densities_before_and_after_learning(tmp_path):
    rng = np.random.default_rng(0)
    panels = {
        "k/prior": 1000 * rng.standard_normal(500),
        "k/posterior": 2 + 0.1 * rng.standard_normal(500),
        "s/initial prior": np.full(10, 40.0),
        "s/learned prior": np.full(10, 4.0),
        "s/posterior": np.full(10, 3.0),
        "w/prior": np.array([-1e9, 1e9] * 10),
        "w/posterior": rng.standard_normal(500),
    }
    files.write_npz(tmp_path / DISTRIBUTIONS, panels)
    figure = plots.figures(drawing(tmp_path))["distributions"]()
    assert [axes.get_xlabel() for axes in figure.axes] == ["k", "s", "w"]
    low, high = figure.axes[0].get_xlim()
    assert -10 < low < 2 < high < 15  # the prior does not hide what was learned
    curve = labelled(figure, "posterior")
    assert curve.get_ydata().max() == 1
    assert curve.get_xdata()[np.argmax(curve.get_ydata())] == pytest.approx(2, abs=0.05)
    assert list(labelled(figure, "learned prior (point estimate)", 1).get_xdata()) == [4.0, 4.0]
    assert figure.axes[2].get_legend_handles_labels()[1] == ["posterior"]  # nothing of the prior is in sight


@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_learned_prior_is_beside_history(tmp_path, dimensions):
    rng = np.random.default_rng(0)
    x = rng.random((6, dimensions))
    real = rng.standard_normal((6, 40)) * np.array([1, 1, 5, 1, 1, 1])[:, None]
    files.write_npz(tmp_path / layout.PRIOR, {"f_x": x, "f_real": real, "f_made": real + 1})
    left, middle, right = plots.figures(drawing(tmp_path))["prior"]().axes
    if dimensions == 1:
        assert left.get_legend_handles_labels()[1] == ["history", "generated"]
    else:
        np.testing.assert_allclose(left.lines[0].get_ydata(), left.lines[0].get_xdata() + 1)
    np.testing.assert_allclose(
        middle.lines[0].get_ydata(), middle.lines[1].get_ydata()
    )  # a shift changes no covariance
    assert f"{x[2, 0]:.2g}" in right.get_xlabel()  # where history varies most


# Calibration


def test_the_calibration_figure_shows_its_own_error(tmp_path):
    own = drawing(tmp_path, calibrated=True, u=line())
    figure = plots.figures(own)["u_calibration"]()
    assert [axes.get_title() for axes in figure.axes] == ["in distribution", "out of distribution"]
    for axes in figure.axes:
        curves = {item.get_label().split(" (")[0]: item for item in axes.lines}
        assert set(curves) == {"ideal", "uncalibrated", *CALIBRATORS}
        for name in ("uncalibrated", *CALIBRATORS):
            levels, proportions = curves[name].get_data()
            error = np.sqrt(np.mean((levels - proportions) ** 2))
            assert f"RMSCE {error:.3f}" in curves[name].get_label()


@pytest.mark.parametrize("random", [False, True])
def test_the_error_by_number_of_observations_ends_at_all_of_them(tmp_path, random):
    columns = 30 if random else 1
    found = line(calibration=observed(line().x[1::2], 2, columns, random=random))
    axes = plots.figures(drawing(tmp_path, calibrated=True, u=found))["u_calibration_size"]().axes[0]
    curve = next(item for item in axes.lines if item.get_label() == "var")
    assert list(curve.get_xdata()) == [2, 5, 10, 20, 30]
    assert curve.get_ydata()[-1] < curve.get_ydata()[0]
    assert axes.get_xlabel() == ("left-out realisations" if random else "calibration readings")


# All of them


def test_figures_of_replaced_calibrators_are_removed_and_others_stay(tmp_path):
    folder = tmp_path / "figures"
    before = plots.draw_all(folder, drawing(tmp_path, calibrated=True, u=line()))
    assert {path.name for path in before} == {path.name for path in folder.iterdir()}
    assert {"u_bands_var.png", "u_bands_cdf.png", "u_calibration_size.png"} < {path.name for path in before}
    (folder / "mine.png").touch()
    plots.draw_all(folder, drawing(tmp_path, u=line()))
    assert {path.name for path in folder.iterdir()} == {"u_bands.png", "u_calibration.png", "mine.png"}


def test_a_figure_is_found_by_quantity_and_by_kind(tmp_path):
    figures = plots.figures(drawing(tmp_path, u=plane(), f=line()))
    assert plots.pick_figure(figures, "f_calibration") == "f_calibration"
    assert plots.pick_figure(figures, "f") == "f_bands"
    assert plots.pick_figure(figures, "u") == "u_maps"
    assert plots.pick_figure(figures, "calibration") == "u_calibration"
    with pytest.raises(ConfigError, match="did you mean 'f_bands'"):
        plots.pick_figure(figures, "f_bnds")


def test_a_new_kind_of_figure_brings_its_data_and_needs_no_other_file(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "KNOWN_FIGURES", list(registry.KNOWN_FIGURES))

    def energies(inference: Any) -> dict[str, np.ndarray]:
        return {"energy": np.arange(inference.seed)}

    @plots.figure_kind(file="energies.npz", arrays=energies)
    def energy(own: plots.Drawing) -> Iterator[tuple[str, registry.Draw]]:
        for name, values in own.arrays("energies.npz").items():
            yield name, partial(draw_energy, values)

    def draw_energy(values: np.ndarray) -> Figure:
        figure = canvas(2.0, 2.0)
        figure.add_subplot().plot(values)
        return figure

    monkeypatch.setattr("sciuq_runner.evaluation.plots.distributions.before_and_after", lambda *_: {})
    inference: Any = type("Inference", (), {"seed": 4, "target": None, "posterior": None})()
    inference.problem = type("Problem", (), {"probes": {}})()
    assert "energy" not in plots.figures(drawing(tmp_path))
    plots.write_data(tmp_path, inference)
    assert not (tmp_path / DISTRIBUTIONS).exists()  # nothing was learned
    assert list(plots.figures(drawing(tmp_path))["energy"]().axes[0].lines[0].get_ydata()) == [0, 1, 2, 3]
    (tmp_path / layout.METRICS).touch()
    assert [path.name for path in outputs(tmp_path)] == ["energies.npz", layout.METRICS]  # what MLflow gets


def test_data_without_a_file_are_refused():
    with pytest.raises(TypeError, match="both a file and what makes its arrays"):
        plots.figure_kind(file="energies.npz")


def test_nothing_is_drawn_nor_matplotlib_imported_before_it_is_asked_for():
    code = "import sys; import sciuq_runner.evaluation.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
