"""Tables of numbers and categories."""

import json

import pytest
import torch

from pencil.data import Record, read_records, read_records_alone, row_keys, shown
from pencil.data.encoding import ColumnEncoding
from pencil.data.readers.records import fit_records
from pencil.errors import DataError

TABLE = (
    "id;Age;town;Split;Target\na;30;Oslo;train;x\nb;50;Lima;train;y\nc;40;Oslo;train;x\nd;90;Rome;test;y\n"
)


@pytest.fixture
def write(tmp_path):
    def write(text, name="t.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_rows_have_features_for_the_network_and_cells_for_people(write):
    splits = read_records(write(TABLE))
    train, test = splits.train, splits.test
    assert (list(train.ids), list(test.ids), train.class_names) == (["a", "b", "c"], ["d"], ("x", "y"))
    assert shown(test.inputs, 0) == Record({"Age": "90", "town": "Rome"})
    # The mean and the deviation of the rows to train on, 40 and 8.165; Lima is rare and Rome is unknown.
    values = train.inputs.fetch(torch.arange(3))
    torch.testing.assert_close(
        values, torch.tensor([[-1.2247, 1, 0], [1.2247, 0, 1], [0, 1, 0]]), atol=1e-3, rtol=0
    )
    torch.testing.assert_close(
        test.inputs.fetch(torch.tensor([0])), torch.tensor([[6.1237, 0, 1]]), atol=1e-3, rtol=0
    )


def test_what_was_fitted_before_is_used(write):
    path = write(TABLE)
    known = (ColumnEncoding("Age", mean=30.0, scale=10.0), ColumnEncoding("town", ignored="ids"))
    train = read_records(path, encoding=known).train
    assert train.inputs.fetch(torch.arange(3)).tolist() == [[0.0], [2.0], [1.0]]
    assert fit_records(path, {}) != known


def test_other_formats_have_the_same_rows(write, tmp_path):
    rows = [{"Age": 30, "town": "Oslo", "label": "x"}, {"Age": 50.5, "town": None, "label": "y"}]
    lines = read_records(write("\n".join(map(json.dumps, rows)), "t.jsonl")).train
    assert shown(lines.inputs, 1) == Record({"Age": "50.5", "town": ""})
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    again = read_records(tmp_path / "t.parquet").train
    assert torch.equal(again.inputs.values[:, 0], lines.inputs.values[:, 0])


def test_a_changed_cell_changes_the_checksum(write):
    before = read_records(write(TABLE)).train.inputs.base.checksum
    assert read_records(write(TABLE.replace("30", "31"))).train.inputs.base.checksum != before


def test_a_row_is_made_of_its_columns_and_cells(write):
    tables = [TABLE, TABLE.replace("Age;town", "town;Age"), TABLE.replace("Lima", "Bonn")]
    before, renamed, changed = (row_keys(read_records(write(table)).train.inputs) for table in tables)
    assert (before == renamed).tolist() == [False, False, False]
    assert (before == changed).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "5.1,3.5\n4.9,3.0\n",
            r"none of labels; name it: --set data.columns.label=NAME \(the first line must",
        ),
        ("a,label\n1,x\n1,y\n", r"no column has numbers or categories to learn from: a \(constant\)"),
        ("label\nx\ny\n", "no column has numbers or categories"),
        ("a,label\n1,\n2,y\n", "row 1, column 'label': is empty"),
        ("a,label\n1,None\n9,nan\n3,x\n", "row 2, column 'label': is empty"),
    ],
)
def test_mistakes_are_named(write, text, message):
    with pytest.raises(DataError, match=message):
        read_records(write(text))


def test_rows_without_labels_need_what_was_fitted(write):
    known = (ColumnEncoding("Age", mean=30.0, scale=10.0),)
    path = write("town,Age\nOslo,40\n")
    rows = read_records_alone(path, {"label": "Target"}, known)
    assert rows.inputs.fetch(torch.tensor([0])).tolist() == [[1.0]]
    assert read_records_alone(path, {}, ()) is None
    assert read_records_alone(write(TABLE), {}, known) is None
    with pytest.raises(
        DataError, match="row 1, column 'town': the row has more or fewer cells than the header"
    ):
        read_records_alone(write("town,Age\nOslo, Norway,40\n"), {"label": "Target"}, known)
