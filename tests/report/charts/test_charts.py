"""Whole charts: XML, with every value where it belongs."""

import xml.etree.ElementTree as ElementTree

import pytest

from pencil.estimates import Interval
from pencil.report.charts import (
    Point,
    heat_chart,
    histogram_chart,
    interval_chart,
    line_chart,
    reliability_chart,
    verdict_chart,
)
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
    root = parsed(heat_chart("h", "t", "d", names, shares, [["words"] * 3] * 3))
    cells = [part for part in root.iter(f"{SVG}rect") if "cell" in part.get("class")]
    assert len(cells) == 9 + len(STEPS) + 1
    numbers = [part.text for part in root.iter(f"{SVG}text") if part.get("class") == "number"]
    assert numbers == ["90", "10", "0.4", "100", "100"]
    hints = [part.text for part in root.iter(f"{SVG}title")]
    assert f"{EVIL} labelled a: words" in hints


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
    root = parsed(histogram_chart("b", "t", "d", histogram))
    bars = [part for part in root.iter(f"{SVG}rect") if (part.get("class") or "").startswith("verdict-")]
    heights = [float(part.get("height")) for part in bars][:4]
    assert [height / heights[0] for height in heights] == pytest.approx([1, 2 / 4, 5 / 4, 1 / 4], abs=0.01)


def test_intervals_are_drawn_to_scale_with_the_truth_beside_them():
    shares = [Interval(0.2, 0.1, 0.4), Interval(0.0, 0.0, 0.0)]
    root = parsed(interval_chart("i", "t", "d", ["a", EVIL], shares, [0.3, 0.0]))
    reach, *_ = [part for part in root.iter(f"{SVG}line") if part.get("class") == "reach"]
    left, right = float(reach.get("x1")), float(reach.get("x2"))
    (value, *_) = [float(part.get("cx")) for part in root.iter(f"{SVG}circle")]
    assert (value - left) / (right - left) == pytest.approx(1 / 3, abs=0.01)
    hints = [part.text for part in root.iter(f"{SVG}title")]
    assert "a: 20.0\u00a0% (10.0 to 40.0\u00a0%), in truth 30.0\u00a0%" in hints
    assert "true share" in texts(root)
    assert "true share" not in texts(parsed(interval_chart("i", "t", "d", ["a", EVIL], shares)))
    assert parsed(interval_chart("i", "t", "d", [], [])) is not None


def test_a_reliable_probability_lies_on_the_diagonal():
    points = [Point(0.25, Interval(0.25, 0.2, 0.3), 100), Point(0.75, Interval(0.5, 0.4, 0.6), 10)]
    root = parsed(reliability_chart("r", "t", "d", points))
    (ideal,) = [part for part in root.iter(f"{SVG}line") if "ideal" in part.get("class")]
    x1, y1, x2, y2 = (float(ideal.get(name)) for name in ("x1", "y1", "x2", "y2"))
    on, below = [(float(part.get("cx")), float(part.get("cy"))) for part in root.iter(f"{SVG}circle")]
    assert on == pytest.approx((x1 + 0.25 * (x2 - x1), y1 + 0.25 * (y2 - y1)), abs=0.02)
    assert below[1] > y1 + 0.75 * (y2 - y1)
