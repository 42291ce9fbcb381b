"""Files, folders and rows that are exchanged: no command takes one for another."""

import pytest

pytestmark = pytest.mark.slow


def test_mix_ups_come_to_nothing(imported):
    with imported("faults.wrong_rows") as wrong_rows:
        found = wrong_rows.measure(quick=True)
    assert found["mix_ups"] == found["mix_ups_held"] > 0
