"""Whole charts: XML, with every value where it belongs."""

import xml.etree.ElementTree as ElementTree

import pytest

from pencil.report.charts import confidence_chart, heat_chart, line_chart, verdict_chart
from pencil.report.charts.heat import STEPS, cell_number, level
from pencil.report.curves import Curve, Span

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "</title><script>alert(1)</script>"


def parsed(chart):
    root = ElementTree.fromstring(chart)
    assert root.get("role") == "img"
    ids = {part.get("id") for part in root.iter() if part.get("id")}
    assert set(root.get("aria-labelledby").split()) <= ids
    assert not list(root.iter(f"{SVG}script"))
    return root


def texts(root):
    return [part.text for part in root.iter(f"{SVG}text")]


def test_a_line_chart_names_phases_and_curves_and_draws_every_point():
    curves = [Curve("up", [(1, 0.0), (2, 0.5), (4, 1.0)]), Curve(EVIL, [(4, 0.25)])]
    spans = [Span("backbone", 1, 2), Span("correction", 3, 4)]
    root = parsed(line_chart("c", EVIL, "words", curves, spans, show=lambda value: f"{value:g}", high=1.0))
    assert {"backbone", "correction", "up 1", f"{EVIL} 0.25"} <= set(texts(root))
    first, second = root.iter(f"{SVG}polyline")
    points = [tuple(map(float, point.split(","))) for point in first.get("points").split()]
    assert len(points) == 3
    xs, ys = zip(*points, strict=True)
    assert (xs[2] - xs[1]) == pytest.approx(2 * (xs[1] - xs[0]), abs=0.2)
    assert (ys[0] - ys[1]) == pytest.approx(ys[1] - ys[2], abs=0.2)
    assert len(second.get("points").split()) == 1


def test_curves_differ_in_more_than_colour():
    curves = [Curve(str(index), [(1, 0.1 * index), (2, 0.2)]) for index in range(4)]
    root = parsed(line_chart("c", "t", "d", curves, [Span("backbone", 1, 2)], show=str))
    groups = [part for part in root.iter(f"{SVG}g") if (part.get("class") or "").startswith("series-")]
    assert {part.get("class") for part in groups} == {f"series-{index}" for index in range(4)}
    tags = {
        part.get("class"): [child.tag for child in part if child.get("class") == "marker"] for part in groups
    }
    assert tags["series-0"] != tags["series-1"]


@pytest.mark.parametrize("curves", [[], [Curve("nothing", [])]])
def test_a_line_chart_of_nothing_is_a_chart(curves):
    assert parsed(line_chart("c", "t", "d", curves, [Span("backbone", 1, 1)], show=str)) is not None


def test_a_heat_map_has_a_cell_and_a_number_for_every_share():
    shares = [[0.9, 0.1, 0.0], [0.004, 0.996, 0.0], [0.0, 0.0, 1.0]]
    names = ["a", EVIL, "a rather long name of a class that is cut"]
    root = parsed(heat_chart("h", "t", "d", names, shares))
    cells = [part for part in root.iter(f"{SVG}rect") if "cell" in part.get("class")]
    assert len(cells) == 9 + len(STEPS) + 1
    numbers = [part.text for part in root.iter(f"{SVG}text") if part.get("class") == "number"]
    assert numbers == ["90", "10", "0.4", "100", "100"]
    hints = [part.text for part in root.iter(f"{SVG}title")]
    assert f"{EVIL} labelled a: 0.4\u00a0%" in hints


def test_shades_are_ordered():
    shades = [level(share / 1000) for share in range(1001)]
    assert shades == sorted(shades)
    assert (shades[0], shades[-1]) == (0, 9)
    assert max(len(cell_number(share / 1000)) for share in range(2, 1001)) <= 3


@pytest.mark.parametrize("totals", [[3, 1, 0], [0, 0, 0], [0, 0, 7]])
def test_the_verdicts_fill_the_bar(totals):
    root = parsed(verdict_chart("v", "t", "d", totals, legend=False))
    bars = [part for part in root.iter(f"{SVG}rect") if (part.get("class") or "").startswith("verdict-")]
    widths = {part.get("class"): float(part.get("width")) for part in bars}
    assert widths == {
        f"verdict-{index}": pytest.approx(760 * total / sum(totals) - 2, abs=0.01)
        for index, total in enumerate(totals)
        if total
    }


def test_the_verdicts_are_told_below_the_bar():
    assert "3" in texts(parsed(verdict_chart("v", "t", "d", [3, 1, 0])))


def test_the_histogram_draws_every_bin_that_holds_something():
    histogram = [[0, 0, 5], [0, 2, 1], [4, 0, 0]]
    root = parsed(confidence_chart("b", "t", "d", histogram))
    bars = [part for part in root.iter(f"{SVG}rect") if (part.get("class") or "").startswith("verdict-")]
    heights = [float(part.get("height")) for part in bars][:4]
    assert [height / heights[0] for height in heights] == pytest.approx([1, 2 / 4, 5 / 4, 1 / 4], abs=0.01)
