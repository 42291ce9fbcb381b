"""Strangers' text and figures as the report shows them."""

import pytest

from pencil.escape import clipped, shown
from pencil.estimates import Interval
from pencil.report.text import (
    SPACE,
    between,
    count,
    listed,
    percent,
    seem_wrong,
    sentence,
    share_of,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("two\nlines\x00", "two\\u000alines\\u0000"),
        ("turn \u202e back", "turn \\u202e back"),
        (b"\xff.png".decode("utf-8", "surrogateescape"), "\ufffd.png"),
        ("żółć", "żółć"),
    ],
)
def test_any_text_becomes_one_line_that_can_be_written(text, expected):
    assert shown(text) == expected
    assert shown(text).encode("utf-8")


def test_long_text_keeps_both_ends():
    text = "start" + 500 * "x" + "end"
    assert len(shown(text, 50)) == 50
    assert clipped(text, 50).startswith("start")
    assert clipped(text, 50).endswith("end")
    assert clipped("abc", 3) == "abc"
    assert [len(clipped("abcdefgh", limit)) for limit in range(1, 9)] == list(range(1, 9))


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0, "0.0 %"), (0.0004, "< 0.1 %"), (0.664, "66.4 %"), (0.9999, "> 99.9 %"), (1, "100.0 %")],
)
def test_a_share_is_never_rounded_to_nothing_or_everything(share, expected):
    assert percent(share).replace(SPACE, " ") == expected


def test_words():
    assert count(1, "class", "classes") == "1 class"
    assert count(2000, "label") == "2,000 labels"
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert sentence("labels drifted") == "Labels drifted."
    assert sentence("Done.") == "Done."


@pytest.mark.parametrize(
    ("interval", "rows", "words"),
    [
        ((0.2685, 0.2556, 0.2833), 5400, "about 1,450 of 5,400 labels seem wrong (1,380 to 1,530)"),
        ((0.2, 0.1, 0.3), 10, "about 2 of 10 labels seem wrong (1 to 3)"),
        ((0.1, 0.1, 0.1), 10, "about 1 of 10 labels seems wrong (1 to 1)"),
        ((0.004, 0.0, 0.05), 100, "hardly any of 100 labels seems wrong (0 to 5)"),
        ((0.0, 0.0, 0.0), 100, "none of 100 labels seems wrong"),
        ((0.2123, 0.153, 1.0), 5000, "about 1,060 of 5,000 labels seem wrong (at least 760)"),
        ((0.2, 0.0, 1.0), 10, "about 2 of 10 labels seem wrong"),
        ((0.98, 0.9, 1.0), 1, "about 1 of 1 label seems wrong"),
        (
            (0.123456, 0.1234, 0.1235),
            3_000_000,
            "about 370,370 of 3,000,000 labels seem wrong (370,200 to 370,500)",
        ),
    ],
)
def test_numbers_have_the_digits_that_their_interval_justifies(interval, rows, words):
    assert seem_wrong(Interval(*interval), rows) == words


def test_bounds_share_one_unit():
    assert between(Interval(0.2, 0.182, 0.222)) == "18.2 to 22.2\u00a0%"
    assert between(Interval(0.2, 0.182, 1.0)) == "at least 18.2\u00a0%"
    assert between(Interval(0.2, 0.0, 1.0)) == "bounds unknown"
    assert share_of(0.1) == "10\u00a0%"
    assert share_of(0.025) == "2.5\u00a0%"
