"""Scores of functions of several kinds: means relative to the first kind, beside the error, and how one is spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sciuq_runner import layout
from sciuq_runner.evaluation.plots.registry import Draw, Drawing, figure_kind
from sciuq_runner.evaluation.plots.style import DATA, EXACT, canvas, lines
from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.out_of_distribution import SCORE_LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_kind()
def detection(drawing: Drawing) -> Iterator[tuple[str, Draw]]:
    """One figure, for operators."""
    if arrays := drawing.arrays(layout.DETECTION):
        yield "detection", partial(draw_detection, Scores.of(arrays), drawing.title)


@dataclass(frozen=True)
class Scores:
    """Scores of functions by name, the functions of every split as a mask, and perhaps the number that tells the splits
    apart, of which ``label`` is the name."""

    scores: Mapping[str, Array]
    splits: Mapping[str, Array]
    values: Mapping[str, float]
    thresholds: Mapping[str, float]
    label: str

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Scores:
        def part(kind: str) -> dict[str, Any]:
            return {key.removeprefix(kind): item for key, item in arrays.items() if key.startswith(kind)}

        splits, values = part("split_"), {key: float(item) for key, item in part("value_").items()}
        numbered = values if splits.keys() <= values.keys() else {}
        thresholds = {key: float(item) for key, item in part("threshold_").items()}
        return cls(part("score_"), splits, numbered, thresholds, str(arrays.get("label", "")))

    @property
    def order(self) -> list[str]:
        """The splits by their number, if they have one."""
        return sorted(self.splits, key=lambda split: self.values.get(split, 0.0))

    @property
    def first(self) -> str:
        """The split of training's kind."""
        return next(iter(self.splits))


def draw_detection(found: Scores, title: str) -> Figure:
    """All scores on the left, the first of them on the right."""
    figure = canvas(7.2, 3.4)
    left, right = figure.subplots(1, 2)
    draw_means(left, found)
    draw_spread(right, found)
    figure.suptitle(f"{title}: out of distribution", fontsize=9)
    return figure


def draw_means(axes: Any, found: Scores) -> None:
    """The mean of every score over the splits."""
    points = [found.values[split] for split in found.order] if found.values else list(range(len(found.order)))
    for (name, item), (color, style) in zip(found.scores.items(), lines(), strict=False):
        usual = item[found.splits[found.first]].mean()
        means = [item[found.splits[split]].mean() / usual for split in found.order]
        width, tone = (2.2, EXACT) if name == "rl2e" else (1.4, color)
        axes.plot(points, means, color=tone, ls=style, lw=width, marker="o", ms=3, label=SCORE_LABELS.get(name, name))
    if found.values:
        axes.axvline(found.values[found.first], color=EXACT, lw=0.8, ls=":")
        axes.set(xlabel=found.label)
    else:
        axes.set_xticks(points, found.order)
    axes.set(ylabel="mean score, relative to training's kind", yscale="log")
    axes.legend(fontsize=7)


def draw_spread(axes: Any, found: Scores) -> None:
    """The values of one score in every split, with its threshold."""
    name, scores = next(iter(found.scores.items()))
    labels = [f"{found.values[split]:g}" for split in found.order] if found.values else found.order
    parts = [scores[found.splits[split]] for split in found.order]
    axes.boxplot(parts, tick_labels=labels, sym=".", medianprops={"color": DATA})
    if name in found.thresholds:
        axes.axhline(found.thresholds[name], color=EXACT, lw=1, ls="--", label="threshold")
        axes.legend(fontsize=7)
    axes.set(xlabel=found.label, ylabel=SCORE_LABELS.get(name, name))
