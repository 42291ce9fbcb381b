"""An index holds what the shards hold, or says everything that is wrong with them."""

import json
import tarfile
import zlib

import numpy as np
import pytest

from pencil.data.shards import Fields, ShardIndex, write_index
from pencil.data.shards.write import in_order
from pencil.errors import DataError


def index(folder, out, fields=None, **splits):
    return write_index({"train": [str(folder)], **splits}, out, fields)


def test_rows_are_numbered_through_the_shards_with_their_labels_and_places(image_shards, tmp_path):
    folder = image_shards(tmp_path / "data", shards=3, rows=4)
    written = index(folder, tmp_path / "index")
    read = ShardIndex.open(tmp_path / "index")
    assert read == written
    split = read.splits["train"]
    assert len(split) == 12
    assert [shard.name for shard in split.shards] == ["0000.tar", "0001.tar", "0002.tar"]
    assert [shard.rows for shard in split.shards] == [4, 4, 4]
    assert split.labels.tolist() == [(shard + row) % 3 for shard in range(3) for row in range(4)]
    assert read.classes == ("0", "1", "2")
    assert [split.key(row) for row in (0, 5, 11)] == ["000-000", "001-001", "002-003"]
    assert split.place(5) == (1, 1)
    content = (folder / "0001.tar").read_bytes()
    begin, size = int(split.offsets[5]), int(split.sizes[5])
    assert content[begin : begin + size].startswith(b"\x89PNG")
    shard = split.shards[1]
    assert (shard.bytes, shard.crc32) == (len(content), zlib.crc32(content))
    assert shard.url == "data/0001.tar"  # both can move together


def test_no_array_is_held_before_it_is_asked_for_and_none_travels_with_the_index(image_shards, tmp_path):
    read = index(image_shards(tmp_path / "data"), tmp_path / "index").splits["train"]
    assert isinstance(read.labels, np.memmap)
    assert set(read.__getstate__()) == {"folder", "name", "shards"}


def test_texts_are_classes_in_order_of_their_names(image_shards, tmp_path):
    folder = image_shards(tmp_path / "data", text=lambda label: ["zebra", "ant", "mole"][label] + "\n")
    read = index(folder, tmp_path / "index")
    assert read.classes == ("ant", "mole", "zebra")
    assert read.splits["train"].labels[:4].tolist() == [2, 0, 1, 2]


def test_numbers_are_classes_by_their_value_even_where_some_have_no_row(tar, png, tmp_path):
    tar(tmp_path / "a.tar", [("x.png", png()), ("x.cls", b"5"), ("y.png", png()), ("y.cls", b"02")])
    with pytest.warns(UserWarning, match="no row has a class below 2; the classes are 2 to 5"):
        read = index(tmp_path / "a.tar", tmp_path / "index")
    assert read.classes == tuple("2345")
    assert read.splits["train"].labels.tolist() == [3, 0]


def test_a_class_0_that_only_the_test_split_has_is_a_class(tar, png, tmp_path):
    for name, label in (("a", b"1"), ("b", b"0")):
        tar(tmp_path / f"{name}.tar", [("x.png", png()), ("x.cls", label)])
    assert index(tmp_path / "a.tar", tmp_path / "index", test=[str(tmp_path / "b.tar")]).classes == ("0", "1")


def test_labels_come_from_json_or_a_file_of_another_name(tar, png, tmp_path):
    files = [
        ("k/x.jpg", png()),
        ("k/x.json", json.dumps({"label": 0, "kind": "owl"}).encode()),
        ("k/x.txt", b"bat"),
    ]
    path = tar(tmp_path / "a.tar", files)
    for number, (name, expected) in enumerate({None: "0", "kind": "owl", "txt": "bat"}.items()):
        read = index(path, tmp_path / f"index-{number}", Fields(label=name))
        assert read.classes[read.splits["train"].labels[0]] == expected
    assert read.splits["train"].key(0) == "k/x"


def test_features_have_one_shape_and_type(tar, npy, tmp_path):
    files = [(f"{row}.npy", npy(np.full((2, 3), row, ">f4"))) for row in range(2)]
    path = tar(tmp_path / "a.tar", [each for row in range(2) for each in (files[row], (f"{row}.cls", b"0"))])
    read = index(path, tmp_path / "index")
    assert (read.kind, read.shape, read.dtype) == ("features", (2, 3), "float32")


def test_a_test_split_stands_in_the_same_index(image_shards, tmp_path):
    image_shards(tmp_path / "train", shards=2)
    image_shards(tmp_path / "test", shards=1, rows=2)
    read = index(tmp_path / "train", tmp_path / "index", test=[str(tmp_path / "test")])
    assert {name: len(split) for name, split in read.splits.items()} == {"train": 10, "test": 2}
    assert read.splits["test"].labels.tolist() == [0, 1]
    assert [shard.name for shard in read.shards] == ["train/0000.tar", "train/0001.tar", "test/0000.tar"]


def test_every_mistake_is_named_with_its_shard_and_sample(tar, png, npy, tmp_path):
    tar(
        tmp_path / "data/a.tar",
        [("one.png", png()), ("two.cls", b"1"), ("three.png", png()), ("three.cls", b" ")],
    )
    tar(
        tmp_path / "data/b.tar",
        [
            *(
                ("x.png", png()),
                ("x.cls", b"1"),
                ("y.jpg", png()),
                ("y.cls", b"1"),
                ("x.png", png()),
                ("x.cls", b"1"),
            ),
            *(("p.png", png()), ("p.pkl", b"."), ("q.png", png()), ("q.seg.png", png()), ("q.cls", b"1")),
            *(("r.png", png()), ("r.jpg", png()), ("r.cls", b"1"), ("s.png", png()), ("s.cls", b"\xff")),
        ],
    )
    with pytest.raises(DataError) as told:
        index(tmp_path / "data", tmp_path / "index")
    lines = [line.strip() for line in str(told.value).splitlines()[1:]]
    beginnings = [
        "a.tar: sample 'one': it has no label: no .cls and no .json",
        "a.tar: sample 'two': it has no image and no .npy",
        "a.tar: sample 'three': its label is empty",
        "b.tar: two samples have the name 'x'; put the files of one sample next to each other",
        "b.tar: sample 'p': .pkl is refused, because unpickling runs code",
        "b.tar: sample 'q': .seg.png is unknown",
        "b.tar: sample 'r': it has png and jpg",
        "b.tar: sample 's': 'utf-8' codec can't decode",
    ]
    assert len(lines) == len(beginnings)
    assert all(line.startswith(begin) for line, begin in zip(lines, beginnings, strict=True)), lines
    assert "ignore it with --ignore seg.png" in lines[5]
    assert "choose with --input-field png" in lines[6]
    assert not (tmp_path / "index").exists()
    assert not list(tmp_path.glob(".*partial*"))


@pytest.mark.parametrize("extension", ["pyd", "pkl", "pickle", "pth"])
def test_pickles_are_refused_by_name_and_never_opened(tar, png, tmp_path, extension):
    path = tar(
        tmp_path / "a.tar",
        [("x.png", png()), ("x.cls", b"1"), (f"x.{extension}", b"cos\nsystem\n(S'false'\ntR.")],
    )
    with pytest.raises(
        DataError, match=rf"a.tar: sample 'x': \.{extension} is refused, because unpickling runs code"
    ):
        index(path, tmp_path / "index")


def test_an_array_of_objects_is_refused(tar, npy, tmp_path):
    path = tar(tmp_path / "a.tar", [("x.npy", npy(np.array([{}], dtype=object))), ("x.cls", b"1")])
    with pytest.raises(DataError, match="sample 'x': it holds Python objects"):
        index(path, tmp_path / "index")


def test_what_is_ignored_is_no_mistake(tar, png, tmp_path):
    path = tar(tmp_path / "a.tar", [("x.png", png()), ("x.cls", b"0"), ("x.seg.png", b"?")])
    assert len(index(path, tmp_path / "index", Fields(ignore=frozenset({"seg.png"}))).splits["train"]) == 1


@pytest.mark.parametrize("left", [700, 1536, 5000])
def test_a_shard_that_is_cut_off_is_named(image_shards, tmp_path, left):
    folder = image_shards(tmp_path / "data", shards=2)
    file = folder / "0001.tar"
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(DataError, match=r"0001.tar: .*cut off"):
        index(folder, tmp_path / "index")


def test_links_and_what_is_no_tar_are_named(tar, png, tmp_path):
    path = tar(tmp_path / "data/a.tar", [("x.png", png()), ("x.cls", b"1")])
    with tarfile.open(path, "a") as file:
        link = tarfile.TarInfo("y.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        file.addfile(link)
    (tmp_path / "data/b.tar").write_bytes(b"hello" * 1000)
    with pytest.raises(
        DataError, match=r"a.tar: 'y.png' is not a plain file(.|\n)*b.tar: cannot be read as a tar file"
    ):
        index(tmp_path / "data", tmp_path / "index")


def test_inputs_of_two_kinds_are_named(tar, png, npy, tmp_path):
    tar(tmp_path / "data/a.tar", [("x.png", png()), ("x.cls", b"1")])
    tar(tmp_path / "data/b.tar", [("x.npy", npy(np.zeros(3))), ("x.cls", b"1")])
    with pytest.raises(DataError, match=r"b.tar: holds features \(3,\) of float64, but a.tar holds images"):
        index(tmp_path / "data", tmp_path / "index")


def test_classes_that_only_the_test_split_has_are_refused(image_shards, tmp_path):
    image_shards(tmp_path / "train", text=lambda label: "abc"[label])
    image_shards(tmp_path / "test", text=lambda label: "abx"[label])
    with pytest.raises(DataError, match="--test: classes that the training shards do not have: x"):
        index(tmp_path / "train", tmp_path / "index", test=[str(tmp_path / "test")])


@pytest.mark.parametrize("label", [b"-1", b"123456789"])
def test_numbers_that_are_no_classes_are_refused(tar, png, tmp_path, label):
    path = tar(tmp_path / "a.tar", [("x.png", png()), ("x.cls", label)])
    with pytest.raises(DataError, match=rf"label {label.decode()} is no class number"):
        index(path, tmp_path / "index")


def test_a_signed_address_in_two_splits_is_refused(tmp_path):
    splits = {"train": ["https://h/a.tar?sig=1"], "test": ["https://h/a.tar?sig=2"]}
    with pytest.raises(DataError, match=r"https://h/a.tar.*: in two splits"):
        write_index(splits, tmp_path / "index")


def test_a_shard_in_two_splits_and_an_index_that_exists_are_refused(image_shards, tmp_path):
    folder = image_shards(tmp_path / "data")
    with pytest.raises(DataError, match=r"0000.tar: in two splits"):
        index(folder, tmp_path / "index", test=[str(folder / "0000.tar")])
    (tmp_path / "index").mkdir()
    with pytest.raises(DataError, match=r"--out .*index: exists already"):
        index(folder, tmp_path / "index")


@pytest.mark.parametrize("test", ["../data/0000.tar", "../link/0000.tar", "../link"])
def test_a_shard_in_two_splits_is_found_however_its_path_is_written(
    image_shards, tmp_path, monkeypatch, test
):
    folder = image_shards(tmp_path / "data")
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for train, tests in ((["../data"], [test]), ([test], ["../data"])):
        with pytest.raises(DataError, match=r"0000.tar: in two splits"):
            write_index({"train": train, "test": tests}, tmp_path / "index")


def test_several_shards_read_at_once_make_the_same_index(image_shards, tmp_path):
    folder = image_shards(tmp_path / "data", shards=5)
    told = []
    write_index({"train": [str(folder)]}, tmp_path / "one")
    write_index(
        {"train": [str(folder)]}, tmp_path / "two", workers=2, progress=lambda *step: told.append(step)
    )
    names = sorted(file.name for file in (tmp_path / "one").iterdir())
    assert names == sorted(file.name for file in (tmp_path / "two").iterdir())
    assert all(
        (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in names
    )
    assert told == [(done, 5, 5 * done) for done in range(1, 6)]


@pytest.mark.parametrize("workers", [1, 3])
def test_answers_come_in_order(workers):
    assert list(in_order(str, range(7), workers)) == [str(number) for number in range(7)]


def test_a_damaged_index_is_named(image_shards, tmp_path):
    read = index(image_shards(tmp_path / "data"), tmp_path / "index")
    (tmp_path / "index/train-labels.bin").write_bytes(b"123")
    with pytest.raises(DataError, match=r"train-labels.bin: 3 bytes for 20 rows; the index is damaged"):
        _ = read.splits["train"].labels
    (tmp_path / "index/shards.json").write_text('{"version": 99}')
    with pytest.raises(DataError, match=r"shards.json: .*newer version .format 99"):
        ShardIndex.open(tmp_path / "index")
