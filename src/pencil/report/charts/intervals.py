"""Charts of estimates with their intervals: shares by class, and probabilities beside what was true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pencil.escape import clipped
from pencil.estimates import Interval
from pencil.report.charts.lines import marker
from pencil.report.charts.svg import chart, element, hint, line, text, ticks
from pencil.report.text import between, percent, whole_percent

WIDTH = 760.0
LETTER, LONGEST = 7.0, 26
ROW, TOP, BOTTOM, RIGHT = 25.0, 34.0, 40.0, 30.0
SIDE, LEFT = 380.0, 64.0
"""Length of the axes of the square chart, and where they start."""


@dataclass(frozen=True)
class Point:
    """Rows of similar probability.

    Attributes:
        predicted: The mean probability.
        true: The share for which it was true, with its 95 % interval.
        rows: The number of rows.
    """

    predicted: float
    true: Interval
    rows: int


def interval_chart(
    name: str,
    title: str,
    description: str,
    names: Sequence[str],
    shares: Sequence[Interval],
    truth: Sequence[float] | None = None,
) -> str:
    """Draw a share with its interval for each of ``names`` (M,), and its true value if known."""
    labels = [clipped(each, LONGEST) for each in names]
    left = 16 + LETTER * max(map(len, labels), default=0)
    marks = ticks(max([reach_of(each) for each in shares] + list(truth or ()), default=1.0))
    floor, scale = TOP + ROW * len(labels), (WIDTH - left - RIGHT) / marks[-1]
    parts = [_tick(value, left + value * scale, TOP - 6, floor) for value in marks]
    parts.append(text("share of the class's labels", left, floor + 34, class_="axis"))
    for index, share in enumerate(shares):
        true = None if truth is None else truth[index]
        words = f"{names[index]}: {percent(share.value)} ({between(share)})" + (
            "" if true is None else f", in truth {percent(true)}"
        )
        y = TOP + ROW * (index + 0.5)
        parts.append(text(labels[index], left - 10, y + 4, class_="tick", text_anchor="end"))
        parts.append(_row(words, share, true, y, left, scale))
    parts += _legend(left, truth is not None)
    return chart(name, title, description, (WIDTH, floor + BOTTOM), *parts)


def _tick(value: float, x: float, top: float, floor: float) -> str:
    grid = line(x, top, x, floor, class_="grid" if value else "axis-line")
    return grid + text(whole_percent(value), x, floor + 17, class_="tick", text_anchor="middle")


def _row(words: str, share: Interval, true: float | None, y: float, left: float, scale: float) -> str:
    reach = line(left + share.low * scale, y, left + reach_of(share) * scale, y, class_="reach")
    estimate = element("g", reach, marker(0, left + share.value * scale, y), class_="series-0")
    actual = "" if true is None else element("g", marker(3, left + true * scale, y), class_="series-1")
    return element("g", hint(words), estimate, actual)


def reach_of(share: Interval) -> float:
    """Where the line of an interval ends: at the value, if there is no upper end."""
    return share.value if share.high >= 1 else share.high


def _legend(left: float, has_truth: bool) -> list[str]:
    estimate = line(left, 10, left + 26, 10, class_="reach") + marker(0, left + 13, 10)
    parts = [
        element("g", estimate, class_="series-0"),
        text("estimate with bounds", left + 34, 14, class_="label"),
    ]
    if has_truth:
        parts.append(element("g", marker(3, left + 210, 10), class_="series-1"))
        parts.append(text("true share", left + 222, 14, class_="label"))
    return parts


def reliability_chart(name: str, title: str, description: str, points: Sequence[Point]) -> str:
    """Draw probabilities (across) beside the shares for which they were true (up); the diagonal is perfect."""
    floor = TOP + SIDE
    parts = []
    for tenth in range(0, 11, 2):
        at = SIDE * tenth / 10
        parts.append(line(LEFT, floor - at, LEFT + SIDE, floor - at, class_="grid" if tenth else "axis-line"))
        parts.append(text(f"{10 * tenth} %", LEFT - 7, floor - at + 4, class_="tick", text_anchor="end"))
        parts.append(text(f"{10 * tenth} %", LEFT + at, floor + 17, class_="tick", text_anchor="middle"))
    parts.append(line(LEFT, floor, LEFT + SIDE, TOP, class_="axis-line ideal"))
    parts.append(
        text(
            "probability that the label is wrong",
            LEFT + SIDE / 2,
            floor + 36,
            class_="axis",
            text_anchor="middle",
        )
    )
    parts.append(text("share that is wrong", 4, 14, class_="axis"))
    parts += [_point(each, floor) for each in points]
    return chart(name, title, description, (LEFT + SIDE + RIGHT, floor + BOTTOM + 4), *parts)


def _point(point: Point, floor: float) -> str:
    x, low, high = (
        LEFT + SIDE * point.predicted,
        floor - SIDE * point.true.low,
        floor - SIDE * point.true.high,
    )
    words = (
        f"{point.rows:,} labels with a mean probability of {percent(point.predicted)}: {percent(point.true.value)} are "
        f"wrong ({between(point.true)})"
    )
    mark = marker(0, x, floor - SIDE * point.true.value)
    return element("g", hint(words), line(x, low, x, high, class_="reach"), mark, class_="series-0")
