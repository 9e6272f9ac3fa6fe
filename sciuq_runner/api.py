"""The front door for scripts and notebooks: ``import sciuq_runner as sq``.

Everything that the command line can do, by keyword. Nothing is logged to MLflow unless asked for, no signal is handled,
nothing ends the process: a mistake raises :class:`ConfigError` with the sentence that the command line prints.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciuq_runner import layout
from sciuq_runner.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from sciuq_runner.predict.emulator import Emulator

Problem = str | Path | Mapping[str, Any]
"""A name that ``sciuq-run --help`` lists, a YAML file, or what such a file says as a mapping."""

WARNING = re.compile(r"^\S+ \S+ WARNING [\w.]+: (.*)$", re.MULTILINE)
"""A warning in ``run.log``."""


def run(
    problem: Problem = "function",
    *,
    overrides: Sequence[str] = (),
    folder: str | Path | None = None,
    tracking: str = "none",
    trust: Sequence[str] = (),
    config_dir: str | Path | None = None,
    progress: bool = True,
    **settings: Any,
) -> Run:
    r"""Infer the fields and parameters of a problem, as ``sciuq-run problem=… key=value …`` does.

    Args:
        problem: a built-in problem, a YAML file, or the same as a mapping, in which ``file`` may be a data frame, an
            xarray object or arrays, and an equation a Python function of fields, parameters and coordinates by name
            (``lambda u, k: u.t - k * u.xx``; ``u.value`` is the field itself, and functions are torch's).
        overrides: further settings as on the command line, ``["method.n_members=5"]``.
        folder: where the results go; a new folder below ``runs/`` unless given.
        tracking: ``"mlflow"`` keeps the run there too.
        trust: modules of your own whose classes the configuration may name.
        config_dir: a folder with your own ``problem/``, ``method/`` … files.
        progress: whether to show a bar.
        settings: choices and settings by name: ``method="hmc"``, ``model="bnn"``, ``calibration="cdf"``,
            ``fidelity="smoke"``, ``seed=3``, ``device="cpu"`` …. Single settings of a choice are overrides.

    Returns:
        The finished run: the posterior of the fields :math:`p(u(x) \mid D)` and of the parameters.

    Raises:
        ConfigError: for a mistake in the problem, its data or a setting, before any work.
        RunError: where numbers went wrong; what was computed until then is in the run's folder.

    Example:
        >>> import numpy as np, sciuq_runner as sq
        >>> x = np.linspace(0, 1, 20)
        >>> problem = {
        ...     "coordinates": {"x": [0, 1]},
        ...     "unknowns": {"u": ["x"]},
        ...     "observed": {"u": {"file": {"x": x, "u": np.sin(6 * x)}, "noise": 0.1}},
        ... }
        >>> found = sq.run(problem, method="dens", fidelity="smoke", progress=False)
        >>> found.predictions["u_mean"].dims
        ('x',)
    """
    from sciuq_runner.runs.library import make_run

    named = {**settings, "tracking": tracking}
    return Run(make_run(problem, named, overrides, folder, trust, config_dir, progress), trust)


def resume(
    run: str | Path,
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    trust: Sequence[str] = (),
    config_dir: str | Path | None = None,
    progress: bool = True,
) -> Run:
    """Go on with a run that was interrupted or died, from its last checkpoint, as ``sciuq-run resume=RUN`` does.

    Args:
        run: the folder, or the id in MLflow.
        functions: the Python functions among the equations of its problem, by name, in another process.
        trust: modules of your own that the run was started with; likewise ``config_dir``.
        progress: whether to show a bar.

    Example:
        >>> import sciuq_runner as sq
        >>> sq.resume(sq.run("function", method="dens", fidelity="smoke", progress=False).folder)
        Traceback (most recent call last):
        ...
        sciuq_runner.errors.ConfigError: resume=... is a run that has already finished.
    """
    from sciuq_runner.config.problem_mapping import give_functions_to
    from sciuq_runner.runs.library import resume_run
    from sciuq_runner.runs.resume import problem_file

    if functions:
        give_functions_to(problem_file(str(run)), functions)
    return Run(resume_run(str(run), trust, config_dir, progress), trust)


def load(run: str | Path, functions: Mapping[str, Callable[..., Any]] | None = None, trust: Sequence[str] = ()) -> Run:
    """A finished run, by its folder or its id in MLflow.

    Args:
        run: the folder, or the id.
        functions: the Python functions among the equations of its problem, by name; to predict with them.
        trust: modules of your own that the run was started with.

    Example:
        >>> import sciuq_runner as sq
        >>> made = sq.run("function", method="dens", fidelity="smoke", progress=False)
        >>> sq.load(made.folder).metrics == made.metrics
        True
    """
    from sciuq_runner.runs.finding import find_run

    found = Run(find_run(str(run)), trust)
    if functions:
        from sciuq_runner.config.problem_mapping import give_functions

        give_functions(functions, found.metrics["config"]["problem"].get("equations") or {})
    return found


def sweep(
    grid: Mapping[str, Any],
    problem: Problem = "function",
    *,
    overrides: Sequence[str] = (),
    folder: str | Path | None = None,
    tracking: str = "none",
    trust: Sequence[str] = (),
    config_dir: str | Path | None = None,
    progress: bool = True,
    **settings: Any,
) -> pd.DataFrame:
    """Every combination of the values in ``grid``, as ``sciuq-run -m`` runs them.

    Args:
        grid: values by setting, ``{"method": ["hmc", "dens"], "seed": range(3)}``.
        settings: what all jobs share, and ``sweep="local"`` where they are to run side by side; all others as for
            :func:`run`.

    Returns:
        One row for every job: the settings of the grid, ``status``, ``folder``, a sentence where it failed, and all
        metrics by their names in MLflow (``u/id/rl2e``). ``sq.load(row.folder)`` gives the run.

    Example:
        >>> import sciuq_runner as sq
        >>> table = sq.sweep({"method": ["dens", "la"]}, fidelity="smoke", figures=False, progress=False)
        >>> table[["method", "status"]].values.tolist()
        [['dens', 'finished'], ['la', 'finished']]
    """
    from sciuq_runner.sweeps.library import make_sweep

    named = {**settings, "tracking": tracking}
    return make_sweep(grid, problem, named, overrides, folder, trust, config_dir, progress)


class Run:
    """A finished run: what is in its folder, read when it is asked for.

    Example:
        >>> import sciuq_runner as sq
        >>> run = sq.run("function", method="dens", fidelity="smoke", progress=False)
        >>> run.predict({"x": [0.1, 0.2]})[["mean", "lower", "upper"]].shape
        (2, 3)
    """

    def __init__(self, folder: str | Path, trust: Sequence[str] = ()) -> None:
        self.folder = Path(folder).resolve()
        self._trust = tuple(trust)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """What ``metrics.json`` holds: ``{quantity: {split: {metric: value}}}``, noise, parameters, diagnostics, cost
        and configuration."""
        from sciuq_runner.evaluation.metrics_file import read_metrics

        return read_metrics(self.folder)

    @cached_property
    def parameters(self) -> xr.Dataset:
        """Draws of the parameters and of learned scales, ``[chain, draw]`` each.

        Example:
            >>> run.parameters["k"].mean()  # doctest: +SKIP
        """
        import xarray as xr

        from sciuq_runner.evaluation.inference_data import scalar_draws

        posterior = self._emulator.posterior
        n_chains = posterior.n_chains or 1
        draws = scalar_draws(self._emulator.target, posterior)
        return xr.Dataset({name: (("chain", "draw"), part.reshape(n_chains, -1)) for name, part in draws.items()})

    @cached_property
    def predictions(self) -> xr.Dataset:
        """Every quantity on its test grid, with coordinates and units: ``u_mean``, ``u_std``, ``u_aleatoric_std``,
        ``u_epistemic_std``, the 95 % bounds ``u_lower`` and ``u_upper``, and after calibration ``u_cal_mean`` …"""
        from sciuq_runner.evaluation.labelled import labelled
        from sciuq_runner.evaluation.result_files import read_results

        return labelled(read_results(self.folder), self._units)

    def predict(self, points: Any, quantity: str | None = None) -> pd.DataFrame:
        """Mean, standard deviations and 95 % bounds at points of your own.

        Args:
            points: a data frame or mapping with a column for every coordinate, or an array ``[N, D]``; for an operator
                functions ``[R, S]``, one in each row.
            quantity: what to predict; the problem's first quantity unless given.
        """
        import numpy as np
        import pandas as pd

        from sciuq_runner.pyfunc import PyFunc

        if isinstance(points, Mapping):
            try:
                points = pd.DataFrame({name: np.atleast_1d(values) for name, values in points.items()})
            except ValueError as error:
                raise ConfigError(f"The points should have one column for every coordinate: {error}.") from error
        found: pd.DataFrame = PyFunc(self._emulator).predict(points, {"quantity": quantity})
        return found

    def calibrate(self, *calibrators: str, n: int | None = None, data: str = "calibration") -> Run:
        """Calibrate anew from the saved predictions, as ``sciuq-calibrate`` does; nothing is trained.

        Args:
            calibrators: ``"var"``, ``"cdf"``, ``"crude"``, ``"conformal"``.
            n: how many held-out observations to use; all unless given.
            data: ``"train"`` shows how calibrating with the training data overfits.
        """
        from sciuq_runner.runs.afterwards import recalibrate

        names = [name for item in calibrators for name in ([item] if isinstance(item, str) else item)]
        if not names:
            raise ConfigError("calibrate() needs a calibrator: var, cdf, crude or conformal.")
        settings = [f"calibration=[{','.join(names)}]", f"calibration.data={data}"]
        recalibrate(self.folder, [*settings, *([f"calibration.n={n}"] if n is not None else [])], self._trust)
        for name in ("metrics", "predictions", "_emulator", "_figures"):
            self.__dict__.pop(name, None)
        return self

    def plot(self, name: str | None = None) -> Figure:
        """One of the figures: by the name of its file (:attr:`figures` lists them), of a quantity (``"u"``) or of a
        kind (``"calibration"``); the first unless given."""
        from sciuq_runner.evaluation.plots import pick_figure

        chosen = next(iter(self._figures)) if name is None else pick_figure(self._figures, name)
        figure: Figure = self._figures[chosen]()
        vars(figure)["_repr_png_"] = partial(_png, figure)  # so do notebooks show it, without pyplot
        return figure

    @property
    def figures(self) -> list[str]:
        """The names that :meth:`plot` takes."""
        return list(self._figures)

    def to_arviz(self) -> Any:
        """The run as :class:`arviz.InferenceData`: posterior of parameters and of predictions, observed data, log
        likelihood and sample statistics; see :func:`~sciuq_runner.evaluation.inference_data.inference_data`."""
        from sciuq_runner.evaluation.inference_data import inference_data
        from sciuq_runner.evaluation.result_files import read_results

        attributes = {"sciuq_run": str(self.folder), **self.metrics["diagnostics"]}
        return inference_data(self._emulator.target, self._emulator.posterior, read_results(self.folder), **attributes)

    @property
    def warnings(self) -> list[str]:
        """What the run warned of."""
        path = self.folder / layout.LOG
        return WARNING.findall(path.read_text(encoding="utf-8")) if path.is_file() else []

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        """The first figure and the table of metrics, for notebooks."""
        import base64

        picture = ""
        if self._figures:
            encoded = base64.b64encode(_png(self.plot())).decode()
            picture = f'<img alt="figure" style="max-width: 100%" src="data:image/png;base64,{encoded}">'
        warned = "".join(f"<p>Warning: {html.escape(text)}</p>" for text in self.warnings)
        return f"{picture}{self.table().to_html(float_format='{:.3g}'.format, na_rep='')}{warned}"

    def table(self) -> pd.DataFrame:
        """The metrics, one row for every quantity and split."""
        import pandas as pd

        from sciuq_runner.evaluation.metrics_file import NOT_QUANTITIES

        rows = {
            (quantity, split): values
            for quantity, splits in self.metrics.items()
            if quantity not in NOT_QUANTITIES
            for split, values in splits.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index")

    @cached_property
    def _emulator(self) -> Emulator:
        from sciuq_runner.config.environment import trusted
        from sciuq_runner.predict.emulator import Emulator

        return Emulator(self.folder / layout.MODEL, [*trusted(), *self._trust])

    @cached_property
    def _figures(self) -> Mapping[str, Any]:
        from sciuq_runner.runs.afterwards import figures_of

        return figures_of(self.folder, self._trust)

    @property
    def _units(self) -> dict[str, str]:
        units = self.metrics["config"]["problem"].get("units") or {}
        return {key: str(unit["name"]) for key, unit in units.items() if isinstance(unit, Mapping) and "name" in unit}


def _png(figure: Figure) -> bytes:
    """A figure as an image."""
    import io

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return buffer.getvalue()
