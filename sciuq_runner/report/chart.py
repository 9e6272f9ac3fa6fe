"""Cost against accuracy, drawn as SVG so that it takes the colours and the fonts of the page."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from sciuq_runner.report.markup import Html, tag
from sciuq_runner.report.tables import pareto

WIDTH, HEIGHT = 800, 420
LEFT, RIGHT, TOP, BOTTOM = 56, 780, 32, 372
LETTER, LINE = 7.8, 15  # size of a letter and of a line of text
LONGEST_NAME = 36
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Point:
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


def scatter(points: Sequence[Point], x_label: str, y_label: str) -> Html:
    """Every point with its name and spread; those of the Pareto front are filled, and joined by a line."""
    errors = [point.error for point in points]
    wide = min(errors) > 0 and max(errors) > 10 * min(errors)
    ends = [end for p in points for end in (p.error - p.spread, p.error + p.spread) if not wide or end > 0]
    x = Axis.around([point.cost for point in points], LEFT, RIGHT, log=True)
    y = Axis.around([*errors, *ends], BOTTOM, TOP, log=wide)
    front = pareto([(point.cost, point.error) for point in points])
    steps = [(x.place(points[i].cost), y.place(points[i].error)) for i in sorted(front, key=lambda i: points[i].cost)]
    line = f"M{steps[0][0]:.1f} {steps[0][1]:.1f}" + "".join(f"H{a:.1f}V{b:.1f}" for a, b in steps[1:])
    names = [textwrap.shorten(point.name, LONGEST_NAME, placeholder=" …") for point in points]
    places = [(x.place(point.cost), y.place(point.error)) for point in points]
    marks = [
        mark(point, *place, y, index in front) for index, (point, place) in enumerate(zip(points, places, strict=True))
    ]
    return tag(
        "svg",
        *[grid_x(x.place(value), f"{value:g}") for value in x.ticks()],
        *[grid_y(y.place(value), f"{value:.6g}") for value in y.ticks()],
        tag("text", x_label, x=RIGHT, y=BOTTOM + 40, text_anchor="end", class_="soft"),
        tag("text", y_label, x=8, y=14, class_="soft"),
        tag("path", d=line, class_="front"),
        *marks,
        *[
            label(name, box, index in front)
            for index, (name, box) in enumerate(zip(names, spots(names, places), strict=True))
        ],
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{y_label} against {x_label}",
    )


def grid_x(place: float, text: str) -> Html:
    """A vertical line with its number below."""
    line = tag("line", x1=place, x2=place, y1=TOP, y2=BOTTOM, class_="grid")
    return tag("g", line, tag("text", text, x=place, y=BOTTOM + 18, text_anchor="middle", class_="soft"))


def grid_y(place: float, text: str) -> Html:
    """A horizontal line with its number on the left."""
    line = tag("line", x1=LEFT, x2=RIGHT, y1=place, y2=place, class_="grid")
    return tag("g", line, tag("text", text, x=LEFT - 8, y=place + 4, text_anchor="end", class_="soft"))


def mark(point: Point, left: float, top: float, y: Axis, on_front: bool) -> Html:
    """A point with the bar of its spread, which says its numbers when pointed at."""
    ends = y.place(point.error - point.spread), y.place(point.error + point.spread)
    return tag(
        "g",
        tag("title", f"{point.name}: {point.cost:.4g} s, {point.error:.4g} ± {point.spread:.2g}"),
        tag("line", x1=left, x2=left, y1=min(ends[0], BOTTOM), y2=max(ends[1], TOP), class_="spread"),
        tag("circle", cx=left, cy=top, r=5, class_="point on" if on_front else "point"),
    )


def label(name: str, box: Box, on_front: bool) -> Html:
    """A name in the middle of its room."""
    middle = (box[0] + box[2]) / 2
    return tag("text", name, x=middle, y=box[1] + 11, text_anchor="middle", class_="name on" if on_front else "name")


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
