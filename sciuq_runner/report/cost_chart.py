"""Cost against accuracy, drawn as SVG so that it takes the colours and the fonts of the page."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Container, Sequence
from dataclasses import dataclass

from sciuq_runner.report.run_tables import TRAINING_SECONDS, Section, pareto

WIDTH, HEIGHT = 800, 420
LEFT, RIGHT, TOP, BOTTOM = 56, 780, 32, 372
LETTER, LINE = 7.8, 15  # size of a letter and of a line of text
LONGEST_NAME = 36
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class CostPoint:
    """One configuration: its cost, its error with the spread over seeds, and its name."""

    name: str
    cost: float
    error: float
    spread: float


@dataclass(frozen=True)
class Axis:
    """A scale from numbers to places on the page, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float, log: bool) -> Axis:
        """The axis that shows all values with some room around them."""
        inner = [math.log10(value) if log else value for value in values]
        low, high = min(inner), max(inner)
        room = 0.08 * (high - low) or (0.3 if log else 0.1 * abs(high) or 1.0)
        return cls(low - room, high + room, start, end, log)

    def place(self, value: float) -> float:
        """Where a value is drawn."""
        inner = (math.log10(value) if value > 0 else self.low) if self.log else value
        return self.start + (self.end - self.start) * (inner - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round numbers along the axis; one that spans less than a power of ten has those of a linear one."""
        if not self.log:
            return round_numbers(self.low, self.high)
        powers = [10.0**k for k in range(math.floor(self.low), math.ceil(self.high) + 1)]
        for factors in ((1,), (1, 3), (1, 2, 5)):
            found = [factor * power for power in powers for factor in factors]
            inside = [value for value in found if self.low <= math.log10(value) <= self.high]
            if len(inside) >= 3:
                return inside
        return round_numbers(10**self.low, 10**self.high)


def round_numbers(low: float, high: float) -> list[float]:
    """A handful of multiples of 1, 2 or 5 times a power of ten."""
    least = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


@dataclass(frozen=True)
class Tick:
    """A line of the grid with its number."""

    place: float
    text: str


@dataclass(frozen=True)
class Mark:
    """A point with the bar of its spread, its name, and what it says when pointed at."""

    x: float
    y: float
    low: float
    high: float
    title: str
    label: str
    label_x: float
    label_y: float
    on_front: bool


@dataclass(frozen=True)
class Chart:
    """Everything that is drawn, at its place on the page; ``front`` is the path that joins the Pareto front."""

    x_label: str
    y_label: str
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    front: str
    marks: Sequence[Mark]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = RIGHT
    top: int = TOP
    bottom: int = BOTTOM


def cost_points(section: Section) -> list[CostPoint]:
    """Cost and error of the rows that have both."""
    if not section.headline.endswith("/rl2e"):
        return []
    pairs = [(row.name, row.cells.get(TRAINING_SECONDS), row.cells.get(section.headline)) for row in section.rows]
    return [
        CostPoint(name, cost.mean, error.mean, error.std)
        for name, cost, error in pairs
        if cost and error and cost.mean > 0
    ]


def cost_chart(section: Section) -> Chart | None:
    """Cost against accuracy, where there are at least two rows to compare."""
    found = cost_points(section)
    return scatter(found, "seconds of training (train_s)", section.headline) if len(found) > 1 else None


def scatter(points: Sequence[CostPoint], x_label: str, y_label: str) -> Chart:
    """Every point with its name and spread; those of the Pareto front are filled, and joined by a line."""
    errors = [point.error for point in points]
    wide = min(errors) > 0 and max(errors) > 10 * min(errors)
    ends = [end for p in points for end in (p.error - p.spread, p.error + p.spread) if not wide or end > 0]
    x = Axis.around([point.cost for point in points], LEFT, RIGHT, log=True)
    y = Axis.around([*errors, *ends], BOTTOM, TOP, log=wide)
    front = pareto([(point.cost, point.error) for point in points])
    steps = [(x.place(points[i].cost), y.place(points[i].error)) for i in sorted(front, key=lambda i: points[i].cost)]
    line = f"M{steps[0][0]:.1f} {steps[0][1]:.1f}" + "".join(f"H{a:.1f}V{b:.1f}" for a, b in steps[1:])
    return Chart(
        x_label,
        y_label,
        [Tick(x.place(value), f"{value:g}") for value in x.ticks()],
        [Tick(y.place(value), f"{value:.6g}") for value in y.ticks()],
        line,
        marks(points, x, y, front),
    )


def marks(points: Sequence[CostPoint], x: Axis, y: Axis, front: Container[int]) -> list[Mark]:
    """Points, bars inside the axes, and names that do not cover each other."""
    names = [textwrap.shorten(point.name, LONGEST_NAME, placeholder=" …") for point in points]
    places = [(x.place(point.cost), y.place(point.error)) for point in points]
    found = []
    for index, (point, place, name, box) in enumerate(zip(points, places, names, spots(names, places), strict=True)):
        low = min(y.place(point.error - point.spread), BOTTOM)
        high = max(y.place(point.error + point.spread), TOP)
        title = f"{point.name}: {point.cost:.4g} s, {point.error:.4g} ± {point.spread:.2g}"
        found.append(Mark(*place, low, high, title, name, (box[0] + box[2]) / 2, box[1] + 11, index in front))
    return found


def spots(names: Sequence[str], places: Sequence[tuple[float, float]]) -> list[Box]:
    """Room for the names, each at the first place around its point that is still free."""
    taken: list[Box] = [(left - 6, top - 6, left + 6, top + 6) for left, top in places]
    for name, (left, top) in zip(names, places, strict=True):
        width = LETTER * len(name)
        corners = [(left + 7, top - 19), (left + 9, top - 7), (left - 9 - width, top - 7)]
        corners += [(left - width / 2 + shift, top + drop) for drop in (-24, 9, -40, 25) for shift in (0, 24, -24)]
        boxes = [(a, b, a + width, b + LINE) for a, b in corners]
        free = (box for box in boxes if inside(box) and not any(overlap(box, other) for other in taken))
        taken.append(next(free, boxes[0]))
    return taken[len(places) :]


def inside(box: Box) -> bool:
    """Whether a box lies between the axes."""
    return box[0] >= LEFT and box[2] <= WIDTH and box[1] >= 0 and box[3] <= BOTTOM


def overlap(a: Box, b: Box) -> bool:
    """Whether two boxes share more than an edge."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
