"""Parquet shards: images or features by row group and position."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from pencil.data import has_own_ids
from pencil.data.fingerprint import fingerprint
from pencil.data.shards import Fields, read_shards, write_index
from pencil.data.shards import parquet as module
from pencil.errors import DataError


def write(path, columns, group=3):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return path


def index(path, out, **fields):
    return write_index({"train": [str(path)]}, out, Fields(**fields))


@pytest.fixture
def images(png, tmp_path):
    """Two shards of seven images in row groups of three."""
    for shard in range(2):
        columns = {
            "image": [png((shard, row, 9)) for row in range(7)],
            "label": [["cat", "dog"][row % 2] for row in range(7)],
            "id": [f"{shard}-{row}" for row in range(7)],
        }
        write(tmp_path / f"data/{shard}.parquet", columns)
    return tmp_path / "data"


def test_images_with_labels_and_ids(images, tmp_path):
    read = index(images, tmp_path / "index")
    assert [shard.groups for shard in read.shards] == [(3, 3, 1), (3, 3, 1)]
    train = read_shards(tmp_path / "index").train
    assert train.class_names == ("cat", "dog")
    rows = torch.tensor([13, 0, 8, 6])
    assert train.inputs.fetch(rows)[:, :2, 0, 0].tolist() == [[1, 6], [0, 0], [1, 1], [0, 6]]
    assert train.labels.hard[rows].tolist() == [0, 0, 1, 0]
    assert [train.ids[row] for row in rows.tolist()] == [
        *("1.parquet/1-6", "0.parquet/0-0", "1.parquet/1-1", "0.parquet/0-6")
    ]


def test_rows_without_an_id_column_are_known_to_have_none(tmp_path):
    values = [[0.0, 1.0]] * 4
    marks = []
    for number, own in enumerate([None, ["a", "b", "c", "d"], ["a", "c", "b", "d"]]):
        columns = {"features": values, "label": ["x", "y"] * 2} | ({} if own is None else {"id": own})
        index(write(tmp_path / f"{number}/s.parquet", columns), tmp_path / f"index{number}")
        train = read_shards(tmp_path / f"index{number}").train
        assert has_own_ids(train.ids) == has_own_ids(train.subset(torch.tensor([1])).ids) == (own is not None)
        assert list(train.ids) == [f"s.parquet/{each}" for each in own or range(4)]
        marks.append(fingerprint(train)["ids"])
    assert len(set(marks)) == 3


def test_images_as_the_datasets_package_writes_them(png, tmp_path):
    columns = {"img": [{"bytes": png((row, 0, 0)), "path": None} for row in range(4)], "fine": [3, 0, 1, 2]}
    write(tmp_path / "a.parquet", columns)
    index(tmp_path / "a.parquet", tmp_path / "index", label="fine")
    train = read_shards(tmp_path / "index").train
    assert train.inputs.fetch(torch.arange(4))[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert train.labels.hard.tolist() == [3, 0, 1, 2]
    assert train.ids[2] == "a.parquet/2"


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 4)]
)
def test_features(tmp_path, kind):
    values = np.arange(20, dtype=np.float32).reshape(5, 4)
    columns = {"features": pa.array(values.tolist(), kind), "label": [0, 1, 0, 1, 1]}
    write(tmp_path / "a.parquet", columns, group=2)
    read = index(tmp_path / "a.parquet", tmp_path / "index")
    assert (read.kind, read.shape, read.dtype) == ("features", (4,), "float32")
    fetched = read_shards(tmp_path / "index").train.inputs.fetch(torch.tensor([4, 1, 2]))
    assert fetched.tolist() == values[[4, 1, 2]].tolist()


def test_a_row_group_is_read_once_while_it_is_kept(images, tmp_path, monkeypatch):
    index(images, tmp_path / "index")
    inputs = read_shards(tmp_path / "index").train.inputs
    read = []
    original = module.ParquetReader._group
    monkeypatch.setattr(
        module.ParquetReader, "_group", lambda self, *place: read.append(place) or original(self, *place)
    )
    for _ in range(3):
        inputs.fetch(torch.arange(14))
    assert read == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize(
    ("columns", "fields", "told"),
    [
        ({"image": [b"x"]}, {}, "no column 'label' among image; name another with --label-field"),
        (
            {"pixels": [b"x"], "label": [1]},
            {},
            "no column image, img, features, embedding among pixels",
        ),
        (
            {"image": [b"x"], "label": [1]},
            {"input": "img"},
            "no column 'img' among image, label; .*--input-field",
        ),
        ({"image": [b"x", None], "label": [1, 2]}, {}, "1 rows of the input column are empty"),
        ({"image": [b"x"], "label": [1.5]}, {}, "row 0: its label 1.5 is neither text nor a whole number"),
        ({"image": [b"x", b"y"], "label": [1, None]}, {}, "row 1: its label None is neither text"),
        ({"image": ["x"], "label": [1]}, {}, "the input column holds string, neither encoded images"),
        ({"features": [[1.0], [1.0, 2.0]], "label": [1, 2]}, {}, "the feature lists are not all"),
        (
            {"image": [b"x", b"y"], "label": [1, 2], "id": ["a", "a"]},
            {},
            "row 1: another row has the id 'a' too",
        ),
    ],
    ids=["label", "input", "named", "empty", "float", "null", "text", "ragged", "twice"],
)
def test_mistakes_are_named(tmp_path, columns, fields, told):
    write(tmp_path / "a.parquet", columns)
    with pytest.raises(DataError, match=f"a.parquet: .*{told}"):
        index(tmp_path / "a.parquet", tmp_path / "index", **fields)


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (
            ("features", "id"),
            ("features",),
            "b.parquet: has no ids, but a.parquet has; .* all shards, or to none",
        ),
        (("features",), ("features", "id"), "b.parquet: has ids, but a.parquet has none"),
        (
            ("embedding",),
            ("features",),
            "b.parquet: its input column is 'features', but that of a.parquet is 'emb",
        ),
    ],
)
def test_shards_with_other_columns_are_named(tmp_path, first, second, told):
    values = {"features": [[1.0], [2.0]], "embedding": [[1.0], [2.0]], "id": ["x", "y"]}
    for name, columns in (("a", first), ("b", second)):
        write(
            tmp_path / f"data/{name}.parquet", {"label": [0, 1], **{each: values[each] for each in columns}}
        )
    with pytest.raises(DataError, match=told):
        index(tmp_path / "data", tmp_path / "index")


def test_a_split_may_have_ids_without_the_other(tmp_path):
    train = write(tmp_path / "a.parquet", {"features": [[1.0], [2.0]], "label": [0, 1], "id": ["x", "y"]})
    write(tmp_path / "b.parquet", {"features": [[1.0], [2.0]], "label": [0, 1]})
    write_index({"train": [str(train)], "test": [str(tmp_path / "b.parquet")]}, tmp_path / "index")
    splits = read_shards(tmp_path / "index")
    assert (splits.train.ids[1], splits.test.ids[1]) == ("a.parquet/y", "b.parquet/1")


def test_what_is_no_parquet_is_named(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"hello" * 100)
    with pytest.raises(DataError, match=r"a.parquet: cannot be read as Parquet"):
        index(tmp_path / "a.parquet", tmp_path / "index")


def test_a_row_group_damaged_later_is_named(images, tmp_path):
    index(images, tmp_path / "index")
    inputs = read_shards(tmp_path / "index").train.inputs
    file = images / "1.parquet"
    content = bytearray(file.read_bytes())
    content[4:200] = b"?" * 196
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"1.parquet, sample '1-0': cannot be (read|decoded)"):
        inputs.fetch(torch.tensor([7]))
