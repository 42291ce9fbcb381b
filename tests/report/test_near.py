"""Near-identical rows and outliers in the report."""

import pytest
import torch

from pencil.report import gather, page
from pencil.report.markdown import markdown
from pencil.report.near import GROUPS, MEMBERS, near_words
from pencil.report.words import advice, story
from pencil.results import NearRows, NeighbourCounts, write_neighbours
from pencil.run import RunDirectory

ROWS = 200
CLEAN = NeighbourCounts(0, 0, 0, 0, 0, 0, 0)


@pytest.fixture
def report_of(make_run, random_rows, tmp_path):
    def made(groups, outlier, **more):
        logits, given = random_rows(ROWS, 5)
        folder = make_run(tmp_path / "run", logits, given, names=[f"class {number}" for number in range(5)])
        write_neighbours(folder, NearRows.of({"train": groups, **more}, outlier, given))
        return gather(RunDirectory.open(folder), read_data=False, examples=4)

    return made


def grouped(sizes):
    """Groups of consecutive rows from row 10 on; all others are alone."""
    groups, start = torch.full((ROWS,), -1), 10
    for number, size in enumerate(sizes):
        groups[start : start + size] = number
        start += size
    return groups


def test_groups_with_different_labels_are_shown_with_the_surest_correction_first(report_of):
    report = report_of(grouped([12] * 11), torch.zeros(ROWS))
    assert report.near.counts.differing_groups == 11
    assert [len(group) for group in report.near.groups] == [MEMBERS] * GROUPS
    for group in report.near.groups:
        first = (group[0].case.row - 10) // 12
        assert all((example.case.row - 10) // 12 == first for example in group)
        assert len({example.case.given for example in group}) >= 4
    text = page(report)
    assert "11 groups of near-identical rows have different labels (132 rows)" in text
    assert f"{GROUPS} of 11 groups with different labels are shown" in text
    assert "--goal duplicates" in next(
        step.command for step in advice(report) if "near-identical" in step.words
    )


def test_groups_whose_labels_agree_are_counted_only(report_of, random_rows):
    given = random_rows(ROWS, 5)[1]
    same = (given == given[0]).nonzero()[:3, 0]
    groups = torch.full((ROWS,), -1).index_fill(0, same, 0)
    report = report_of(groups, torch.zeros(ROWS))
    assert report.near.groups == []
    assert "3 rows are near-identical to others; their labels agree." in page(report)
    assert not any("near-identical" in step.words for step in advice(report))


def test_outliers_are_shown_by_their_distance(report_of):
    outlier = torch.zeros(ROWS)
    outlier[[3, 90, 40, 7, 8]] = torch.tensor([2.0, 9.25, 4.0, 1.5, 1.2])
    report = report_of(torch.full((ROWS,), -1), outlier)
    assert [(example.case.row, times) for example, times in report.near.outliers] == [
        (90, 9.25),
        (40, 4.0),
        (3, 2.0),
        (7, 1.5),
    ]
    text = page(report)
    assert "5 rows are far from all others." in text
    assert "The first is 9.2 times as far from its neighbours as the median row." in text


def test_rows_of_other_splits_that_are_in_train_are_told_with_what_to_do(report_of):
    test, validation = torch.tensor([0, -1, 1, 1]), torch.tensor([-1, 0])
    report = report_of(grouped([1, 1]), torch.zeros(ROWS), test=test, validation=validation)
    words = " ".join(story(report))
    assert (
        "3 test rows are also in the training data. 1 validation row is also in the training data." in words
    )
    assert any(step.words.startswith("Remove the 3 test rows that are also") for step in advice(report))
    assert report.totals["test_rows_in_train"] == 3
    assert "3 test rows are also in the training data" in markdown(report)


def test_a_run_that_was_compared_and_has_none_says_so_in_its_section_alone(report_of):
    report = report_of(torch.full((ROWS,), -1), torch.zeros(ROWS))
    assert "No rows are near-identical, and none is far from all others." in page(report)
    assert "near-identical" not in " ".join(story(report))


def test_a_run_that_was_not_compared_has_no_section(make_run, random_rows, tmp_path):
    report = gather(RunDirectory.open(make_run(tmp_path / "run", *random_rows(ROWS, 5))), read_data=False)
    assert report.near is None
    assert 'id="near"' not in page(report)
    assert "Near-identical" not in markdown(report)
    assert "outliers" not in report.totals


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (CLEAN, "No rows are near-identical"),
        (
            NeighbourCounts(1, 2, 1, 2, 1, 1, 0),
            "1 group of near-identical rows has different labels (2 rows)",
        ),
        (NeighbourCounts(1, 2, 1, 2, 1, 1, 0), "1 row is far from all others."),
        (NeighbourCounts(1, 2, 1, 2, 1, 1, 0), "1 test row is also in the training data."),
    ],
)
def test_words_agree_with_their_number(counts, words):
    assert words in " ".join(near_words(counts))
