"""Data that is hardly what was meant is refused when a run begins, by the command a user types."""

import numpy as np
import pytest

import pencil
from pencil.data.implausible import check_class_names, check_columns
from pencil.errors import DataError

ROWS = 40


def begin(tmp_path, **arrays):
    """Train on features of two classes, some arrays replaced."""
    random = np.random.default_rng(0)
    labels = np.arange(ROWS) % 2
    usual = {"features": random.normal(size=(ROWS, 4)).astype(np.float32) + labels[:, None], "labels": labels}
    np.savez(tmp_path / "data.npz", **(usual | arrays))
    return pencil.train(tmp_path / "data.npz", out=tmp_path / "run")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"ids": np.array(["a"] * ROWS)}, "rows 0 and 1 have the same id, 'a'"),
        ({"features": np.ones((ROWS, 4), np.float32)}, "all rows have the same features"),
        (
            {"labels": np.array(["cat", "Cat "] * (ROWS // 2))},
            "'Cat ' and 'cat' differ only in case or blanks",
        ),
    ],
    ids=["ids", "features", "labels"],
)
def test_a_run_does_not_begin(tmp_path, arrays, said):
    with pytest.raises(DataError, match=said):
        begin(tmp_path, **arrays)


def test_labels_of_tables_and_of_find_errors_are_compared_too(tmp_path):
    rows = "".join(f"some words about number {n},{'cat' if n % 2 else 'CAT'}\n" for n in range(ROWS))
    (tmp_path / "texts.csv").write_text(f"text,label\n{rows}")
    with pytest.raises(DataError, match="'CAT' and 'cat' differ only in case"):
        pencil.train(tmp_path / "texts.csv", out=tmp_path / "run")
    with pytest.raises(DataError, match="labels: the labels 'CAT' and 'cat'"):
        pencil.find_errors(np.random.default_rng(0).normal(size=(ROWS, 3)), ["cat", "CAT"] * (ROWS // 2))


def test_letters_are_classes_of_their_own():
    check_class_names(["a", "A", "b"], "labels")
    with pytest.raises(DataError, match="'new  york' and 'New York'"):
        check_class_names(["Boston", "new  york", "New York"], "labels")


def test_a_table_of_opinions_is_not_learned_from(tmp_path):
    rows = "".join(f"{n // 3},{n % 3},{n % 2}\n" for n in range(ROWS))
    (tmp_path / "opinions.csv").write_text(f"item,annotator,label\n{rows}")
    with pytest.raises(DataError, match="the column 'annotator' says who gave a label"):
        pencil.train(tmp_path / "opinions.csv", out=tmp_path / "run")


@pytest.mark.parametrize("name", ["worker_id", "Rater", "workerid", "annotator id"])
def test_columns_of_people_are_known_by_their_names(name):
    with pytest.raises(DataError, match="says who"):
        check_columns(["size", name], "table")
    check_columns(["size", "workers", "rating"], "table")
