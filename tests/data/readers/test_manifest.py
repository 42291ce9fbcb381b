import pytest
import torch

from pencil.data.readers.manifest import read_manifest, read_paths_alone
from pencil.errors import DataError

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "img").mkdir()
    for number, name in enumerate("abcd"):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / "img" / f"{name}.png")
    return tmp_path


@pytest.fixture
def table(folder):
    def write(text):
        path = folder / "table.csv"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def parquet(folder):
    arrow, tables = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def write(columns):
        path = folder / "table.parquet"
        tables.write_table(arrow.table(columns), path)
        return path

    return write


PATHS = [f"img/{name}.png" for name in "abcd"]


def test_names_splits_and_trust(table):
    path = table(
        "path,label,split,trusted\nimg/a.png,dog,train,yes\nimg/b.png,cat,Test,0\n"
        "img/c.png,cat,train,False\nimg/d.png,emu,train,\n"
    )
    splits = read_manifest(path)
    assert splits.train.class_names == ("cat", "dog", "emu")
    assert list(splits.train.ids) == ["img/a.png", "img/c.png", "img/d.png"]
    assert splits.train.labels.values.tolist() == [1, 0, 2]
    assert splits.train.labels.trusted.tolist() == [True, False, False]
    assert splits.test.labels.values.tolist() == [0]
    assert splits.train.inputs.fetch(torch.tensor([2]))[0, 0].unique().tolist() == [3]


def test_numbers_sort_by_value_and_no_split_means_train(table):
    splits = read_manifest(table("path,label\nimg/a.png,10\nimg/b.png,9\nimg/c.png,10\n"))
    assert splits.test is None
    assert splits.train.class_names == ("9", "10")
    assert splits.train.labels.values.tolist() == [1, 0, 1]
    assert splits.train.labels.trusted is None


def test_given_class_names_fix_the_order_and_allow_indices(table):
    path = table("path,label\nimg/a.png,dog\nimg/b.png,1\nimg/c.png,2\n")
    train = read_manifest(path, class_names=["dog", "cat", "0"]).train
    assert train.class_names == ("dog", "cat", "0")
    assert train.labels.values.tolist() == [0, 1, 2]


def test_root_size_and_channels(table, tmp_path_factory):
    path = table("path,label\na.png,dog\n")
    train = read_manifest(path, root=path.parent / "img", size=2, channels=1).train
    assert train.inputs.fetch(torch.tensor([0])).shape == (1, 1, 2, 2)


def test_the_split_to_test_on(table):
    path = table("path,label,split\nimg/a.png,x,train\nimg/b.png,x,val\nimg/c.png,x,test\n")
    with pytest.warns(
        UserWarning, match=r"table\.csv: 1 rows of val are left out, since the split to test on is test"
    ):
        assert list(read_manifest(path).test.ids) == ["img/c.png"]
    assert list(read_manifest(path, test_split="val").test.ids) == ["img/b.png"]
    with pytest.raises(DataError, match="no row has 'valid' in column 'split'; found test, train, val"):
        read_manifest(path, test_split="valid")


def test_votes_in_one_column(table):
    path = table("path,label,votes\nimg/a.png,,cat:3 dog:1\nimg/b.png,emu,\nimg/c.png,emu,a:b:2\n")
    train = read_manifest(path).train
    assert train.class_names == ("a:b", "cat", "dog", "emu")
    assert train.labels.values.tolist() == [[0, 0.75, 0.25, 0], [0, 0, 0, 1], [1, 0, 0, 0]]


def test_votes_in_a_column_per_class(table):
    path = table("path,votes_dog,votes_big cat,votes_emu\nimg/a.png,1,3,0\nimg/b.png,,2,\n")
    train = read_manifest(path).train
    assert train.class_names == ("big cat", "dog", "emu")
    assert train.labels.values.tolist() == [[0.75, 0.25, 0], [1, 0, 0]]


def test_a_trusted_label_goes_before_votes(table):
    path = table("path,label,votes,trusted\nimg/a.png,cat,dog:3,1\nimg/b.png,cat,dog:3,0\n")
    assert read_manifest(path).train.labels.values.tolist() == [[1, 0], [0, 1]]


def test_parquet(parquet):
    columns = {"path": PATHS, "label": [2, 10, 2, 2], "split": ["train"] * 3 + ["test"]}
    splits = read_manifest(parquet({**columns, "trusted": [True, False, None, False]}))
    assert splits.train.class_names == ("2", "10")
    assert splits.train.labels.values.tolist() == [0, 1, 0]
    assert splits.train.labels.trusted.tolist() == [True, False, False]
    assert list(splits.test.ids) == ["img/d.png"]


def test_parquet_votes_as_lists(parquet):
    path = parquet({"path": PATHS, "label": [None, 1, None, 2], "votes": [[0, 1, 3], None, [0, 0, 1], None]})
    train = read_manifest(path).train
    assert train.class_names == ("0", "1", "2")
    assert train.labels.values.tolist() == [[0, 0.25, 0.75], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert read_manifest(path, class_names=["x", "y", "z"]).train.labels.values[0].tolist() == [0, 0.25, 0.75]
    with pytest.raises(DataError, match="row 1, column 'votes': 3 counts for 2 class names"):
        read_manifest(path, class_names=["x", "y"])


def test_problems_with_lists_of_votes_are_told(parquet):
    path = parquet({"path": PATHS, "label": [None] * 4, "votes": [[0, 1], [1], [1, 1], [-1, 2]]})
    with pytest.raises(DataError) as caught:
        read_manifest(path)
    assert "row 2, column 'votes': 1 counts, where other rows have 2" in str(caught.value)
    assert "row 4, column 'votes': -1 for class '0' is not a count" in str(caught.value)


def test_all_problems_are_told_with_row_and_column(table):
    path = table(
        "path,label,split,trusted,votes\n"
        "img/a.png,cat,train,maybe,\n"
        "img/a.png,cat,training,0,\n"
        "img/z.png,,test,0,\n"
        ",cat,train,0,\n"
        "img/b.png,cat,train,0,cat\n"
        "img/c.png,cat,train,0,cat:many\n"
        "img/d.png,cat\n"
    )
    with pytest.raises(DataError) as caught:
        read_manifest(path)
    for problem in (
        "row 1, column 'trusted': 'maybe' is none of true, false",
        "row 2, column 'split': 'training' is none of train, test, val",
        "row 2, column 'path': 'img/a.png' is also in row 1",
        "row 3, column 'label': is empty, and the row has no votes",
        "row 3, column 'path': no file 'img/z.png'",
        "row 4, column 'path': is empty",
        "row 5, column 'votes': 'cat' is not <class>:<count>",
        "row 6, column 'votes': 'many' for class 'cat' is not a count",
        "row 7, column 'path': the row has more or fewer cells",
    ):
        assert problem in str(caught.value)


def test_many_problems_are_cut_short(table):
    with pytest.raises(DataError, match=r"and 20 more$"):
        read_manifest(table("path,label\n" + "".join(f"{row},\n" for row in range(15))))


def test_labels_outside_the_class_names_are_told(table):
    path = table("path,label,votes\nimg/a.png,cow,\nimg/b.png,2,\nimg/c.png,,dog:1 pig:2\n")
    with pytest.raises(DataError) as caught:
        read_manifest(path, class_names=["cat", "dog"])
    for problem in (
        "row 1, column 'label': 'cow'",
        "row 2, column 'label': '2'",
        "row 3, column 'votes': 'pig'",
    ):
        assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found the columns none, and none of image files"),
        ("path,label\n", "the table has no rows"),
        ("stem,label\nimg/a.png,x\n", "found the columns stem, label, and none of image files"),
        ("path\nimg/a.png\n", "found the columns path, and none of labels"),
        ("path,votes,votes_x\nimg/a.png,x:1,1\n", "votes are given twice"),
        ("path,label,split\nimg/a.png,x,test\n", "no row has 'train' in column 'split'; found test"),
        ('path,label\n"img/a.png,x\n', "cannot be read"),
    ],
)
def test_tables_that_cannot_be_used(table, text, message):
    with pytest.raises(DataError, match=message):
        read_manifest(table(text))


def test_other_and_broken_files(folder):
    (folder / "table.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"use .csv, .tsv, .jsonl, .parquet or .arrow"):
        read_manifest(folder / "table.xlsx")
    with pytest.raises(DataError, match="cannot be read"):
        read_manifest(folder / "none.csv")


def test_a_broken_parquet_file(folder):
    pytest.importorskip("pyarrow")
    (folder / "table.parquet").write_text("not parquet")
    with pytest.raises(DataError, match="cannot be read"):
        read_manifest(folder / "table.parquet")


def test_a_table_of_paths_alone_has_no_labels(table):
    found = read_paths_alone(table("path,note\nimg/a.png,new\nimg/c.png,new\n"))
    assert list(found.ids) == ["img/a.png", "img/c.png"]
    assert found.inputs.fetch(torch.tensor([1]))[0, 0, 0, 0] == 2
    for columns in ("path,label", "path,votes", "path,votes_cat", "stem,note"):
        assert read_paths_alone(table(f"{columns}\nimg/a.png,1\n")) is None
    with pytest.raises(DataError, match=r"row 1, column 'path': no file 'z\.png'"):
        read_paths_alone(table("path,note\nz.png,\n"))


# tables from elsewhere


@pytest.mark.parametrize(
    ("encoding", "divider"),
    [
        ("utf-8-sig", ","),
        ("utf-8", ";"),
        ("utf-8", "\t"),
        ("utf-16", "\t"),
        ("utf-16-le", ","),
        ("utf-32", ";"),
    ],
)
@pytest.mark.parametrize(
    "header", [("path", "label"), ("Path", "LABEL"), ("filename", "class"), (" image ", "Target")]
)
def test_csv_as_spreadsheets_write_it(tmp_path, table, encoding, divider, header):
    path = table("")
    lines = [header, ("img/a.png", "kätzchen"), ("img/b.png", "x, y; z")]
    text = "\n".join(divider.join(f'"{cell}"' for cell in line) for line in lines)
    path.write_bytes(text.encode(encoding))
    train = read_manifest(path).train
    assert train.class_names == ("kätzchen", "x, y; z")
    assert list(train.ids) == ["img/a.png", "img/b.png"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,image,label\na,b,c\n", "file and image could all be the path; call one of them path"),
        ("path,class,target\na,b,c\n", "class and target could all be the label"),
        ("path,label,label\na,b,c\n", "two columns have the name 'label'"),
        ("x1,x2,y\n1,2,3\n", r"found the columns x1, x2, y, and none of image files.*data.kind=table"),
        ("path,label\n../out.png,x\n", r"row 1, column 'path': '../out.png' is outside .*pencil --allow"),
        ("path,label\n/etc/hostname,x\n", r"'/etc/hostname' is outside .*; .*pencil --allow /etc COMMAND"),
        ("path,label\nimg\\a.png,x\n", r"no file .*; paths are written with /"),
        ("path,label\nC:a.png,x\n", r"row 1, column 'path': no file 'C:a.png'"),
    ],
)
def test_tables_that_are_ambiguous_or_lead_elsewhere(table, text, message):
    with pytest.raises(DataError, match=message):
        read_manifest(table(text))


def test_a_canonical_name_wins_over_others(table):
    assert read_manifest(table("path,label,class\nimg/a.png,x,9\nimg/b.png,y,8\n")).train.class_names == (
        "x",
        "y",
    )


def test_files_elsewhere_on_the_word_of_the_caller(table, tmp_path):
    path = table(f"path,label\n{tmp_path}/img/a.png,x\n{tmp_path}/img/b.png,y\n")
    assert len(read_manifest(path).train) == 2  # below the table's own folder
    (tmp_path / "tables").mkdir()
    moved = path.rename(tmp_path / "tables" / "t.csv")
    with pytest.raises(DataError, match="is outside"):
        read_manifest(moved)
    assert len(read_manifest(moved, allow=[str(tmp_path / "img")]).train) == 2


def test_rows_with_something_wrong_are_left_out_on_request(table):
    path = table("path,label\nimg/a.png,x\nimg/none.png,x\nimg/b.png,\nimg/b.png,y,z\nimg/b.png,y\n")
    splits = read_manifest(path, on_error="skip")
    assert list(splits.train.ids) == ["img/a.png"]
    assert list(splits.skipped_rows) == ["row 2", "row 3", "row 4", "row 5"]
    assert "row 5, column 'path': 'img/b.png' is also in row 3" in splits.skipped_rows["row 5"]


def test_a_table_with_nothing_right_is_refused_even_so(table):
    with pytest.raises(DataError, match="fix the table"):
        read_manifest(table("path,label\nimg/none.png,x\n"), on_error="skip")
