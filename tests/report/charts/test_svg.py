"""Parts of charts."""

import xml.etree.ElementTree as ElementTree

import pytest

from pencil.report.charts.svg import element, spread, standalone, text, ticks


def test_text_and_attributes_are_escaped():
    made = element("g", text("<script>&", 1, 2.5, class_='a" onload="x'), stroke_width=1.25)
    parsed = ElementTree.fromstring(made)
    assert parsed.get("stroke-width") == "1.25"
    assert parsed[0].text == "<script>&"
    assert parsed[0].get("class") == 'a" onload="x'


@pytest.mark.parametrize(
    ("high", "expected"),
    [
        (0, [0, 1]),
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (2234, [0, 500, 1000, 1500, 2000, 2500]),
        (3, [0, 1, 2, 3]),
    ],
)
def test_ticks_are_round_and_reach_the_top(high, expected):
    assert ticks(high) == pytest.approx(expected)


def test_labels_keep_their_distance_order_and_bounds():
    assert spread([10, 11, 50], 8, 0, 100) == [10, 18, 50]
    assert spread([99, 98, 97], 10, 0, 100) == [100, 90, 80]
    assert spread([], 10, 0, 100) == []


def test_a_chart_alone_is_xml_with_a_ground_and_the_light_colours():
    light, dark = ":root { --surface: #ffffff; --ink: #112233; }", "@media x { :root { --ink: #ffffff; } }"
    style = f"{light}\n{dark}\n.chart > b {{ fill: var(--ink); }}"
    file = standalone('<svg xmlns="http://www.w3.org/2000/svg"><g/></svg>', style)
    root = ElementTree.fromstring(file.encode())
    assert root[0].text.strip() == ".chart > b { fill: #112233; }"
    assert root[1].get("fill") == "#ffffff"
    assert root[2].tag.endswith("g")
