"""Colours by the numbers: text can be read, shades are in order, in the light and in the dark."""

import re
from itertools import pairwise, product

import pytest

from pencil.report.figures import STYLE


def palettes():
    """Light and dark: colours by name."""
    light, _, rest = STYLE.read_text().partition("@media")
    dark = rest[: rest.index("\n.chart")]
    found = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in (light, dark)]
    assert set(found[0]) == set(found[1])
    return {"light": found[0], "dark": found[1]}


def luminance(colour):
    """WCAG 2.2, relative luminance."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.fixture(params=["light", "dark"])
def colours(request):
    return palettes()[request.param]


def test_text_stands_out_from_what_it_stands_on(colours):
    for text, ground in product(("ink", "soft", "accent"), ("paper", "surface", "band-0", "band-1")):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["warn"], colours["warn-paper"]) >= 4.5
    assert contrast(colours["accent-ink"], colours["accent"]) >= 4.5


def test_numbers_stand_out_from_their_cells(colours):
    for level in range(10):
        ink = colours["heat-ink-low" if level <= 5 else "heat-ink-high"]
        assert contrast(ink, colours[f"heat-{level}"]) >= 4.5, level


def test_shades_go_one_way(colours):
    steps = [luminance(colours[f"heat-{level}"]) for level in range(10)]
    signs = {following > level for level, following in pairwise(steps)}
    assert len(signs) == 1


def test_curves_and_verdicts_stand_out(colours):
    for series, ground in product(range(4), ("surface", "band-0", "band-1")):
        assert contrast(colours[f"series-{series}"], colours[ground]) >= 3, (series, ground)
    for verdict in (1, 2):
        assert contrast(colours[f"texture-{verdict}"], colours[f"verdict-{verdict}"]) >= 2
