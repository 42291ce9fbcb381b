"""Names of strangers, shown: what a terminal or a spreadsheet would obey is escaped, all else stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pencil.escape import printable, spreadsheet_cell


@given(st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs"))))
def test_plain_text_stays(text):
    assert printable(text) == text


@given(st.text(st.characters(exclude_characters="\n")))
def test_what_is_left_can_be_written_and_commands_nothing(text):
    shown = printable(text)
    shown.encode("utf-8")
    assert not any(ord(mark) < 32 or 127 <= ord(mark) < 160 for mark in shown)


def test_lines_stay_lines():
    assert printable("a\r\nb\x1b[0m") == "a\\u000d\nb\\u001b[0m"


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", "\uff1d1"])
def test_formulas_become_text(cell):
    assert spreadsheet_cell(cell) == "'" + printable(cell)


@pytest.mark.parametrize("cell", ["", "a=1", "1-2", "x@y", "żółć", " =1"])
def test_other_cells_stay(cell):
    assert spreadsheet_cell(cell) == cell
