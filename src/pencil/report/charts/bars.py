"""Bar charts of verdicts and probabilities. Verdicts differ in texture as well as in colour."""

from __future__ import annotations

from collections.abc import Sequence

from pencil.report.charts.svg import chart, element, line, rect, text, ticks
from pencil.report.text import percent
from pencil.results import VERDICTS

WIDTH = 760.0
LEFT, TOP, BOTTOM, RIGHT = 56.0, 40.0, 44.0, 24.0


def verdict_chart(
    name: str, title: str, description: str, totals: Sequence[int], *, legend: bool = True
) -> str:
    """Draw the rows of each verdict as parts of one bar; ``legend`` adds names and numbers below it."""
    rows, x, parts = max(sum(totals), 1), 0.0, []
    for index, total in enumerate(totals):
        width = WIDTH * total / rows
        parts.append(_part(name, index, x, 0, width - 2, 34) if total else "")
        x += width
    if legend:
        parts += [_named(name, index, totals) for index in range(len(totals))]
    return chart(name, title, description, (WIDTH, 90 if legend else 34), *textures(name), *parts)


def _named(name: str, verdict: int, totals: Sequence[int]) -> str:
    at, total, rows = verdict * WIDTH / len(totals), totals[verdict], max(sum(totals), 1)
    words = f"{VERDICTS[verdict]}  {percent(total / rows)}"
    return (
        _part(name, verdict, at, 50, 15, 15)
        + text(words, at + 23, 63, class_="label strong")
        + text(f"{total:,}", at + 23, 82, class_="tick")
    )


def histogram_chart(name: str, title: str, description: str, histogram: Sequence[Sequence[int]]) -> str:
    """Draw a stacked histogram of ``histogram`` (V, BINS): rows by verdict and probability of a wrong label."""
    height, bins = 300.0, len(histogram[0])
    marks = ticks(max(sum(column) for column in zip(*histogram, strict=True)))
    step, scale = (WIDTH - LEFT - RIGHT) / bins, (height - TOP - BOTTOM) / marks[-1]
    floor = height - BOTTOM
    parts = []
    for value in marks:
        y = floor - value * scale
        parts.append(line(LEFT, y, WIDTH - RIGHT, y, class_="grid" if value else "axis-line"))
        parts.append(text(f"{value:,.0f}", LEFT - 7, y + 4, class_="tick", text_anchor="end"))
    for place, column in enumerate(zip(*histogram, strict=True)):
        y = floor
        for index, value in enumerate(column):
            tall = value * scale
            parts.append(
                _part(name, index, LEFT + place * step + 1, y - tall, step - 2, tall) if value else ""
            )
            y -= tall
    for tenth in range(0, 11, 2):
        x = LEFT + tenth / 10 * bins * step
        parts.append(text(f"{10 * tenth} %", x, floor + 17, class_="tick", text_anchor="middle"))
    parts.append(
        text(
            "probability that the given label is wrong",
            (LEFT + WIDTH) / 2,
            height - 6,
            class_="axis",
            text_anchor="middle",
        )
    )
    parts.append(text("examples", 4, 12, class_="axis"))
    for index, verdict in enumerate(VERDICTS[: len(histogram)]):
        at = LEFT + 90 + index * 100
        parts += [_part(name, index, at, 2, 13, 13), text(verdict, at + 19, 13, class_="label")]
    return chart(name, title, description, (WIDTH, height), *textures(name), *parts)


def _part(name: str, verdict: int, x: float, y: float, width: float, height: float) -> str:
    """A rectangle in a verdict's colour and texture."""
    colour = rect(x, y, width, height, class_=f"verdict-{verdict}")
    if verdict == 0:
        return colour
    return colour + rect(x, y, width, height, fill=f"url(#{name}-texture-{verdict})")


def textures(name: str) -> list[str]:
    """Stripes for relabel, dots for review, a grid for drop."""
    stripes = element("path", d="M-2,8 L8,-2 M3,13 L13,3", class_="texture-line")
    dots = element("circle", cx=4, cy=4, r=1.5, class_="texture-dot")
    grid = element("path", d="M0,4 L8,4 M4,0 L4,8", class_="texture-grid")
    size: dict[str, str | float] = {"patternUnits": "userSpaceOnUse"}
    return [
        element(
            "defs",
            element("pattern", stripes, id=f"{name}-texture-1", width=10, height=10, **size),
            element("pattern", dots, id=f"{name}-texture-2", width=8, height=8, **size),
            element("pattern", grid, id=f"{name}-texture-3", width=8, height=8, **size),
        )
    ]
