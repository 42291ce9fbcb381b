"""A matrix of shares as a heat map in one hue, with steps that resolve small shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pencil.escape import clipped
from pencil.report.charts.svg import chart, element, hint, rect, text

STEPS = (0.002, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
"""Boundaries between the shades."""
LETTER = 7.0
LONGEST = 22
UPRIGHT = 4
"""Longest name that is not slanted."""


def level(share: float) -> int:
    """The shade of a share, from 0 (negligible) to 9."""
    return sum(share >= step for step in STEPS)


@dataclass(frozen=True)
class _Plan:
    """Layout of the cells: ``left`` and ``top`` of the first cell, and the side length ``cell``."""

    labels: list[str]
    cell: float
    left: float
    top: float

    @classmethod
    def of(cls, names: Sequence[str]) -> _Plan:
        labels = [clipped(each, LONGEST) for each in names]
        longest = max(map(len, labels), default=0)
        rise = 0.72 * LETTER * longest if longest > UPRIGHT else 10.0
        return cls(labels, max(24.0, min(48.0, 560.0 / max(len(names), 1))), 30 + LETTER * longest, 30 + rise)

    @property
    def side(self) -> float:
        return len(self.labels) * self.cell

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the whole chart, including slanted names and the legend."""
        slant = 0.72 * LETTER * max(map(len, self.labels), default=0)
        return max(self.left + self.side + max(slant, 12), self.left + 340), self.top + self.side + 56


def heat_chart(
    name: str,
    title: str,
    description: str,
    names: Sequence[str],
    shares: Sequence[Sequence[float]],
    details: Sequence[Sequence[str]],
) -> str:
    """Draw shares (M, M) of the classes ``names`` (M,): true classes down, given classes across.

    The tooltip of a cell names its classes and gives its ``details`` (M, M).
    """
    plan = _Plan.of(names)
    cells = [
        _cell(plan, down, across, share, f"{names[down]} labelled {names[across]}: {details[down][across]}")
        for down, row in enumerate(shares)
        for across, share in enumerate(row)
    ]
    labels = [part for index, label in enumerate(plan.labels) for part in _labels(plan, index, label)]
    legend = _legend(plan.left, plan.top + plan.side + 18)
    return chart(name, title, description, plan.size, *_axes(plan), *labels, *cells, legend)


def _axes(plan: _Plan) -> tuple[str, str]:
    down = text("true class", 0, 0, class_="axis", text_anchor="middle")
    return (
        text("given class", plan.left + plan.side / 2, 12, class_="axis", text_anchor="middle"),
        element("g", down, transform=f"translate(12 {plan.top + plan.side / 2:.1f}) rotate(-90)"),
    )


def _labels(plan: _Plan, index: int, label: str) -> tuple[str, str]:
    """A class's name above its column (slanted if it is long) and to the left of its row."""
    middle = (index + 0.5) * plan.cell
    across = plan.left + middle
    slanting = max(map(len, plan.labels)) > UPRIGHT
    above = text(label, 0, 0, class_="tick", text_anchor="start" if slanting else "middle")
    turn = " rotate(-45)" if slanting else ""
    return (
        element("g", above, transform=f"translate({across:.1f} {plan.top - 8:.1f}){turn}"),
        text(label, plan.left - 8, plan.top + middle + 4, class_="tick", text_anchor="end"),
    )


def _cell(plan: _Plan, down: int, across: int, share: float, words: str) -> str:
    x, y, size, shade = plan.left + across * plan.cell, plan.top + down * plan.cell, plan.cell, level(share)
    box = rect(x + 0.5, y + 0.5, size - 1, size - 1, class_="cell diagonal" if down == across else "cell")
    number = text(cell_number(share), x + size / 2, y + size / 2 + 4, class_="number", text_anchor="middle")
    return element("g", hint(words), box, number if shade else "", class_=f"heat-{shade}")


def cell_number(share: float) -> str:
    """Format a share as percent without a unit, in at most three characters."""
    return f"{100 * share:.1f}" if 100 * share < 0.95 else f"{100 * share:.0f}"


def _legend(x: float, y: float) -> str:
    names = ["0", *(f"{100 * step:g}" for step in STEPS)]
    parts = []
    for shade, name in enumerate(names):
        at = x + 30.0 * shade
        parts.append(element("g", rect(at, y, 30, 12, class_="cell"), class_=f"heat-{shade}"))
        parts.append(text(name, at, y + 26, class_="tick", text_anchor="middle"))
    parts.append(text("100 %", x + 30.0 * len(names) - 8, y + 26, class_="tick"))
    return element("g", *parts)
