"""Rows that show what a class looks like."""

import random

import pytest
import torch

from pencil.data import Beside
from pencil.errors import ConfigError
from pencil.results import judge
from pencil.review import Review
from pencil.review.references import reference_rows
from pencil.run import RunDirectory


def judged(seed, rows=200, classes=5):
    generator = torch.Generator().manual_seed(seed)
    belief = (4 * torch.rand(rows, classes, generator=generator)).softmax(dim=1)
    given = torch.randint(classes, (rows,), generator=generator)
    return judge(belief, given, 0.9, ids=[str(row) for row in range(rows)])


@pytest.mark.parametrize("size", [7, 64, 200])
@pytest.mark.parametrize("seed", range(3))
def test_the_surest_rows_of_each_class_whatever_the_size_of_chunks(seed, size):
    whole = judged(seed)
    found = reference_rows(whole.split(size), count=3)
    for label in range(5):
        fitting = [
            (float(whole.p_wrong[row]), row)
            for row in range(200)
            if whole.given[row] == label == whole.suggested[row] and whole.verdict[row] == 0
        ]
        assert found.get(label, []) == [row for _, row in sorted(fitting)[:3]]


def test_classes_without_a_sure_row_have_none():
    certain = judge(torch.eye(3)[[0, 0, 1]], torch.tensor([0, 0, 2]), 0.9, ids=["a", "b", "c"])
    assert reference_rows([certain]) == {0: [0, 1]}
    assert reference_rows([]) == {}


def test_a_review_has_references_if_its_rows_can_be_shown(make_run, tmp_path):
    run = RunDirectory.open(make_run(tmp_path, images=False))
    review = Review(run)
    try:
        assert review.references(0) == []
        for label in (-1, 4):
            with pytest.raises(ConfigError, match=f"label: {label} is not a class; use 0 to 3"):
                review.references(label)
    finally:
        review.close()
    (tmp_path / "texts.txt").write_text("".join(f"note {random.random()}\n" for _ in range(60)))
    review = Review(run, beside=Beside("texts", tmp_path / "texts.txt"))
    try:
        for label in range(4):
            rows = review.references(label)
            assert rows
            assert all(review.labels(row).given == label == review.labels(row).suggested for row in rows)
    finally:
        review.close()
