"""Labels of texts, tables and vectors: votes, classes, several labels."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data import has_own_ids, read_records, read_texts
from pencil.data.columns import HEAD
from pencil.data.matching import all_ids
from pencil.data.readers.records import fit_records, read_records_alone
from pencil.data.readers.texts import read_texts_alone
from pencil.data.readers.vectors import read_vectors, read_vectors_alone
from pencil.errors import DataError


@pytest.fixture
def write(tmp_path):
    def write(*rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps({"text": f"text {n}"} | row) + "\n" for n, row in enumerate(rows)))
        return path

    return write


def test_lists_of_votes_are_by_class_number(write):
    train = read_texts(write({"label": 1, "votes": [3, 1]}, {"label": 1}, {"label": 0, "votes": []})).train
    assert train.class_names == ("0", "1")
    assert train.labels.values.tolist() == [[0.75, 0.25], [0, 1], [1, 0]]


def test_lists_of_votes_beside_names_make_no_classes(write):
    path = write({"label": "cat"}, {"label": "dog", "votes": [3, 1]})
    with pytest.raises(
        DataError, match=r"rows\.jsonl: the class 'cat' is no position .* 2 counts; write the votes"
    ):
        read_texts(path, on_error="skip")


def test_lists_of_votes_have_one_length(write):
    path = write({"votes": [3, 1]}, {"votes": [0, 1]}, {"votes": [1, 2, 0]})
    with pytest.raises(DataError, match="row 3, column 'votes': 3 counts, where other rows have 2"):
        read_texts(path)
    assert len(read_texts(path, on_error="skip").train) == 2


def test_one_odd_list_of_votes_does_not_leave_out_all_others(write):
    path = write({"votes": [1, 2, 0]}, {"votes": [3, 1]}, {"votes": [0, 1]})
    with pytest.raises(
        DataError, match="the first list of votes has 3 counts, most others have 2; fix or remove"
    ):
        read_texts(path, on_error="skip")


def test_lists_of_votes_follow_the_class_names_of_the_file(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    features = {"text": {"_type": "Value"}, "label": {"_type": "ClassLabel", "names": ["dog", "cat"]}}
    stored = {"huggingface": json.dumps({"info": {"features": features}})}
    columns = {"text": ["a", "b", "c"], "label": [0, 1, 1], "votes": [[3, 1], None, []]}
    table = arrow.table(columns).replace_schema_metadata(stored)
    with arrow.ipc.new_stream(str(tmp_path / "rows.arrow"), table.schema) as file:
        file.write_table(table)
    train = read_texts(tmp_path / "rows.arrow").train
    assert train.class_names == ("dog", "cat")
    assert train.labels.values.tolist() == [[0.75, 0.25], [0, 1], [0, 1]]


@pytest.mark.parametrize("several", [["cat", "dog"], {"cat": 1}])
def test_several_labels_in_one_cell_are_no_class(write, several):
    path = write({"label": "cat"}, {"label": several}, {"label": "dog"})
    with pytest.raises(
        DataError, match=r"row 2, column 'label': holds several labels, .*cat.*; give one label per row"
    ):
        read_texts(path)
    assert read_texts(path, on_error="skip").train.class_names == ("cat", "dog")


def test_a_list_with_one_label_is_that_label_and_an_empty_one_is_none(write):
    path = write({"label": ["cat"]}, {"label": "dog"}, {"label": []})
    with pytest.raises(DataError, match="row 3, column 'label': is empty"):
        read_texts(path)
    assert read_texts(path, on_error="skip").train.class_names == ("cat", "dog")


READERS = {
    "text": (read_texts, read_texts_alone, {"text": "a"}),
    "table": (
        lambda path, **words: read_records(path, encoding=fit_records(path, {}, "skip"), **words),
        lambda path: read_records_alone(path, {}, fit_records(path.with_name("labelled.jsonl"), {})),
        {"size": 1.5},
    ),
    "vectors": (read_vectors, lambda path: read_vectors_alone(path, {}), {"features": [0.5, 1.0]}),
}


@settings(deadline=None, max_examples=60)
@given(kind=st.sampled_from(sorted(READERS)), data=st.data())
def test_each_row_keeps_its_id_and_label_and_numbers_are_no_ids(tmp_path_factory, kind, data):
    """Odd ids or none, rows that are skipped, rows to test on: each row of the result against the file."""
    read, _, content = READERS[kind]
    count = data.draw(st.integers(4, 9))
    odd = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).map(str.strip).filter(bool)
    odd = odd.filter(lambda name: name.lower() != "nan")
    own = data.draw(st.none() | st.lists(odd, min_size=count, max_size=count, unique=True))
    bad = data.draw(st.sets(st.integers(2, count - 1), max_size=count - 2))
    tests = data.draw(st.sets(st.integers(2, count - 1)))
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    lines = [
        content
        | {"size": 7 * row % 5 + 0.5, "label": "" if row in bad else "ab"[row % 2]}
        | {"split": "test" if row in tests else "train"}
        | ({} if own is None else {"id": own[row]})
        for row in range(count)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    splits = read(path, on_error="skip")
    for part, chosen in ((splits.train, set(range(count)) - tests), (splits.test, tests)):
        wanted = sorted(chosen - bad)
        assert (part is None) == (not wanted)
        if part is not None:
            assert list(part.ids) == [str(row) if own is None else own[row] for row in wanted]
            assert [part.class_names[label] for label in part.labels.hard.tolist()] == [
                "ab"[row % 2] for row in wanted
            ]
            assert has_own_ids(part.ids) == (own is not None)
            assert len(all_ids(part.ids)) == count


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("own", [None, ["007", "x"]])
def test_rows_without_labels_have_their_ids_or_numbers(tmp_path, kind, own):
    _, read_alone, content = READERS[kind]
    labelled = [content | {"size": row, "label": "ab"[row]} for row in range(2)]
    (tmp_path / "labelled.jsonl").write_text("".join(json.dumps(line) + "\n" for line in labelled))
    lines = [content | {"size": 1} | ({} if own is None else {"id": own[row]}) for row in range(2)]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_alone(tmp_path / "new.jsonl")
    assert list(found.ids) == (own or ["0", "1"])
    assert has_own_ids(found.ids) == (own is not None)


def test_an_id_that_only_late_rows_have_names_none_of_them(write):
    rows = [{"label": "ab"[row % 2]} for row in range(HEAD + 2)]
    rows[-1]["id"] = "5"
    assert list(read_texts(write(*rows)).train.ids) == [str(row) for row in range(HEAD + 2)]
