"""The review of near-identical rows with different labels."""

import pytest
import torch

from pencil.errors import RunError
from pencil.results import NearRows, judge, write_neighbours
from pencil.review import Review
from pencil.review.orders import order_of_groups
from pencil.run import LabelTable, RunDirectory


def near(groups, given):
    return NearRows.of({"train": torch.tensor(groups)}, torch.zeros(len(groups)), torch.tensor(given))


def chunks(p_right, given, trusted=()):
    for rows in torch.arange(len(given)).split(3):
        labels = torch.tensor(given)[rows]
        sure = torch.tensor(p_right)[rows]
        distribution = torch.where(torch.arange(2) == labels[:, None], sure[:, None], 1 - sure[:, None])
        flags = torch.tensor([row in trusted for row in rows.tolist()])
        ids = [str(row) for row in rows.tolist()]
        yield judge(distribution, labels, 0.9, ids=ids, first=int(rows[0]), trusted=flags)


def test_groups_come_together_and_the_likeliest_error_first():
    given = [0, 1, 0, 1, 1, 0, 0]
    found = near([0, 1, 0, 0, 1, -1, 1], given)
    order = order_of_groups(chunks([0.9, 0.8, 0.9, 0.7, 0.8, 0.1, 0.2], given), found)
    assert order.rows.tolist() == [1, 4, 6, 0, 2, 3]
    assert order.chances.tolist() == pytest.approx([0.2, 0.2, 0.8, 0.1, 0.1, 0.3])


def test_groups_whose_labels_agree_and_trusted_rows_are_left_out():
    given = [0, 0, 1, 0]
    order = order_of_groups(chunks([0.5, 0.5, 0.5, 0.5], given, {3}), near([0, 0, 1, 1], given))
    assert order.rows.tolist() == [2]


def test_a_review_shows_them_and_counts_them(make_run, tmp_path):
    run = make_run(tmp_path, images=False)
    given = torch.cat([part.given for part in LabelTable.open(RunDirectory.open(run)).chunks()])
    first = int((given != given[0]).nonzero()[0, 0])
    groups = torch.full((len(given),), -1)
    groups[[0, first]] = 0
    write_neighbours(run, NearRows.of({"train": groups}, torch.zeros(len(given)), given))
    review = Review(RunDirectory.open(run), goal="duplicates")
    assert review.start()["goal"] == "duplicates"
    assert review.start()["progress"] == {"total": 2, "decided": 0}
    assert [item["row"] for item in review.take("window", 5)["items"]] == [0, first]
    review.close()


@pytest.mark.parametrize(
    ("compared", "words"),
    [
        (False, "did not look for near-identical rows; use another goal, or train on features"),
        (True, "has no near-identical rows with different labels; use another goal"),
    ],
)
def test_a_run_without_them_says_so(make_run, tmp_path, compared, words):
    run = make_run(tmp_path, images=False)
    rows = len(LabelTable.open(RunDirectory.open(run)))
    if compared:
        none = NearRows.of({"train": torch.full((rows,), -1)}, torch.zeros(rows), torch.zeros(rows).long())
        write_neighbours(run, none)
    with pytest.raises(RunError, match="--goal duplicates: ") as found:
        Review(RunDirectory.open(run), goal="duplicates")
    assert words in str(found.value)
    assert not (run / "review.sqlite").exists()
