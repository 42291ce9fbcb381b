import csv

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data import Image, has_own_ids, shown
from pencil.data.matching import all_ids
from pencil.data.readers.features import read_features, read_features_alone
from pencil.errors import DataError


@pytest.fixture
def save(tmp_path):
    def write(**arrays):
        path = tmp_path / "features.npz"
        np.savez(path, **arrays)
        return path

    return write


FEAT = np.arange(12, dtype=np.float16).reshape(4, 3)
LABELS = np.array([1, 0, 1, 0], np.uint8)


def test_is_train_divides_the_rows_and_ids_follow(save):
    path = save(
        feat=FEAT,
        labels=LABELS,
        is_train=np.array([True, False, True, False]),
        files=np.array(["a.jpg", "b.jpg", "c.jpg", "d.jpg"]),
        names=np.array(["crow", "gull"]),
        size=np.zeros((4, 2)),
    )
    splits = read_features(path)
    assert splits.train.class_names == ("crow", "gull")
    assert list(splits.train.ids) == ["a.jpg", "c.jpg"]
    assert splits.train.labels.values.tolist() == [1, 1]
    fetched = splits.test.inputs.fetch(torch.tensor([1, 0]))
    assert fetched.dtype == torch.float16
    assert fetched.tolist() == FEAT[[3, 1]].tolist()
    assert list(splits.test.ids) == ["b.jpg", "d.jpg"]


def test_ids_are_the_rows_of_the_file_where_it_has_none(save):
    splits = read_features(save(feat=FEAT, labels=LABELS, is_train=np.array([0, 1, 0, 1])))
    assert list(splits.train.ids) == ["1", "3"]


def test_all_rows_for_training_leave_no_test_split(save):
    assert read_features(save(feat=FEAT, labels=LABELS, is_train=np.ones(4, bool))).test is None


def test_separate_train_and_test_arrays(save):
    arrays = {"train_coarse": LABELS * 0, "test_coarse": LABELS[:2] * 0, "names": np.array([b"x", b"y"])}
    path = save(train=FEAT, train_labels=LABELS, test=FEAT[:2] + 1, test_labels=LABELS[:2], **arrays)
    splits = read_features(path)
    assert splits.train.class_names == ("x", "y")
    assert splits.test.inputs.values.tolist() == (FEAT[:2] + 1).tolist()
    assert list(splits.test.ids) == ["0", "1"]


@pytest.mark.parametrize(
    ("x", "y"), [("X", "y"), ("features", "labels"), ("X_train", "y_train"), ("feat", "y")]
)
def test_generic_names(save, x, y):
    path = save(**{x: FEAT.astype(np.float32), y: LABELS, "X_test": FEAT[:1], "y_test": np.array([2])})
    splits = read_features(path)
    assert splits.train.inputs.values.dtype == torch.float32
    assert splits.train.class_names == splits.test.class_names == ("0", "1", "2")


def test_keys_choose_arrays_and_an_empty_key_leaves_one_out(save):
    path = save(feat=FEAT, labels=LABELS, coarse=np.zeros(4, int), names=np.array(["a", "b"]))
    splits = read_features(path, keys={"labels": "coarse", "names": ""})
    assert splits.train.class_names == ("0",)


def test_votes_become_soft_labels(save):
    splits = read_features(save(X=FEAT, y=np.array([[3, 1], [1, 1], [0, 2], [4, 0]])))
    assert splits.train.labels.values[0].tolist() == [0.75, 0.25]
    assert splits.train.num_classes == 2


def test_npy_with_a_label_file(tmp_path):
    np.save(tmp_path / "x.npy", FEAT)
    np.save(tmp_path / "y.npy", LABELS)
    train = read_features(tmp_path / "x.npy", labels=tmp_path / "y.npy").train
    assert torch.equal(train.inputs.values, torch.from_numpy(FEAT))
    assert train.labels.values.tolist() == LABELS.tolist()


def test_writing_to_the_tensor_leaves_the_file_alone(tmp_path):
    np.save(tmp_path / "x.npy", FEAT)
    np.save(tmp_path / "y.npy", LABELS)
    read_features(tmp_path / "x.npy", labels=tmp_path / "y.npy").train.inputs.values.zero_()
    assert np.array_equal(np.load(tmp_path / "x.npy"), FEAT)


def test_a_label_file_takes_the_place_of_labels_inside(save, tmp_path):
    (tmp_path / "y.txt").write_text("0\n0\n0\n1\n")
    train = read_features(save(X=FEAT, y=LABELS), labels=tmp_path / "y.txt").train
    assert train.labels.values.tolist() == [0, 0, 0, 1]


def test_a_label_table_is_read_by_the_ids_of_the_features(save, tmp_path):
    (tmp_path / "y.csv").write_text("id,label\nd,1\nb,0\na,1\nc,0\n")
    read = read_features(save(X=FEAT, ids=np.array(list("abcd"))), labels=tmp_path / "y.csv")
    assert read.train.labels.values.tolist() == [1, 0, 0, 1]
    with pytest.raises(DataError, match="no label for 1 of 4 examples, first id 'e'"):
        read_features(save(X=FEAT, ids=np.array(list("abce"))), labels=tmp_path / "y.csv")


def test_a_label_table_may_name_the_classes_of_the_features(save, tmp_path):
    (tmp_path / "y.csv").write_text("label\ndog\ncat\ncat\ndog\n")
    read = read_features(save(X=FEAT, names=np.array(["cat", "dog"])), labels=tmp_path / "y.csv")
    assert read.train.labels.values.tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("ids", "labels"),
    [("3102", [1, 0, 0, 1]), ("0123", [1, 0, 1, 0]), ("1234", [1, 0, 1, 0]), ("4213", None)],
)
@pytest.mark.filterwarnings("ignore:.*count from 1")
def test_without_ids_of_features_a_table_counts_by_row_number_or_is_refused(tmp_path, ids, labels):
    np.save(tmp_path / "x.npy", FEAT)
    np.savez(tmp_path / "x.npz", X=FEAT)
    lines = [f"{name},{label}" for name, label in zip(ids, (1, 0, 1, 0), strict=True)]
    (tmp_path / "y.csv").write_text("\n".join(["id,label", *lines]))
    for name in ("x.npy", "x.npz"):
        if labels is None:
            with pytest.raises(DataError, match="give the data ids"):
                read_features(tmp_path / name, labels=tmp_path / "y.csv")
        else:
            train = read_features(tmp_path / name, labels=tmp_path / "y.csv").train
            assert train.labels.values.tolist() == labels


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_each_row_keeps_its_label_and_its_id_whatever_is_left_out(tmp_path_factory, data):
    """Odd ids, label files in any order, rows that are skipped and rows to test on: each row against the truth."""
    folder, rows = tmp_path_factory.mktemp("rows"), data.draw(st.integers(3, 8))
    text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
        lambda t: t == t.strip()
    )
    odd = st.lists(text, min_size=rows, max_size=rows, unique=True)
    ids = data.draw(st.none() | odd)
    bad = data.draw(st.sets(st.integers(1, rows - 1), max_size=rows - 2))
    is_train = data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    is_train[0] = True
    values = np.arange(rows, dtype=np.float32)[:, None].repeat(2, 1)
    values[list(bad), 1] = np.nan
    labels, order = np.arange(rows) % 3, data.draw(st.permutations(range(rows)))
    with (folder / "y.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["id", "label"])
        lines.writerows([row if ids is None else ids[row], labels[row]] for row in order)
    own = {} if ids is None else {"ids": np.array(ids)}
    np.savez(folder / "x.npz", X=values, is_train=np.array(is_train), **own)
    splits = read_features(folder / "x.npz", labels=folder / "y.csv", on_error="skip")
    for part, kept in ((splits.train, True), (splits.test, False)):
        wanted = [row for row in range(rows) if is_train[row] == kept and row not in bad]
        found = [] if part is None else part.inputs.fetch(torch.arange(len(part)))[:, 0].long().tolist()
        assert found == wanted
        if part is not None:
            names = [part.class_names[label] for label in part.labels.values.tolist()]
            assert names == [str(labels[row]) for row in wanted]
            assert list(part.ids) == [str(row) if ids is None else ids[row] for row in wanted]
            assert has_own_ids(part.ids) == (ids is not None)
            assert len(all_ids(part.ids)) == rows


def test_big_endian_features_are_read(save):
    train = read_features(save(X=FEAT.astype(">f4"), y=LABELS)).train
    assert train.inputs.values.tolist() == FEAT.tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"data": FEAT, "y": LABELS},
            "found the arrays data, y; expected for features one of feat, features, X",
        ),
        ({"X": FEAT, "target": LABELS}, "found the arrays X, target; expected for labels one of labels, y"),
        ({"X": FEAT, "y": LABELS, "X_test": FEAT}, "for test_labels one of test_labels, y_test"),
        ({"X": FEAT, "feat": FEAT, "y": LABELS}, "feat and X could all be the features"),
        ({"X": FEAT, "y": LABELS[:3]}, "N = 4, found shape"),
        ({"X": FEAT[:0], "y": LABELS[:0]}, "N > 0"),
        ({"X": LABELS, "y": LABELS}, r"must be \(N, D\)"),
        ({"X": FEAT, "y": np.array([1j, 2, 3, 4])}, "number the classes"),
        ({"X": FEAT * 1j, "y": LABELS}, "complex numbers; save real ones"),
        ({"X": FEAT, "y": np.array([0, 1, np.nan, 1])}, "found nan in row 2"),
        ({"X": FEAT, "y": np.array([0, 1, np.inf, 1])}, "found inf in row 2"),
        ({"X": FEAT, "y": np.array([0, 1, -1, 1])}, "found -1 in row 2"),
        ({"X": FEAT, "y": np.array([0, 1, 0.5, 1])}, "found 0.5 in row 2"),
        (
            {"X": FEAT, "y": np.array([0, 1, 50_000_000, 1])},
            "row 2: class number 50,000,000 is far beyond the 4 rows",
        ),
        ({"X": FEAT, "y": np.array([0, 1, 2**63, 1], np.uint64)}, "found -9223372036854775808 in row 2"),
        (
            {"X": FEAT, "y": np.array(list("abcd")), "names": np.array(list("abc"))},
            "row 3: 'd' is not in names",
        ),
        ({"X": FEAT, "y": np.array([b"a", b"b", b"\xff", b"a"])}, "labels are not UTF-8"),
        ({"X": np.zeros((4, 0)), "y": LABELS}, r"must be \(N, D\)"),
        ({"X": np.where(FEAT == 7, np.nan, FEAT), "y": LABELS}, "first in row 2"),
        ({"X": FEAT, "y": LABELS, "is_train": np.array([0, 1, 2, 1])}, "is_train must hold 0 and 1"),
        ({"X": FEAT, "y": LABELS, "is_train": np.zeros(4)}, "at least one 1"),
        ({"X": FEAT, "y": LABELS, "is_train": np.ones(3)}, r"is_train must be \(4,\)"),
        ({"X": FEAT, "y": LABELS, "ids": np.array(["a"])}, "1 ids for 4 rows"),
        ({"X": FEAT, "y": LABELS, "names": np.array(["a"])}, "label 1 is out of range"),
        ({"X": np.array([["a"]] * 4), "y": LABELS}, "which torch does not support"),
        (
            {"X": FEAT, "y": LABELS, "is_train": np.ones(4), "X_test": FEAT, "y_test": LABELS},
            "both is_train and X_test",
        ),
    ],
)
def test_problems_are_named(save, arrays, message):
    with pytest.raises(DataError, match=message):
        read_features(save(**arrays))


def test_labels_may_be_texts(save):
    texts = np.array(["dog", "cat", "dog", "emu"])
    train = read_features(save(X=FEAT, y=texts)).train
    assert train.class_names == ("cat", "dog", "emu")
    assert train.labels.values.tolist() == [1, 0, 1, 2]
    named = read_features(save(X=FEAT, y=texts.astype("S"), names=np.array(["emu", "dog", "cat"]))).train
    assert named.labels.values.tolist() == [1, 2, 1, 0]


def test_a_column_of_labels_is_a_list(save):
    assert read_features(save(X=FEAT, y=LABELS[:, None])).train.labels.values.tolist() == LABELS.tolist()


def test_classes_numbered_from_1_are_renumbered(save):
    with pytest.warns(UserWarning, match="no row has a class below 1; the classes are 1 to 3"):
        train = read_features(save(X=FEAT, y=np.array([1, 2, 3, 1]))).train
    assert train.class_names == ("1", "2", "3")
    assert train.labels.values.tolist() == [0, 1, 2, 0]


def test_pictures_without_channels_are_images(save):
    pictures = np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8)
    with pytest.warns(UserWarning, match=r"\(4, 8, 8\) are read as grey images.*model.name=small_cnn"):
        train = read_features(save(X=pictures, y=LABELS)).train
    assert isinstance(shown(train.inputs, 0), Image)
    assert train.inputs.fetch(torch.tensor([1])).shape == (1, 1, 8, 8)


def test_rows_that_are_not_finite_are_left_out_on_request(save):
    features, labels = FEAT.astype(float), LABELS.astype(float)
    features[2, 0], labels[0] = np.inf, np.nan
    splits = read_features(save(X=features, y=labels, X_test=features, y_test=LABELS), on_error="skip")
    assert list(splits.train.ids) == ["1", "3"]
    assert splits.train.inputs.values.tolist() == FEAT[[1, 3]].tolist()
    assert list(splits.test.ids) == ["0", "1", "3"]
    assert list(splits.skipped_rows) == ["row 0", "row 2", "test_row 2"]
    whole = read_features(save(X=features, y=labels, is_train=np.array([1, 1, 1, 0])), on_error="skip")
    assert list(whole.train.ids) == ["1"]
    assert list(whole.test.ids) == ["3"]


def test_an_unknown_array_or_role_is_named(save):
    path = save(X=FEAT, y=LABELS)
    with pytest.raises(DataError, match="no array 'z' for labels; found X, y"):
        read_features(path, keys={"labels": "z"})
    with pytest.raises(DataError, match="unknown role label; roles are features, labels"):
        read_features(path, keys={"label": "y"})


def test_rows_without_labels_that_are_not_finite_are_left_out_on_request(save, tmp_path):
    features = np.array([[1.0, 2], [np.nan, 0], [3, 4]])
    np.save(tmp_path / "new.npy", features)
    for path, ids in (
        (tmp_path / "new.npy", ["0", "2"]),
        (save(X=features, ids=np.array(["a", "b", "c"])), ["a", "c"]),
    ):
        with pytest.raises(DataError, match=r"first in row 1; .*on_error=skip"):
            read_features_alone(path)
        found = read_features_alone(path, on_error="skip")
        assert list(found.ids) == ids
        assert found.inputs.fetch(torch.arange(2)).tolist() == [[1, 2], [3, 4]]
        assert found.skipped_rows == {"row 1": "holds NaN or infinity"}
    np.save(tmp_path / "new.npy", features[1:2])
    with pytest.raises(DataError, match=r"new\.npy: no row can be used; the first holds NaN or infinity"):
        read_features_alone(tmp_path / "new.npy", on_error="skip")


@pytest.mark.parametrize("missing", ["", " ", "nan", "NaN", b"nan"])
def test_a_label_that_is_empty_or_nan_is_missing(save, missing):
    texts = np.array(["dog", missing, "cat", missing], "S" if isinstance(missing, bytes) else "U")
    path = save(X=FEAT, y=texts, X_test=FEAT, y_test=texts)
    with pytest.raises(DataError, match=r"labels: 2 are missing, first in row 1: '.*'; .*on_error=skip"):
        read_features(path)
    splits = read_features(path, on_error="skip")
    assert splits.train.class_names == ("cat", "dog")
    assert (list(splits.train.ids), list(splits.test.ids)) == (["0", "2"], ["0", "2"])
    assert splits.skipped_rows == dict.fromkeys(
        ["row 1", "row 3", "test_row 1", "test_row 3"], "has no label"
    )


def test_nan_may_be_the_name_of_a_class(save):
    path = save(X=FEAT, y=np.array(["nan", "pita", "nan", "pita"]), names=np.array(["nan", "pita"]))
    assert read_features(path, on_error="skip").train.labels.values.tolist() == [0, 1, 0, 1]


def test_pickled_arrays_are_refused(save):
    with pytest.raises(DataError, match=r"array 'X'.*without pickled objects"):
        read_features(save(X=np.array([object()]), y=LABELS))


def test_an_npy_needs_labels_and_has_no_keys(tmp_path):
    np.save(tmp_path / "x.npy", FEAT)
    with pytest.raises(DataError, match="give labels="):
        read_features(tmp_path / "x.npy")
    with pytest.raises(DataError, match=r"leave out data\.keys"):
        read_features(tmp_path / "x.npy", labels=tmp_path / "x.npy", keys={"labels": "y"})


def test_other_and_missing_files(tmp_path):
    with pytest.raises(DataError, match=r"use .npz or .npy"):
        read_features(tmp_path / "x.mat")
    with pytest.raises(DataError, match=r"x.npz"):
        read_features(tmp_path / "x.npz")


def test_cub_features(real_data):
    splits = read_features(real_data / "cub" / "cub200_2011_lite0_224_feat.npz")
    assert (len(splits.train), len(splits.test), splits.train.num_classes) == (5994, 5794, 200)
    features = splits.train.inputs.fetch(torch.arange(5994))
    assert (features.shape, features.dtype) == ((5994, 1280), torch.float16)
    row = int(splits.train.labels.values[0])
    assert splits.train.ids[0].startswith(splits.train.class_names[row])


def test_cifar100_features(real_data):
    path = real_data / "cifar" / "cifar100_lite0_128_pca384.npz"
    splits = read_features(path)
    assert (len(splits.train), len(splits.test), splits.train.num_classes) == (50000, 10000, 100)
    assert splits.train.class_names[:2] == ("apple", "aquarium_fish")
    assert splits.train.inputs.values.dtype == torch.float16
