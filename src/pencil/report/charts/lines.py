"""Line charts over epochs, with shaded and named phases and labels at the ends of the curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pencil.report.charts.svg import chart, element, hint, line, rect, spread, text, ticks
from pencil.report.curves import Curve, Span

WIDTH, HEIGHT = 760.0, 320.0
LEFT, TOP, BOTTOM = 56.0, 34.0, 44.0
LABEL_GAP = 17.0
LETTER = 7.4
"""Width of a letter in the widest font a browser may choose."""
STYLES = 4
"""Number of colours, dashes and markers."""


@dataclass(frozen=True)
class _Plane:
    """Maps epochs and values to coordinates."""

    epochs: int
    high: float
    right: float

    def x(self, epoch: float) -> float:
        return LEFT + (epoch - 0.5) / self.epochs * (self.right - LEFT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.high * (HEIGHT - BOTTOM - TOP)


def line_chart(
    name: str,
    title: str,
    description: str,
    curves: Sequence[Curve],
    spans: Sequence[Span],
    *,
    show: Callable[[float], str],
    high: float | None = None,
    label: str = "",
) -> str:
    """Draw curves over an axis that starts at 0.

    Args:
        name: Prefix for the ids of the chart's elements.
        title: Title for screen readers.
        description: Description for screen readers.
        curves: The curves; at most as many as there are styles.
        spans: The phases; the chart ends at the last epoch of the last phase.
        show: Formats a value.
        high: Upper end of the axis; by default a round number above all values.
        label: Label of the axis.
    """
    values = [value for curve in curves for _, value in curve.points]
    marks = ticks(max(values, default=0.0) if high is None else high)
    room = 30 + LETTER * max((len(_label(curve, show)) for curve in curves), default=0)
    plane = _Plane(max((span.last for span in spans), default=1), marks[-1], WIDTH - room)
    parts = [
        *(_band(span, index, plane) for index, span in enumerate(spans)),
        *(_grid(value, plane, show) for value in marks),
        *(_epoch(epoch, plane) for epoch in _epoch_ticks(plane.epochs)),
        text("epoch", (LEFT + plane.right) / 2, HEIGHT - 6, class_="axis", text_anchor="middle"),
        text(label, 4, 12, class_="axis"),
        *(_curve(curve, index % STYLES, plane) for index, curve in enumerate(curves)),
        *_end_labels(curves, plane, show),
    ]
    return chart(name, title, description, (WIDTH, HEIGHT), *parts)


def _band(span: Span, index: int, plane: _Plane) -> str:
    left, right = plane.x(span.first - 0.5), plane.x(span.last + 0.5)
    width = right - left
    parts = [rect(left, TOP, width, HEIGHT - TOP - BOTTOM, class_=f"band band-{index % 2}")]
    if index:
        parts.append(line(left, TOP - 12, left, HEIGHT - BOTTOM, class_="edge"))
    fits = LETTER * len(span.name) + 8 <= width
    words = span.name if fits else f"{span.name[:1]}." if width >= 16 else ""
    parts.append(text(words, left + 5, TOP - 5, class_="phase"))
    return element("g", hint(f"{span.name}: epochs {span.first} to {span.last}"), *parts)


def _grid(value: float, plane: _Plane, show: Callable[[float], str]) -> str:
    y = plane.y(value)
    return line(LEFT, y, plane.right, y, class_="axis-line" if value == 0 else "grid") + text(
        show(value), LEFT - 7, y + 4, class_="tick", text_anchor="end"
    )


def _epoch_ticks(epochs: int) -> list[int]:
    whole = [round(value) for value in ticks(epochs, 8) if value == round(value)]
    return [epoch for epoch in dict.fromkeys([1, *whole[1:]]) if epoch <= epochs]


def _epoch(epoch: int, plane: _Plane) -> str:
    x = plane.x(epoch)
    mark = line(x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 4, class_="axis-line")
    return mark + text(f"{epoch:,}", x, HEIGHT - BOTTOM + 17, class_="tick", text_anchor="middle")


def _curve(curve: Curve, style: int, plane: _Plane) -> str:
    points = [(plane.x(epoch), plane.y(value)) for epoch, value in curve.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    every = max(1, round(len(points) / 8))
    marked = points[every // 2 :: every] if len(points) > 1 else points
    return element(
        "g",
        element("polyline", points=path, class_="curve"),
        *(marker(style, x, y) for x, y in marked),
        class_=f"series-{style}",
    )


def marker(style: int, x: float, y: float, size: float = 4) -> str:
    """Draw a disc, a square, a triangle or a diamond."""
    if style == 0:
        return element("circle", cx=x, cy=y, r=size, class_="marker")
    corners = {
        1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        2: ((0, -1.3), (1.2, 0.9), (-1.2, 0.9)),
        3: ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
    }[style]
    points = " ".join(f"{x + 0.9 * size * dx:.1f},{y + 0.9 * size * dy:.1f}" for dx, dy in corners)
    return element("polygon", points=points, class_="marker")


def _label(curve: Curve, show: Callable[[float], str]) -> str:
    return f"{curve.name} {show(curve.points[-1][1])}" if curve.points else curve.name


def _end_labels(curves: Sequence[Curve], plane: _Plane, show: Callable[[float], str]) -> list[str]:
    ending = [(index, curve) for index, curve in enumerate(curves) if curve.points]
    wanted = [plane.y(curve.points[-1][1]) for _, curve in ending]
    places = spread(wanted, LABEL_GAP, TOP, HEIGHT - BOTTOM)
    parts = []
    for (index, curve), at, y in zip(ending, wanted, places, strict=True):
        style, x = index % STYLES, plane.x(curve.points[-1][0])
        lead = line(x, at, plane.right + 6, y, class_="lead")
        mark = marker(style, plane.right + 12, y)
        words = text(_label(curve, show), plane.right + 20, y + 4, class_="label")
        parts.append(element("g", lead, mark, words, class_=f"series-{style}"))
    return parts
