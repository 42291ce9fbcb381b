"""Columns of a table as features."""

import numpy as np
import pytest

from pencil.data.encoding import ColumnEncoding, encode, fit, words
from pencil.errors import DataError


def fitted(*cells):
    """The encoding of one column whose cells come in two blocks."""
    half = len(cells) // 2
    blocks = [[[cell] for cell in part] for part in (cells[:half], cells[half:])]
    (found,) = fit(["x"], blocks)
    return found


def features(encoding, *cells):
    return encode([encoding], ["x"], lambda: iter([[[cell] for cell in cells]]), len(cells))


def test_numbers_are_standardised_whatever_the_blocks():
    found = fitted("1", "2", "3.5", "-4e0", "1e3")
    values = np.array([1, 2, 3.5, -4, 1000])
    assert found.mean == pytest.approx(values.mean())
    assert found.scale == pytest.approx(values.std())
    np.testing.assert_allclose(
        features(found, "1", "1e3")[:, 0], ((values - values.mean()) / values.std())[[0, 4]], rtol=1e-6
    )


def test_a_missing_number_is_the_mean_and_has_an_indicator():
    found = fitted("1", "", "3", "NA", "nan", "?")
    assert (found.mean, found.missing, found.size) == (2.0, True, 2)
    assert features(found, "", "3").tolist() == [[0, 1], [1, 0]]


def test_ids_that_read_as_huge_numbers_are_ids():
    """A hash such as 12e200 reads as a number."""
    assert fitted(*[f"{row}e200" for row in range(1, 101)]).ignored == "ids"


@pytest.mark.parametrize("place", [0, 50, 99])
@pytest.mark.parametrize("huge", ["1e200", "-1.7e308"])
def test_one_number_too_large_to_have_a_spread_is_no_error(huge, place):
    cells = [str(row) for row in range(100)]
    cells[place] = huge
    assert fitted(*cells).ignored == "ids"


def test_large_numbers_close_to_each_other_are_numbers():
    found = fitted("1e160", "1.0000001e160", "1.0000003e160")
    assert found.scale == pytest.approx(np.std([1e160, 1.0000001e160, 1.0000003e160]))


def test_a_category_has_a_feature_per_value_and_rare_values_share_one():
    found = fitted("b", "a", "b", "a", "c", "")
    assert found.values == ("a", "b")
    assert features(found, "a", "c", "never seen", "").tolist() == [
        [1, 0, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
    ]


def test_at_most_32_values_have_features():
    found = fitted(*[f"v{row % 40}" for row in range(400)])
    assert (len(found.values), found.other, found.size) == (32, True, 33)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (["7"] * 5, "constant"),
        ([""] * 5, "empty"),
        ([f"{row:03x}-x" for row in range(100)], "ids"),
        ([f"a long note on row {row}" for row in range(100)], "text"),
        ([str(row) for row in range(100)], "row numbers"),
        ([f"{row}.0" for row in range(1, 101)], "row numbers"),
    ],
)
def test_columns_that_are_not_used(cells, reason):
    found = fitted(*cells)
    assert (found.ignored, found.size) == (reason, 0)
    assert f"not used: x ({reason})" in words([found])


def test_what_is_no_number_is_named():
    with pytest.raises(DataError, match="row 2, column 'x': 'two' is not a number"):
        features(ColumnEncoding("x", mean=1.0, scale=2.0), "1", "two")
