"""Labels somebody made sure of: they replace the given ones, never move, and dropped rows are left out."""

import contextlib
import csv
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pencil.configure import train_config
from pencil.data import Examples, RowNumbers, TensorInputs, as_text, row_keys, shown
from pencil.errors import DataError
from pencil.kinds import TrustedLabels
from pencil.review import Review
from pencil.review.history import Who
from pencil.run import LabelTable, RunDirectory, prepare_examples, train
from pencil.run.trusted import Verified, VerifiedLabel, locked, with_trusted
from pencil.stores import GivenLabels

ANN = Who("Ann", "window 1")
NOISE = {"kind": "symmetric", "rate": 0.3}


def write(path, header, *rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


@pytest.fixture
def examples(make_config):
    return prepare_examples(make_config(data={"noise": NOISE}).data, seed=0).train


def test_labels_by_id_replace_the_given_ones_and_are_trusted(examples, tmp_path):
    file = write(tmp_path / "sure.csv", ["id", "label"], ["row 7", "żółć"], ["row 3", "cow, small"])
    sure, _ = with_trusted(examples, TrustedLabels(path=file))
    assert len(sure) == len(examples)
    assert [sure.labels.hard[row].item() for row in (7, 3)] == [1, 2]
    assert sure.labels.trusted.nonzero()[:, 0].tolist() == [3, 7]
    others = [row for row in range(len(sure)) if row not in (3, 7)]
    assert torch.equal(sure.labels.values[others], examples.labels.values[others])
    assert torch.equal(sure.reference, examples.reference)


def test_the_table_of_a_reviewed_run_counts_where_somebody_decided(examples, tmp_path):
    header = ["id", "given_label", "suggested_label", "confidence", "verdict", "decision"]
    file = write(
        tmp_path / "labels.csv",
        header,
        ["row 0", "cat", "żółć", "1.0", "relabel", "changed"],
        ["row 1", "cat", "żółć", "0.9", "relabel", ""],
        ["row 2", "cat", "cat", "0.3", "drop", "dropped"],
    )
    sure, _ = with_trusted(examples, TrustedLabels(path=file))
    assert len(sure) == len(examples) - 1
    assert "row 2" not in list(sure.ids)
    assert sure.labels.trusted.nonzero()[:, 0].tolist() == [0]
    assert sure.labels.hard[0] == 1
    assert sure.labels.hard[1] == examples.labels.hard[1]


def test_soft_labels_become_certain_and_trusted_ones_stay_trusted():
    given = GivenLabels.of(torch.full((3, 4), 0.25), 4, torch.tensor([True, False, False]))
    sure = locked(given, torch.tensor([2]), torch.tensor([3]))
    assert sure.values[2].tolist() == [0, 0, 0, 1]
    assert sure.trusted.tolist() == [True, False, True]
    assert given.values[2].tolist() == [0.25] * 4


def test_the_label_before_is_known_of_rows_that_were_not_trusted():
    given = GivenLabels.of([0, 1, 2, 3], 4, torch.tensor([True, False, False, False]))
    sure = locked(given, torch.tensor([0, 2]), torch.tensor([1, 3]))
    assert sure.before.tolist() == [-1, -1, 2, -1]
    assert sure.doubted.tolist() == [1, 1, 2, 3]
    assert sure.verified.tolist() == [True, False, False, False]
    again = locked(sure, torch.tensor([2]), torch.tensor([0])).subset(torch.tensor([2, 1]))
    assert (again.hard.tolist(), again.before.tolist()) == ([0, 1], [2, -1])


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        (["id", "name"], [["row 1", "cat"]], "found the columns id, name; expected id and label"),
        (
            ["id", "label"],
            [["row 1", "cut"]],
            "labels 'row 1' as 'cut', which is no class of the data.*'cat'",
        ),
        (["id", "label"], [["row 1", "cat"], ["row 1", "cat"]], "row 3: id 'row 1' occurs more than once"),
        (["id", "label"], [["row 1"]], "row 2: 1 cells, but 2 columns"),
        (["id", "label"], [["elsewhere", "cat"]], r"no id of .* \(such as 'elsewhere'\).*'row 0'"),
    ],
)
def test_mistakes_in_the_file_are_named(examples, tmp_path, header, rows, message):
    file = write(tmp_path / "sure.csv", header, *rows)
    with pytest.raises(DataError, match=message):
        with_trusted(examples, TrustedLabels(path=file))


def test_a_path_that_is_neither_is_named(examples, finished, tmp_path):
    with pytest.raises(DataError, match=r"neither a reviewed run nor a \.csv file"):
        with_trusted(examples, TrustedLabels(path=str(tmp_path / "absent.csv")))
    with pytest.raises(DataError, match=r"has no review; .*pencil review"):
        with_trusted(examples, TrustedLabels(path=str(tmp_path)))


def test_ids_that_are_not_trained_on_are_counted(examples, tmp_path):
    file = write(tmp_path / "sure.csv", ["id", "label"], ["row 7", "cat"], ["elsewhere", "cat"])
    with pytest.warns(UserWarning, match="1 of the 2 rows of .* are not among those to train on"):
        with_trusted(examples, TrustedLabels(path=file))


@pytest.fixture(scope="module")
def reviewed(make_config, tmp_path_factory):
    """A run of half of the rows, some decided against what the network believes, one dropped, one undone."""
    config = make_config(data={"noise": NOISE, "limit": 80, "validation": 0.2})
    directory = train(config, tmp_path_factory.mktemp("runs") / "first")
    review = Review(directory, with_sure=True)
    answer, wanted = review.take(ANN.client), {}
    for number in range(12):
        item = answer["items"][0]
        label = (item["likely"][0][0] + 1) % 3
        wanted[item["id"]] = None if number == 4 else label
        action = {"action": "drop"} if number == 4 else {"action": "choose", "label": label}
        answer = review.decide(ANN, f"t{number}", [(item["row"], item["version"])], **action)
    review.undo(ANN, "undo")
    wanted.popitem()
    review.close()
    return directory, wanted


@pytest.mark.parametrize("store", ["dense", "top:2"])
def test_a_run_trained_again_carries_the_humans_labels_and_never_moves_them(
    make_config, reviewed, tmp_path, store
):
    first, wanted = reviewed
    data = {"noise": NOISE, "limit": 80, "validation": 0.2, "trusted": {"path": str(first.path)}}
    again = train(make_config(data=data, store=store), tmp_path / "again")
    assert again.config.data.trusted.entry == 13
    assert set(_ids(first)) - set(_ids(again)) == {name for name, label in wanted.items() if label is None}
    (chunk,) = LabelTable.open(again).chunks()
    sure = {}
    best = chunk.distribution.max(dim=1)
    for row, name in enumerate(chunk.ids):
        if chunk.trusted[row]:
            sure[name] = best.indices[row].item()
            assert chunk.given[row] == best.indices[row]
            assert best.values[row] > 0.99
    assert sure == {name: label for name, label in wanted.items() if label is not None}
    (learned,) = LabelTable.open(again).learned_chunks()
    moved = learned.distribution[~learned.trusted].max(dim=1).values
    assert moved.min() < 0.99  # the others did move


def test_a_review_that_goes_on_does_not_change_a_run_that_began(make_config, reviewed):
    first, wanted = reviewed
    data = {"noise": NOISE, "limit": 80, "validation": 0.2}
    now = prepare_examples(make_config(data={**data, "trusted": {"path": str(first.path)}}).data, 0).train
    then = {"path": str(first.path), "entry": 2}
    before = prepare_examples(make_config(data={**data, "trusted": then}).data, 0).train
    assert int(now.labels.trusted.sum()) == len([label for label in wanted.values() if label is not None])
    assert [before.ids[row] for row in before.labels.trusted.nonzero()[:, 0].tolist()] == sorted(
        list(wanted)[:2], key=list(before.ids).index
    )


def test_a_run_with_trusted_rows_does_not_ask_about_them_again(make_config, reviewed, tmp_path):
    first, wanted = reviewed
    data = {"noise": NOISE, "limit": 80, "validation": 0.2, "trusted": {"path": str(first.path)}}
    again = train(make_config(data=data), tmp_path / "again")
    review = Review(RunDirectory.open(again.path), with_sure=True)
    total = review.progress()["total"]
    review.close()
    assert total == len(_ids(again)) - len([label for label in wanted.values() if label is not None])


def _ids(directory):
    return [name for chunk in LabelTable.open(directory).chunks() for name in chunk.ids]


def numbered(path, rows, begin="the"):
    """Texts without an id column, so that their ids are row numbers."""
    texts = [
        [f"{begin} {'cow' if row % 2 else 'cat'} number {row}", "cow" if row % 2 else "cat"] for row in rows
    ]
    return write(path, ["text", "label"], *texts)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A run of texts with decisions on rows 2 and 20; the first one drops its row."""
    folder = tmp_path_factory.mktemp("texts")
    config = train_config(
        numbered(folder / "texts.csv", range(24)), None, None, epochs="1,6,1", embed="ngrams"
    )
    directory = train(config, folder / "run")
    review = Review(directory, with_sure=True)
    for number, (row, action) in enumerate(((2, {"action": "drop"}), (20, {"action": "choose", "label": 1}))):
        review.decide(ANN, f"t{number}", [(row, 0)], **action)
    review.close()
    return directory


def prepared(data, directory):
    config = train_config(data, None, None, embed="ngrams", trusted=str(directory.path))
    return prepare_examples(config.data, 0).train


def text_of(examples, row):
    return as_text(shown(examples.inputs, row))


@pytest.mark.parametrize("removed", [0, 2, 10, 20, 23])
def test_decisions_follow_their_rows_where_ids_are_row_numbers(texts, tmp_path, removed):
    left = [row for row in range(24) if row != removed]
    with pytest.warns(UserWarning, match="1 of the 2") if removed in (2, 20) else contextlib.nullcontext():
        rows = prepared(numbered(tmp_path / "texts.csv", left), texts)
    sure = [] if rows.labels.trusted is None else rows.labels.trusted.nonzero()[:, 0].tolist()
    assert [text_of(rows, row) for row in sure] == [text for text in ["the cat number 20"] if removed != 20]
    assert "the cat number 2" not in [text_of(rows, row) for row in range(len(rows))]


def test_row_numbers_attach_nothing_where_all_contents_changed(texts, tmp_path):
    with pytest.warns(UserWarning, match="2 of the 2"):
        rows = prepared(numbered(tmp_path / "texts.csv", range(24), begin="a"), texts)
    assert len(rows) == 24
    assert rows.labels.trusted is None or not rows.labels.trusted.any()


def test_a_decision_for_a_class_that_is_gone_is_left_out(texts, tmp_path):
    """Also where rows were decided that are gone with it: nothing is refused because of what does not matter."""
    rows = [[f"the cat number {row}", "cat" if row % 4 else "dog"] for row in range(0, 24, 2)]
    data = write(tmp_path / "texts.csv", ["text", "label"], *rows)
    with pytest.warns(UserWarning, match="cow"):
        found = prepared(data, texts)
    assert len(found) == len(rows) - 1
    assert not found.labels.trusted.any()


@given(
    rows=st.lists(st.tuples(st.integers(0, 11), st.booleans()), unique_by=lambda row: row[0], min_size=2),
    decided=st.dictionaries(st.integers(0, 11), st.sampled_from(["cat", "cow", "gone", None]), min_size=1),
    own=st.booleans(),
)
def test_no_verified_label_reaches_another_row(rows, decided, own):
    """Rows are moved, removed and changed; whatever label is locked afterwards, people saw this content with it."""
    names = [f"image {row}" if own else str(row) for row in range(12)]
    keys = row_keys(TensorInputs(torch.arange(12.0)[:, None]))
    made = [VerifiedLabel(names[row], label, int(keys[row])) for row, label in decided.items()]
    verified = Verified(made, own_ids=own, seen=keys)
    contents = torch.tensor([row + 100.0 * changed for row, changed in rows])[:, None]
    ids = [names[row] for row, _ in rows] if own else RowNumbers(len(rows))
    given_labels = GivenLabels.of(torch.zeros(len(rows), dtype=torch.int64), 2)
    train_rows = Examples(TensorInputs(contents), given_labels, ("cat", "cow"), ids)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr("pencil.run.trusted.verified_labels", lambda _: verified)
        try:
            found, kept = with_trusted(train_rows, TrustedLabels(path="run"))
        except DataError:  # no id is known, or every row is dropped
            assert not own or not {row for row, _ in rows} & set(decided) or not any(decided.values())
            return
    anew = own and all(changed for _, changed in rows)
    wanted = {
        row + 100.0 * changed: decided[row]
        for row, changed in rows
        if row in decided and (not changed or anew)
    }
    sure = (
        found.labels.trusted
        if found.labels.trusted is not None
        else torch.zeros(len(found), dtype=torch.bool)
    )
    values = found.inputs.fetch(torch.arange(len(found)))[:, 0].tolist()
    locked_labels = {
        value: found.class_names[label]
        for value, label, is_sure in zip(values, found.labels.hard.tolist(), sure.tolist(), strict=True)
        if is_sure
    }
    assert locked_labels == {value: label for value, label in wanted.items() if label not in (None, "gone")}
    assert len(found) == len(rows) - sum(label is None for label in wanted.values())
    assert {each.key for each in kept.labels} >= {int(keys[row]) for row in decided if not anew}
