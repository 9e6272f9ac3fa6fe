"""Kinds of figures: what each of them can draw of a run, and which arrays it keeps in the run folder for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciuq_runner import files
from sciuq_runner.calibration.base import Calibrator
from sciuq_runner.errors import ConfigError, nearest
from sciuq_runner.evaluation.inference import Inference
from sciuq_runner.evaluation.metrics_file import title_of
from sciuq_runner.evaluation.plots.style import FIGURE_STYLE
from sciuq_runner.evaluation.results import Result
from sciuq_runner.physics.problem import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[], "Figure"]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Drawing:
    """What figures are drawn from: the results of a run, and files of its folder."""

    folder: Path
    results: Mapping[str, Result]
    title: str
    calibrators: Mapping[str, Calibrator] = field(default_factory=dict)
    seed: int = 0

    @classmethod
    def of(
        cls,
        folder: Path,
        results: Mapping[str, Result],
        metrics: Mapping[str, Any],
        calibrators: Mapping[str, Calibrator],
    ) -> Drawing:
        """That of a run with these results and this content of ``metrics.json``."""
        return cls(folder, results, title_of(metrics), calibrators, metrics["config"]["seed"])

    def arrays(self, file: str) -> dict[str, Array]:
        """The arrays of a file of the run folder; none where the run has no such file."""
        return files.read_npz(self.folder / file) if (self.folder / file).is_file() else {}


Kind = Callable[[Drawing], Iterable[tuple[str, Draw]]]


@dataclass(frozen=True)
class FigureKind:
    """Figures of one kind: the file names, without their ending, of those that a run has, and what draws each.

    ``by_calibrator`` are patterns of the file names, behind the name of a quantity, that depend on which calibrators
    there are. ``arrays`` makes the content of ``file``, which the figures read back; empty where there is nothing.
    """

    list: Kind
    by_calibrator: tuple[str, ...]
    file: str
    arrays: Callable[[Inference], Arrays] | None


KNOWN_FIGURES: list[FigureKind] = []


def figure_kind(
    by_calibrator: tuple[str, ...] = (), file: str = "", arrays: Callable[[Inference], Arrays] | None = None
) -> Callable[[Kind], Kind]:
    """Register a function that lists the figures of one kind; it draws none of them."""
    if bool(file) != (arrays is not None):
        raise TypeError("A kind of figure names both a file and what makes its arrays, or neither.")

    def register(kind: Kind) -> Kind:
        KNOWN_FIGURES.append(FigureKind(kind, by_calibrator, file, arrays))
        return kind

    return register


def figures(drawing: Drawing) -> dict[str, Draw]:
    """All figures of a run by the names of their files, without the ending; each is drawn when it is called."""
    return {name: styled(draw) for kind in KNOWN_FIGURES for name, draw in kind.list(drawing)}


def styled(draw: Draw) -> Draw:
    """The same figure in the style that all share."""

    def drawn() -> Figure:
        import matplotlib as mpl

        with mpl.rc_context(FIGURE_STYLE):
            return draw()

    return drawn


def pick_figure(available: Mapping[str, Draw], name: str) -> str:
    """The figure of this name; the first of a quantity, or of a kind, where it names one of these."""
    preferred = (name, f"{name}_bands", f"{name}_maps")
    wanted = [
        *(stem for stem in preferred if stem in available),
        *(stem for stem in available if stem.startswith(f"{name}_")),
        *(stem for stem in available if stem.endswith(f"_{name}")),
    ]
    if not wanted:
        raise ConfigError(f"{name} is not a figure of this run: {nearest(name, available)}")
    return wanted[0]


def draw_all(folder: Path, drawing: Drawing) -> list[Path]:
    """Save all figures of a run; those of calibrators that it no longer has are removed."""
    import matplotlib as mpl

    drawn = []
    with mpl.rc_context(FIGURE_STYLE):  # ticks get their style when they are saved
        for name, draw in figures(drawing).items():
            save(draw(), folder / f"{name}.png")
            drawn.append(folder / f"{name}.png")
    for path in set(calibrated(folder, drawing.results)) - set(drawn):
        path.unlink()
    return drawn


def save(figure: Figure, path: Path) -> None:
    """Write one figure; the format follows the name."""
    files.write_atomically(path, lambda target: figure.savefig(target, dpi=200))


def calibrated(folder: Path, results: Iterable[str]) -> Iterator[Path]:
    """The figures in a folder that depend on which calibrators there are."""
    patterns = [pattern for kind in KNOWN_FIGURES for pattern in kind.by_calibrator]
    for name in results:
        for pattern in patterns:
            yield from folder.glob(f"{name}_{pattern}.png")


def write_data(folder: Path, inference: Inference) -> None:
    """Leave the arrays that figures need beside the results in the run folder."""
    for kind in KNOWN_FIGURES:
        arrays = kind.arrays(inference) if kind.arrays is not None else {}
        if arrays:
            files.write_npz(folder / kind.file, arrays)


def data_files() -> list[str]:
    """The names of the files that :func:`write_data` leaves."""
    return [kind.file for kind in KNOWN_FIGURES if kind.file]
