"""Images and texts attached to rows of features."""

import json
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data import Beside, Examples, RowNumbers, TensorInputs, attach, shown
from pencil.data.examples import SubsetNames
from pencil.data.pixels import encode_png
from pencil.errors import DataError
from pencil.places import allowing
from pencil.stores import GivenLabels

pytest.importorskip("PIL")


def rows(ids):
    labels = GivenLabels.of(torch.arange(len(ids)) % 2, 2)
    return Examples(TensorInputs(torch.zeros(len(ids), 7)), labels, ("a", "b"), ids)


def picture(file, red):
    """A small image that can be told from others by its first value."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(encode_png(torch.full((3, 2, 2), red, dtype=torch.uint8)))


def folder_of(place, names):
    for number, name in enumerate(names):
        picture(place / name, number)
    return Beside("images", place)


def reds(examples):
    """The first value of each row's image; None for a row without one."""
    found = [shown(examples.inputs, row) for row in range(len(examples))]
    return [None if each is None else int(each.pixels[0, 0, 0]) for each in found]


def texts_of(examples):
    return [getattr(shown(examples.inputs, row), "text", None) for row in range(len(examples))]


@pytest.mark.parametrize(
    ("ids", "names", "way"),
    [
        (["x/b.png", "x/a.png"], ["x/a.png", "x/b.png"], "path"),
        (["x/b", "x/a"], ["x/a.png", "x/b.png"], "path without ending"),
        (["b.png", "a.png"], ["x/a.png", "y/b.png"], "file name"),
        (["b", "a"], ["x/a.png", "y/b.jpg"], "file name without ending"),
        (["1", "0"], ["00000.png", "00001.png"], "number"),
    ],
)
def test_files_are_matched_by_their_names(tmp_path, ids, names, way):
    found = attach(rows(ids), ids, folder_of(tmp_path, names))
    assert found.inputs.matched_by == way
    assert reds(found) == [1, 0]
    assert found.inputs.fetch(torch.tensor([1])).shape == (1, 7)


def test_a_part_of_the_rows_keeps_its_images(tmp_path):
    data = rows(RowNumbers(4))
    beside = folder_of(tmp_path, ["0.png", "1.png", "2.png", "3.png"])
    assert reds(attach(data.subset(torch.tensor([3, 1])), data.ids, beside)) == [3, 1]


def test_without_ids_as_many_files_as_rows_are_matched_by_order(tmp_path):
    data = rows(RowNumbers(3))
    beside = folder_of(tmp_path, ["cat/x.png", "cat/y.png", "cat-like/a.png"])
    found = attach(data, data.ids, beside)
    assert found.inputs.words == f"--images {tmp_path}: 3 of 3 rows match by the order of the rows"
    assert reds(found) == [0, 1, 2]  # by folder, then by name, as image folders are read


def test_files_that_are_counted_from_1_are_refused(tmp_path):
    data = rows(RowNumbers(4))
    beside = folder_of(tmp_path, ["1.png", "2.png", "3.png", "4.png"])
    with pytest.raises(
        DataError, match=r"--images .*: 3 of 4 rows match by id \(rows: '0'.*images: '1.png'.*CSV"
    ):
        attach(data, data.ids, beside)


def numbered_files(place, numbers, name="{:04}.png"):
    """Images whose colour is their number."""
    for number in numbers:
        picture(place / name.format(number), number)
    return Beside("images", place)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_rows_with_numbers_show_their_own_image_or_none(tmp_path_factory, data):
    """Counted from 0 or 1, rows skipped or to test on, files missing: what is accepted is right in every row."""
    place, total = tmp_path_factory.mktemp("files"), data.draw(st.integers(2, 6))
    first = data.draw(st.integers(0, 1))
    train = data.draw(st.lists(st.integers(0, total - 1), min_size=1, unique=True).map(sorted))
    left_out = data.draw(st.sets(st.integers(0, total - 1), max_size=1))
    whole = rows(SubsetNames(RowNumbers(total), torch.arange(total))).subset(torch.tensor(train))
    for row in set(range(total)) - left_out:
        picture(place / f"{row + first:03}.png", row)
    try:
        found = reds(attach(whole, whole.ids, Beside("images", place)))
    except DataError:
        assert first or left_out
        return
    assert found == train


@pytest.mark.parametrize("train", [[0, 1, 2, 4, 5], [1, 2, 3, 4, 5]])
def test_files_counted_from_1_do_not_match_by_accident(tmp_path, train):
    data = rows(RowNumbers(6)).subset(torch.tensor(train))
    for number, count in enumerate((5, 6, 7)):
        with pytest.raises(DataError, match=r"--images .*from 0"):
            attach(data, data.ids, numbered_files(tmp_path / str(number), range(1, count + 1)))
    lines = "".join(f"{row + 1},text {row}\n" for row in range(6))
    (tmp_path / "t.csv").write_text("id,text\n" + lines)
    with pytest.raises(DataError, match=r"--texts .*from 0"):
        attach(data, data.ids, Beside("texts", tmp_path / "t.csv"))
    found = attach(data, data.ids, numbered_files(tmp_path / "all", range(6)))
    assert reds(found) == train


def test_order_counts_all_rows_of_the_data_not_only_those_to_train_on(tmp_path):
    data = rows(RowNumbers(4)).subset(torch.tensor([0, 2, 3]))
    file = tmp_path / "texts.txt"
    file.write_text("a\nb\nc\nd\n")
    assert texts_of(attach(data, data.ids, Beside("texts", file))) == ["a", "c", "d"]
    file.write_text("a\nc\nd\n")
    with pytest.raises(DataError, match="3 texts cannot be matched with 4 rows by order"):
        attach(data, data.ids, Beside("texts", file))
    twice = rows(["x", "y", "x"])
    with pytest.raises(DataError, match="by order"):
        attach(twice, twice.ids, Beside("texts", file))


def test_files_that_sort_otherwise_than_people_count_are_not_matched_by_order(tmp_path):
    data = rows(RowNumbers(12))
    with pytest.raises(DataError, match="by order"):
        attach(data, data.ids, numbered_files(tmp_path / "bare", range(1, 13), "img{}.png"))
    found = attach(data, data.ids, numbered_files(tmp_path / "padded", range(1, 13), "img{:02}.png"))
    assert reds(found) == list(range(1, 13))


def test_ids_that_are_numbers_match_all_or_by_the_id_of_a_table(tmp_path):
    own = rows(["11", "12", "13", "14"])
    folder = numbered_files(tmp_path, [11, 12, 14])
    with pytest.raises(DataError, match="3 of 4 rows"):
        attach(own, own.ids, folder)
    (tmp_path / "t.csv").write_text("id,path\n" + "".join(f"{n},{n:04}.png\n" for n in (11, 12, 14)))
    assert reds(attach(own, own.ids, Beside("images", tmp_path / "t.csv"))) == [11, 12, None, 14]
    counted = rows(["0", "1", "2", "3"])  # such as features that pencil embed wrote
    with pytest.raises(DataError, match="by id"):
        attach(counted, counted.ids, numbered_files(tmp_path / "from 1", range(1, 5)))


def test_a_few_missing_files_are_no_obstacle_but_most_are(tmp_path):
    ids = ["a", "b", "c", "d"]
    found = attach(rows(ids), ids, folder_of(tmp_path / "most", ["a.png", "b.png", "d.png"]))
    assert (reds(found), found.inputs.missing) == ([0, 1, None, 2], 1)
    with pytest.raises(
        DataError, match=r"1 of 4 rows match by id .* 1 images cannot be matched with 4 rows by order"
    ):
        attach(rows(ids), ids, folder_of(tmp_path / "few", ["b.png"]))


def test_names_that_match_a_few_rows_are_not_overruled_by_order(tmp_path):
    ids = [f"{name}.png" for name in "abcdefghij"]
    names = [f"{name}.png" for name in "abcd" + "uvwxyz"]
    with pytest.raises(
        DataError, match=r"4 of 10 rows match by id .* by order, since some match by id; .*CSV"
    ):
        attach(rows(ids), ids, folder_of(tmp_path, names))


def test_two_files_with_the_same_name_belong_to_no_row(tmp_path):
    ids = ["a", "b", "c"]
    found = attach(rows(ids), ids, folder_of(tmp_path, ["x/a.png", "x/b.png", "y/b.png", "y/c.png"]))
    assert reds(found) == [0, None, 3]


def test_a_table_names_images_by_id_or_in_order(tmp_path):
    folder_of(tmp_path / "pictures", ["a.png", "b.png"])
    table = tmp_path / "table.csv"
    ids = ["first", "second"]
    table.write_text("ID;Path\nsecond;pictures/a.png\nfirst;pictures/b.png\n")
    assert reds(attach(rows(ids), ids, Beside("images", table))) == [1, 0]
    table.write_text("file\npictures/b.png\npictures/a.png\n")
    assert reds(attach(rows(ids), ids, Beside("images", table))) == [1, 0]


def test_a_tables_paths_stay_within_its_folder_unless_allowed(tmp_path):
    picture(tmp_path / "secret.png", 9)
    table = tmp_path / "inside" / "table.csv"
    table.parent.mkdir()
    table.write_text("id,path\na,../secret.png\nb,../secret.png\n")
    beside = Beside("images", table)
    with pytest.raises(DataError, match=r"table.csv, row 1: '../secret.png' is outside .*--allow"):
        attach(rows(["a", "b"]), ["a", "b"], beside)
    with allowing([str(tmp_path)]):
        assert reds(attach(rows(["a", "b"]), ["a", "b"], beside)) == [9, 9]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,path\na,nowhere.png\n", "row 1: no file 'nowhere.png'"),
        ("id,colour\na,red\n", "found the columns id, colour; expected path"),
        ("", "found the columns none; expected path"),
    ],
)
def test_wrong_tables_are_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "table.csv").write_text(content)
    with pytest.raises(DataError, match=re.escape(message)) as found:
        attach(rows(["a", "b"]), ["a", "b"], Beside("images", tmp_path / "table.csv"))
    assert "\n" not in str(found.value)


def test_texts_by_id_from_every_kind_of_table(tmp_path):
    ids = ["a", "b", "c"]
    (tmp_path / "t.csv").write_text('id,text\nc,"three\nlines\nlong"\na,one\n', encoding="utf-8")
    lines = [{"id": "c", "text": "three\nlines\nlong"}, {"id": "a", "text": "one"}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for name in ("t.csv", "t.jsonl"):
        found = attach(rows(ids), ids, Beside("texts", tmp_path / name))
        assert texts_of(found) == ["one", None, "three\nlines\nlong"]
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    parquet.write_table(arrow.Table.from_pylist(lines), tmp_path / "t.parquet")
    assert texts_of(attach(rows(ids), ids, Beside("texts", tmp_path / "t.parquet")))[0] == "one"


def test_a_text_file_has_a_line_for_each_row(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n\r\n")
    data = rows(RowNumbers(3))
    assert texts_of(attach(data, data.ids, Beside("texts", file))) == ["one", "two", ""]
    file.write_text("one\ntwo\n")
    with pytest.raises(
        DataError, match=r"0 of 3 rows match by id .* 2 texts cannot be matched with 3 rows by order"
    ):
        attach(data, data.ids, Beside("texts", file))


@pytest.mark.parametrize("line", ["{", "[1]", "[" * 200_000])
def test_lines_that_are_no_objects_are_named(tmp_path, line):
    (tmp_path / "t.jsonl").write_text('{"id": "a", "text": "one"}\n' + line)
    with pytest.raises(DataError, match=r"t.jsonl, line 2: is not .*write"):
        attach(rows(["a"]), ["a"], Beside("texts", tmp_path / "t.jsonl"))


def test_folders_without_images_and_folders_of_texts_are_refused(tmp_path):
    with pytest.raises(DataError, match="no images in it"):
        attach(rows(["a"]), ["a"], Beside("images", tmp_path))
    with pytest.raises(DataError, match=r"is a folder; give a .txt, .csv, .parquet or .jsonl file"):
        attach(rows(["a"]), ["a"], Beside("texts", tmp_path))
    with pytest.raises(DataError, match="cannot be read"):
        attach(rows(["a"]), ["a"], Beside("images", tmp_path / "nowhere"))
