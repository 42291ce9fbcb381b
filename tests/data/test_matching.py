"""A row is matched with the row that it is, or with none."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from pencil.data import NEW, RowNumbers, has_own_ids, match_rows
from pencil.data.examples import SubsetNames

ROWS = st.lists(st.tuples(st.text("ab01", max_size=3), st.integers(0, 5)), max_size=12)


def _match(now, known, own):
    ids, keys = [name for name, _ in now], torch.tensor([key for _, key in now], dtype=torch.int64)
    before, seen = [name for name, _ in known], torch.tensor([key for _, key in known], dtype=torch.int64)
    return match_rows(ids, before, keys=keys, known_keys=seen, own=own, seen=seen).tolist()


@given(ROWS, ROWS)
def test_rows_with_ids_match_the_same_id_with_the_same_content(now, known):
    anew = not {key for _, key in now} & {key for _, key in known}
    for (name, key), place in zip(now, _match(now, known, own=True), strict=True):
        if place != NEW:
            assert known[place][0] == name
            assert anew or known[place][1] == key
        else:
            alone = sum(other == name for other, _ in now) == 1 == sum(other == name for other, _ in known)
            assert not (alone and ((name, key) in known or anew))


@given(ROWS, ROWS)
def test_row_numbers_match_content_alone(now, known):
    now = [(str(place), key) for place, (_, key) in enumerate(now)]
    known = [(str(place), key) for place, (_, key) in enumerate(known)]
    found = _match(now, known, own=False)
    for (_, key), place in zip(now, found, strict=True):
        once = sum(other == key for _, other in now) == 1 == sum(other == key for _, other in known)
        assert place == NEW or known[place][1] == key
        assert not once or place != NEW


@given(st.permutations(range(9)), st.integers(0, 9))
def test_moved_rows_without_ids_are_found_again(order, extra):
    keys = torch.arange(9)
    moved = torch.cat([torch.arange(100, 100 + extra), keys[list(order)]])
    ids = RowNumbers(len(moved))
    found = match_rows(ids, RowNumbers(9), keys=moved, known_keys=keys, own=False)
    assert found.tolist() == [NEW] * extra + list(order)


def test_row_numbers_without_contents_match_nothing():
    assert match_rows(["0", "1"], ["0", "1"], own=False).tolist() == [NEW, NEW]
    assert match_rows(["0", "1"], ["1"], own=True).tolist() == [NEW, 0]


def test_generated_ids_stay_marked_in_parts():
    numbers = SubsetNames(SubsetNames(RowNumbers(5), torch.tensor([4, 2, 1])), torch.tensor([1]))
    assert not has_own_ids(numbers)
    assert has_own_ids(SubsetNames(["a", "b"], torch.tensor([0])))
