import os
import zipfile
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data.examples import RowNumbers, SubsetNames
from pencil.data.label_files import read_label_file, write_label_file
from pencil.errors import DataError

IDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=8, unique=True
)
NAMES = ["cat", "dog, big", '"ox"']


@settings(deadline=None)
@given(IDS, st.data())
def test_csv_round_trip_in_any_order(tmp_path_factory, ids, data):
    path = tmp_path_factory.mktemp("labels") / "labels.csv"
    draw = st.lists(st.integers(0, 2), min_size=len(ids), max_size=len(ids))
    labels, clean = torch.tensor(data.draw(draw)), torch.tensor(data.draw(draw))
    write_label_file(path, ids, labels, NAMES, clean)
    assert read_label_file(path, ids=ids).tolist() == labels.tolist()
    assert read_label_file(path, "clean", ids=ids).tolist() == clean.tolist()
    assert read_label_file(path, "class", ids=ids, class_names=NAMES).tolist() == labels.tolist()
    order = data.draw(st.permutations(range(len(ids))))
    asked = [ids[row] for row in order]
    assert read_label_file(path, ids=asked).tolist() == labels[order].tolist()


NUMBERS = RowNumbers(6)
SOME = SubsetNames(SubsetNames(NUMBERS, torch.tensor([0, 1, 2, 4, 5])), torch.tensor([1, 3, 4]))  # 1, 4, 5


def table(path, ids, name="id"):
    """A label file in which each row has its own number as label."""
    path.write_text("\n".join([f"{name},label", *(f"{each},{row}" for row, each in enumerate(ids))]))
    return path


@settings(deadline=None)
@given(first=st.integers(0, 3), data=st.data())
def test_numbers_of_rows_match_by_number_or_are_refused(tmp_path_factory, first, data):
    """Without ids of the data, a label reaches the row that its number says, whatever was left out."""
    rows = data.draw(st.lists(st.integers(0, 9), min_size=1, unique=True).map(sorted))
    ids = SubsetNames(RowNumbers(10), torch.tensor(rows))
    counted = data.draw(st.permutations(range(first, first + data.draw(st.sampled_from([10, len(rows)])))))
    path = table(tmp_path_factory.mktemp("labels") / "l.csv", counted)
    try:
        with (
            pytest.warns() if counted == list(range(1, len(rows) + 1)) and counted != rows else nullcontext()
        ):
            read = read_label_file(path, ids=ids).tolist()
    except DataError:
        assert first or set(counted) != set(range(10))
        assert set(counted) != set(rows)
        return
    by_number = [counted.index(row) if row in counted else None for row in rows]
    in_order = list(range(len(rows))) if counted == list(range(1, len(rows) + 1)) else by_number
    assert read == (by_number if set(counted) in (set(rows), set(range(10))) else in_order)


@pytest.mark.parametrize("ids", [NUMBERS, SOME, None])
@pytest.mark.parametrize(
    "found",
    [
        ["2", "1", "3", "4", "5", "6"],
        ["a", "b", "c"],
        ["0", "1", "7"],
        ["01", "02", "03", "04", "05", "06"],
        ["2", "3", "4"],
        ["1", "1", "2", "3", "4", "5"],
    ],
)
def test_ids_of_a_file_are_refused_where_the_data_has_none(tmp_path, found, ids):
    with pytest.raises(DataError, match=r"give the data ids, or drop the column"):
        read_label_file(table(tmp_path / "l.csv", found), ids=ids)
    with pytest.raises(DataError, match=r"column 'File'"):
        read_label_file(table(tmp_path / "l.csv", found, "File"), ids=ids)


def test_rows_counted_from_1_in_their_order_are_taken_with_a_warning(tmp_path):
    for ids in (NUMBERS, None):
        with pytest.warns(UserWarning, match="count from 1"):
            read = read_label_file(table(tmp_path / "l.csv", range(1, 7)), ids=ids)
        assert read.tolist() == list(range(6))
    assert read_label_file(table(tmp_path / "l.csv", [5, 1, 4]), ids=SOME).tolist() == [1, 2, 0]
    assert read_label_file(table(tmp_path / "l.csv", [3, 5, 1, 0, 2, 4]), ids=SOME).tolist() == [2, 5, 1]
    (tmp_path / "l.csv").write_text("id,label\n")
    with pytest.raises(DataError):
        read_label_file(tmp_path / "l.csv", ids=NUMBERS)


@given(st.lists(st.integers(0, 999)))
def test_npy_round_trip(tmp_path_factory, labels):
    path = tmp_path_factory.mktemp("labels") / "labels.npy"
    names = [str(number) for number in range(1000)]
    write_label_file(path, [str(row) for row in range(len(labels))], torch.tensor(labels), names)
    read = read_label_file(path)
    assert read.dtype == torch.int64
    assert read.tolist() == labels


def test_csv_has_the_promised_columns(tmp_path):
    path = tmp_path / "labels.csv"
    write_label_file(path, ["a.png"], torch.tensor([1]), ["cat", "dog"])
    assert path.read_text() == "id,label,class\na.png,1,dog\n"
    write_label_file(path, ["a.png"], torch.tensor([1]), ["cat", "dog"], torch.tensor([0]))
    assert path.read_text() == "id,label,class,clean\na.png,1,dog,0\n"


def test_file_names_that_are_not_utf8_survive(tmp_path):
    path, name = tmp_path / "labels.csv", os.fsdecode(b"caf\xe9.png")
    write_label_file(path, [name], torch.tensor([0]), ["cat"])
    assert read_label_file(path, ids=[name]).tolist() == [0]


@pytest.mark.parametrize(
    "text", ["0\n2\n1\n", "label\n0\n2\n1\n", "\ufefflabel\r\n0\r\n2\r\n1\r\n\r\n", "y\n0\n2\n1"]
)
def test_csv_of_one_column(tmp_path, text):
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode())
    assert read_label_file(path).tolist() == [0, 2, 1]


def test_txt(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("3\n 0 \n7\n\n")
    assert read_label_file(path).tolist() == [3, 0, 7]


def test_npz_by_key(tmp_path):
    path = tmp_path / "labels.npz"
    np.savez(path, clean_label=np.array([0, 1], np.uint8), worse_label=np.array([1.0, 1.0]))
    assert read_label_file(path, "worse_label").tolist() == [1, 1]
    with pytest.raises(
        DataError, match=r"several arrays; choose one with key=...; found clean_label, worse_label"
    ):
        read_label_file(path)
    with pytest.raises(DataError, match=r"no array 'worst'.*found clean_label, worse_label"):
        read_label_file(path, "worst")


def test_npz_of_one_array_needs_no_key(tmp_path):
    np.savez(tmp_path / "labels.npz", y=np.array([0, 1]))
    assert read_label_file(tmp_path / "labels.npz").tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["u1", "i4", "i8", "f8"])
@pytest.mark.parametrize("numpy_1", [False, True])
def test_pt_of_numpy_arrays_like_cifar_n(tmp_path, dtype, numpy_1):
    path = tmp_path / "CIFAR-10_human.pt"
    torch.save({"clean_label": np.array([6, 9], dtype), "worse_label": np.array([4, 9], dtype)}, path)
    if numpy_1:
        as_numpy_1_wrote(path)
    assert read_label_file(path, "worse_label").tolist() == [4, 9]


def as_numpy_1_wrote(path):
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"))
    assert b"numpy.core.multiarray" in path.read_bytes()


@pytest.mark.parametrize(
    "content", [torch.tensor([1, 0]), [1, 0], {"y": torch.tensor([1, 0])}, {"y": [1, 0]}]
)
def test_pt_of_tensors_and_lists(tmp_path, content):
    torch.save(content, tmp_path / "labels.pt")
    assert read_label_file(tmp_path / "labels.pt").tolist() == [1, 0]


class Malice:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_a_malicious_pt_runs_nothing(tmp_path):
    trace = tmp_path / "trace"
    torch.save({"y": Malice(f"touch {trace}")}, tmp_path / "labels.pt")
    with pytest.raises(DataError, match="cannot read it safely"):
        read_label_file(tmp_path / "labels.pt", "y")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "no rows"),
        ("a.csv", "id,label\na,1\nb\n", "row 3: 1 cells, but 2 columns: id, label"),
        ("a.csv", "id,label\na,1\nb,cat\n", "row 3: label 'cat' is not a whole class index"),
        ("a.csv", "id,tag\na,1\n", "no column 'label'; found id, tag"),
        ("a.csv", 'id,label\n"a,1\n', "cannot be read as CSV"),
        ("a.txt", "1\n\n2\n", "row 2: label ''"),
        ("a.txt", "1\n2.5\n", "row 2: label '2.5'"),
        ("a.txt", "99999999999999999999\n", "row 1: label"),
        ("a.npy", "not numpy", "cannot read it as numpy data"),
        ("a.npz", "not numpy", "cannot read it as an .npz"),
        ("a.pt", "not torch", "cannot read it safely"),
        ("a.json", "[]", "cannot read labels from .json; use .csv, .npy"),
    ],
)
def test_problems_are_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_label_file(tmp_path / name)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.npy", "a.npz", "a.pt"])
def test_missing_files_are_named(tmp_path, name):
    with pytest.raises(DataError, match=name):
        read_label_file(tmp_path / name)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 2), int), r"one dimension \(N,\), found shape \(2, 2\)"),
        (np.array([0.5]), "whole class indices"),
        (np.array([np.nan]), "whole class indices"),
        (np.array(["cat"]), "whole class indices"),
        (np.array([object()]), "without pickled objects"),
    ],
)
def test_arrays_must_be_whole_indices(tmp_path, array, message):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(DataError, match=message):
        read_label_file(tmp_path / "a.npy")


def test_a_wrong_suffix_is_told(tmp_path):
    np.savez(tmp_path / "a.npz", y=np.array([0]))
    (tmp_path / "a.npz").rename(tmp_path / "a.npy")
    with pytest.raises(DataError, match=r"a.npy: .*name it .npz"):
        read_label_file(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.array([0]))
    (tmp_path / "b.npy").rename(tmp_path / "b.npz")
    with pytest.raises(DataError, match=r"b.npz: cannot read it as an .npz"):
        read_label_file(tmp_path / "b.npz")


def test_labels_must_fit_the_ids(tmp_path):
    (tmp_path / "a.txt").write_text("0\n1\n")
    with pytest.raises(DataError, match="2 labels for 3 examples"):
        read_label_file(tmp_path / "a.txt", ids=["a", "b", "c"])
    (tmp_path / "a.csv").write_text("id,label\na,0\nb,1\n")
    assert read_label_file(tmp_path / "a.csv", ids=["b"]).tolist() == [1]
    with pytest.raises(DataError, match="no label for 1 of 2 examples, first id 'c'"):
        read_label_file(tmp_path / "a.csv", ids=["a", "c"])
    (tmp_path / "a.csv").write_text("id,label\na,0\na,1\n")
    with pytest.raises(DataError, match="id 'a' occurs more than once"):
        read_label_file(tmp_path / "a.csv", ids=["a"])


def test_only_sound_labels_are_written(tmp_path):
    with pytest.raises(DataError, match=r"labels must have one class index per id: \(2,\), found \(1,\)"):
        write_label_file(tmp_path / "a.csv", ["a", "b"], torch.tensor([0]), ["cat"])
    with pytest.raises(DataError, match="labels must be in 0 to 0, found 1 to 1"):
        write_label_file(tmp_path / "a.csv", ["a"], torch.tensor([1]), ["cat"])
    with pytest.raises(DataError, match="clean must be in 0 to 0, found -1"):
        write_label_file(tmp_path / "a.csv", ["a"], torch.tensor([0]), ["cat"], torch.tensor([-1]))
    with pytest.raises(DataError, match=r"use .csv or .npy"):
        write_label_file(tmp_path / "a.xls", ["a"], torch.tensor([0]), ["cat"])
    assert not list(tmp_path.iterdir())


def test_cifar_n(real_data):
    path = real_data / "cifar" / "cifar10n.npz"
    clean, worse = (read_label_file(path, key) for key in ("clean_label", "worse_label"))
    assert clean.shape == (50000,)
    assert float((clean != worse).float().mean()) == pytest.approx(0.402, abs=0.001)


def test_cifar100_n(real_data):
    path = real_data / "cifar" / "cifar100n.npz"
    clean, noisy = (read_label_file(path, key) for key in ("clean_label", "noisy_label"))
    assert float((clean != noisy).float().mean()) == pytest.approx(0.402, abs=0.001)


def test_classes_with_numbers_for_names_survive_the_round_trip(tmp_path):
    """Classes named from 1: number 1 is the class "2", and must not be read as the class "1"."""
    names, path = [str(number) for number in range(1, 11)], tmp_path / "labels.csv"
    labels, clean = torch.arange(10), torch.arange(9, -1, -1)
    ids = [f"{row}.png" for row in range(10)]
    write_label_file(path, ids, labels, names, clean)
    assert read_label_file(path, ids=ids, class_names=names).tolist() == labels.tolist()
    assert read_label_file(path, "clean", ids=ids, class_names=names).tolist() == clean.tolist()
    assert read_label_file(path, "class", ids=ids, class_names=names).tolist() == labels.tolist()
    path.write_text("id,label\n0.png,2\n")  # of somebody's own: a name, as in the data
    assert read_label_file(path, ids=ids[:1], class_names=names).tolist() == [1]


def test_a_table_of_somebodys_own_may_have_names_in_its_column_label(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("id,label,class\n0.png,dog,1\n1.png,cat,0\n")
    assert read_label_file(path, ids=["0.png", "1.png"], class_names=["cat", "dog"]).tolist() == [1, 0]
    path.write_text(
        "id,label,class\n0.png,2,wolf\n1.png,1,dog\n"
    )  # classes named "1" and "2", and another column
    assert read_label_file(path, ids=["0.png", "1.png"], class_names=["1", "2"]).tolist() == [1, 0]
