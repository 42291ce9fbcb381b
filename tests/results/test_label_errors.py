"""The answer of ``find_errors``: arrays, claims, corrections, answers and sentences."""

import numpy as np
import pytest
import torch

from pencil import LabelErrors
from pencil.belief import Belief
from pencil.belief.claims import Checks, doubted
from pencil.errors import DataError
from pencil.results.label_errors import LOOKS

NAMES = np.array(["<b>", "cat", "dog"])
ROWS = 400


def made_belief(*, passed=True, known=True, rows=ROWS):
    """Rows whose given class is likely, of which every fifth is likelier another one, more or less surely."""
    random = torch.Generator().manual_seed(0)
    given = torch.randint(3, (rows,), generator=random)
    sure = 0.9 + 0.099 * torch.rand(rows, generator=random)
    suspicious = torch.arange(rows) % 5 == 0
    best = torch.where(suspicious, (given + 1) % 3, given)
    sure = torch.where(suspicious, 0.999 - 0.6 * torch.rand(rows, generator=random) ** 3, sure)
    posterior = ((1 - sure) / 2)[:, None].repeat(1, 4)
    posterior[:, 3] = 0
    posterior[torch.arange(rows), best] = sure
    checks = Checks(known, passed and known, True)
    return Belief(
        given=given,
        posterior=doubted(posterior, given, 0.02),
        likeliest=best,
        checks=checks,
    )


@pytest.fixture(scope="module")
def errors():
    return LabelErrors(made_belief(), NAMES)


@pytest.fixture(scope="module")
def truth(errors):
    """What people say: the suggestion where it is rather sure."""
    return np.where(errors.confidence > 0.6, errors.suggested, errors.given)


def test_there_is_an_entry_for_each_row(errors):
    assert len(errors) == ROWS
    for name in ("given", "p_wrong", "suggested", "confidence", "verdict", "order"):
        assert getattr(errors, name).shape == (ROWS,), name
    assert errors.p_wrong.dtype == errors.confidence.dtype == np.float32
    assert errors.given.dtype == errors.suggested.dtype == NAMES.dtype
    assert np.issubdtype(errors.order.dtype, np.integer)
    assert list(errors.class_names) == list(NAMES)
    for each in (errors.p_wrong, errors.confidence):
        assert each.min() >= 0
        assert each.max() <= 1


def test_order_begins_with_the_rows_that_are_likeliest_wrong(errors):
    assert sorted(errors.order.tolist()) == list(range(ROWS))
    assert np.all(np.diff(errors.p_wrong[errors.order]) <= 0)
    assert np.array_equal(errors.order, sorted(range(ROWS), key=lambda row: -errors.p_wrong[row]))


def test_verdicts_follow_from_the_probabilities(errors):
    assert set(errors.verdict) == {"keep", "relabel", "review"}
    for row in range(ROWS):
        doubtful = errors.p_wrong[row] > 0.5 or errors.suggested[row] != errors.given[row]
        assert (errors.verdict[row] == "keep") != doubtful
    relabel = errors.verdict == "relabel"
    assert np.all(errors.suggested[relabel] != errors.given[relabel])
    review = errors.verdict == "review"
    assert errors.confidence[relabel].min() >= errors.confidence[review].max()


def test_sure_labels_change_only_rows_to_relabel(errors):
    labels, relabel = errors.labels(), errors.verdict == "relabel"
    assert np.array_equal(labels, np.where(relabel, errors.suggested, errors.given))
    assert np.array_equal(labels != errors.given, relabel)
    assert np.array_equal(labels, errors.labels("sure"))
    assert labels.dtype == NAMES.dtype


def test_best_labels_are_the_suggestions(errors):
    assert np.array_equal(errors.labels("best"), errors.suggested)
    assert errors.labels("best").dtype == NAMES.dtype
    assert np.sum(errors.labels("best") != errors.given) > np.sum(errors.labels() != errors.given)


def test_a_larger_share_of_false_ones_changes_more(errors):
    changed = [int(np.sum(errors.labels(max_false=share) != errors.given)) for share in (0.01, 0.1, 0.4)]
    assert changed == sorted(changed)
    assert changed[0] < changed[-1]
    wider = LabelErrors(made_belief(), NAMES, max_false=0.4)
    assert np.array_equal(wider.labels(), errors.labels(max_false=0.4))
    assert np.array_equal(wider.labels(max_false=0.1), errors.labels())


def test_what_is_claimed_about_all_labels(errors):
    assert errors.noise.rate == pytest.approx(float(errors.p_wrong.mean()))
    assert 0 < errors.noise.at_least <= errors.noise.rate
    assert errors.noise.at_most is None


def test_classes_add_up(errors):
    table = errors.by_class
    assert list(table) == ["class", "rows", "wrong"]
    assert list(table["class"]) == list(NAMES)
    assert table["rows"].sum() == ROWS
    assert table["wrong"].sum() == pytest.approx(float(errors.p_wrong.sum()), rel=1e-4)
    for name, rows, wrong in zip(*table.values(), strict=True):
        assert rows == np.sum(errors.given == name)
        assert wrong == pytest.approx(float(errors.p_wrong[errors.given == name].sum()), rel=1e-4)


def test_the_table_has_the_columns(errors):
    assert list(errors.table) == ["given", "suggested", "confidence", "p_wrong", "verdict"]
    for name, column in errors.table.items():
        assert np.array_equal(column, getattr(errors, name))


def test_a_data_frame_has_the_columns(errors):
    pytest.importorskip("pandas")
    frame = errors.to_pandas()
    assert list(frame.columns) == list(errors.table)
    assert list(frame["verdict"]) == list(errors.verdict)


@pytest.mark.parametrize("number", [1, 30, ROWS, 10 * ROWS])
def test_so_many_rows_are_asked_about(errors, number):
    rows = errors.ask(number)
    assert len(set(rows.tolist())) == len(rows) == min(number, ROWS)
    assert np.issubdtype(rows.dtype, np.integer)
    assert len(errors.ask()) == LOOKS


def test_answers_are_taken_as_arrays_lists_and_mappings(errors, truth):
    rows = errors.ask(40)
    first = errors.answer(rows, truth[rows])
    others = [
        errors.answer(rows.tolist(), truth[rows].tolist()),
        errors.answer({int(row): str(truth[row]) for row in rows}),
        errors.answer({row: truth[row] for row in rows}),
        errors.answer(rows[:10], truth[rows[:10]]).answer(rows[10:], truth[rows[10:]]),
    ]
    for other in others:
        assert np.array_equal(other.p_wrong, first.p_wrong)
        assert np.array_equal(other.labels(), first.labels())
    assert not np.array_equal(first.p_wrong, errors.p_wrong)


def test_answered_rows_become_what_people_said(errors, truth):
    rows = errors.ask(40)
    after = errors.answer(rows, truth[rows])
    assert np.array_equal(after.suggested[rows], truth[rows])
    assert np.array_equal(after.labels()[rows], truth[rows])
    assert np.array_equal(after.labels("best")[rows], truth[rows])
    assert np.all(after.confidence[rows] == 1)
    assert np.array_equal(after.p_wrong[rows], truth[rows] != errors.given[rows])
    assert np.array_equal(after.verdict[rows] == "relabel", truth[rows] != errors.given[rows])
    assert np.array_equal(after.verdict[rows] == "keep", truth[rows] == errors.given[rows])
    assert not set(after.ask(50)) & set(rows)


def test_answers_release_other_rows(errors, truth):
    rows = errors.ask(60)
    after = errors.answer(rows, truth[rows])
    others = np.setdiff1d(np.arange(ROWS), rows)
    assert np.sum(after.labels()[others] != errors.given[others]) > np.sum(
        errors.labels()[others] != errors.given[others]
    )


def test_answers_leave_the_errors_as_they_were(errors, truth):
    before = errors.labels(), errors.p_wrong.copy(), str(errors)
    errors.answer(errors.ask(30), truth[errors.ask(30)])
    assert np.array_equal(errors.labels(), before[0])
    assert np.array_equal(errors.p_wrong, before[1])
    assert str(errors) == before[2]


def test_the_last_answer_about_a_row_counts(errors):
    row = int(errors.ask(1)[0])
    after = errors.answer([row], ["cat"]).answer([row], ["dog"])
    assert after.labels()[row] == "dog"


def test_a_row_of_no_class_is_wrong_and_keeps_its_label(errors):
    rows = errors.ask(3)
    for after in (
        errors.answer(rows, [None, "cat", None]),
        errors.answer(dict(zip(rows, [None, "cat", None], strict=True))),
    ):
        assert after.p_wrong[rows[0]] == after.p_wrong[rows[2]] == 1
        assert after.labels()[rows[0]] == errors.given[rows[0]]
        assert after.labels()[rows[1]] == "cat"


def test_a_row_of_no_class_is_not_called_right(errors):
    rows = errors.ask(3)
    assert "keep" not in set(errors.answer(rows, [None] * 3).verdict[rows])


def test_no_answers_change_nothing(errors):
    assert np.array_equal(errors.answer({}).p_wrong, errors.p_wrong)
    assert np.array_equal(errors.answer([], []).labels(), errors.labels())


@pytest.mark.parametrize("name", ["elk", "elephant"])
def test_an_answer_may_be_a_class_that_no_label_has(errors, name):
    rows = errors.ask(2)
    after = errors.answer(rows, [name, "cat"])
    assert after.labels()[rows].tolist() == after.labels("best")[rows].tolist() == [name, "cat"]
    assert after.class_names.tolist() == [*NAMES.tolist(), name]
    assert after.by_class["rows"].tolist() == [*errors.by_class["rows"].tolist(), 0]
    assert after.given.tolist() == errors.given.tolist()
    again = after.answer(errors.ask(5)[3:], [name, "dog"])
    assert again.class_names.tolist() == [*NAMES.tolist(), name]
    assert again.labels()[rows[0]] == name


def test_a_new_class_of_numbers_keeps_its_value():
    errors = LabelErrors(made_belief(), np.array([10, 20, 30]))
    row = int(errors.ask(1)[0])
    assert errors.answer([row], [40]).labels()[row] == 40
    assert errors.answer([row], [40]).labels().dtype == errors.given.dtype


def test_a_fraction_is_no_class_of_whole_numbers():
    errors = LabelErrors(made_belief(), np.array([10, 20, 30]))
    with pytest.raises(DataError):
        errors.answer([0], [20.5])


@pytest.mark.parametrize(("names", "label"), [(NAMES, 1), (np.array([10, 20, 30]), "10")])
def test_numbers_are_no_class_among_texts_and_texts_none_among_numbers(names, label):
    with pytest.raises(DataError, match="labels"):
        LabelErrors(made_belief(), names).answer([0], [label])


def test_numbers_are_answered_as_numbers():
    errors = LabelErrors(made_belief(), np.array([10, 20, 30]))
    row = int(errors.ask(1)[0])
    for label in (30, np.int64(30)):
        after = errors.answer([row], [label])
        assert after.labels()[row] == 30
        assert np.issubdtype(after.labels().dtype, np.integer)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda errors: errors.labels("all"), ["take", "all", "sure", "best"]),
        (lambda errors: errors.labels(max_false=0.0), ["max_false", "0.0", "between"]),
        (lambda errors: errors.labels(max_false=1), ["max_false", "1", "between"]),
        (lambda errors: errors.ask(0), ["number", "0", "at least 1"]),
        (lambda errors: errors.answer([ROWS], ["cat"]), ["rows", str(ROWS), str(ROWS - 1)]),
        (lambda errors: errors.answer([-1], ["cat"]), ["rows", "-1", str(ROWS - 1)]),
        (lambda errors: errors.answer({ROWS: "cat"}), ["rows", str(ROWS), str(ROWS - 1)]),
        (lambda errors: errors.answer([0], ["catt"]), ["labels", "catt", "cat", "None"]),
        (lambda errors: errors.answer([0, 1], ["cat"]), ["labels", "1", "2"]),
        (lambda errors: errors.answer([0, 1]), ["labels", "0", "2"]),
    ],
)
def test_mistakes_are_named_with_field_value_and_remedy(errors, change, words):
    with pytest.raises(DataError) as raised:
        change(errors)
    for word in words:
        assert word in str(raised.value)


@pytest.mark.parametrize("rows", [[0.5], ["first"], [[0]]])
def test_rows_that_are_no_numbers_of_rows_are_mistakes(errors, rows):
    with pytest.raises(DataError):
        errors.answer(rows, ["cat"])


def test_a_mask_in_place_of_rows_is_a_mistake(errors):
    mask = errors.verdict == "review"
    with pytest.raises(DataError):
        errors.answer(mask, errors.suggested)


def test_sentences_say_what_was_found_and_what_to_do(errors):
    lines = str(errors).splitlines()
    assert str(round(float(errors.p_wrong.sum()))) in lines[0]
    assert str(ROWS) in lines[0]
    assert str(int(np.sum(errors.verdict == "relabel"))) in str(errors)
    assert "errors.labels()" in str(errors)
    assert "errors.ask(" in lines[-1]
    assert repr(errors) == str(errors)


def test_sentences_change_with_answers(errors, truth):
    rows = errors.ask(37)
    after = errors.answer(rows, truth[rows])
    assert str(after) != str(errors)
    assert "37" in str(after)


def test_a_larger_share_is_said():
    assert "25 %" in str(LabelErrors(made_belief(), NAMES, max_false=0.25))


def test_why_nothing_is_replaced_is_said():
    belief = made_belief(passed=False)
    errors = LabelErrors(belief, NAMES)
    assert np.array_equal(errors.labels(), errors.given)
    assert np.array_equal(errors.labels("best"), errors.given)
    assert belief.checks.reason in str(errors)
    assert "errors.labels()" not in str(errors)
    assert errors.noise.at_least == 0
    assert errors.noise.rate is not None


def test_features_that_say_nothing_give_no_rate():
    errors = LabelErrors(made_belief(known=False), NAMES)
    assert errors.noise.rate is None
    assert errors.noise.at_least == 0
    assert str(ROWS) in str(errors)
    assert "%" not in str(errors).splitlines()[0]


def test_names_of_classes_are_escaped_in_notebooks(errors):
    page = errors._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert str(int(errors.order[0])) in page
    for line in str(errors).splitlines():
        assert line.split(":")[0].split("(")[0] in page
