"""Strangers' text and figures as the report shows them."""

import pytest

from pencil.report.text import SPACE, clipped, count, listed, percent, sentence, shown


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
