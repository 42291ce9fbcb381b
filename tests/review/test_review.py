"""A review from the first item to the table of labels, without HTTP."""

import csv

import pytest
import torch

from pencil.cli.main import cli
from pencil.errors import ConfigError, RunError
from pencil.review import Review
from pencil.review.history import OvertakenError, Who
from pencil.run import LabelTable, RunDirectory
from support import runs

ANN, BOB = Who("Ann", "window 1"), Who("Bob", "window 2")


@pytest.fixture
def run(make_run, tmp_path):
    return make_run(tmp_path, images=False)


@pytest.fixture
def review(run):
    opened = Review(RunDirectory.open(run))
    yield opened
    opened.close()


def decided(review, who, item, action, label=None, ticket=None):
    ticket = ticket or f"{who.client} {item['row']} {item['version']} {action}"
    return review.decide(who, ticket, [(item["row"], item["version"])], action, label)


def written(run, out, *words):
    from click.testing import CliRunner

    result = CliRunner().invoke(cli, ["labels", str(run), "--out", str(out), *words])
    assert result.exit_code == 0, result.output
    with out.open(newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def other_class(item):
    return next(label for label in range(4) if label not in (item["given"], item["likely"][0][0]))


@pytest.mark.parametrize("goal", ["clean", "relabel"])
def test_the_first_item_is_the_likeliest_error_and_tells_all_that_is_needed(run, goal):
    review = Review(RunDirectory.open(run), goal=goal)
    item = review.take("a")["items"][0]
    review.close()
    table = list(LabelTable.open(RunDirectory.open(run)).chunks())
    beliefs = torch.cat([chunk.distribution for chunk in table])
    wrong = 1 - beliefs[range(60), torch.cat([chunk.given for chunk in table])]
    top = beliefs.topk(4, dim=1)
    row = int((wrong if goal == "clean" else -top.values[:, 0]).argmax())
    assert (item["row"], item["id"], item["version"]) == (row, f"row {row}", 0)
    assert item["verdict"] in ("review", "relabel")
    assert item["p_wrong"] == pytest.approx(float(wrong[row]), abs=1e-5)
    assert [label for label, _ in item["likely"]] == top.indices[row].tolist()
    assert [share for _, share in item["likely"]] == pytest.approx(top.values[row].tolist(), abs=1e-5)


def test_two_clients_get_two_items(review):
    mine, theirs = review.take("a")["items"][0], review.take("b")["items"][0]
    assert mine["row"] != theirs["row"]
    assert review.take("a")["items"] == [mine]


def test_every_action_ends_in_the_table_of_labels(review, run, tmp_path):
    before = written(run, tmp_path / "before.csv")
    answer, wanted = review.take("window 1"), {}
    for action in ("accept", "keep", "choose", "drop", "skip"):
        item = answer["items"][0]
        while item["given"] == item["likely"][0][0]:  # there all of them mean the same
            answer = decided(review, ANN, item, "keep")
            item = answer["items"][0]
        label = {"accept": item["likely"][0][0], "keep": item["given"], "choose": other_class(item)}.get(
            action
        )
        wanted[item["id"]] = (action, label)
        answer = decided(review, ANN, item, action, label if action == "choose" else None)
    table = written(run, tmp_path / "after.csv")
    assert list(table) == list(before)
    words = {"accept": ("accepted", "relabel"), "keep": ("kept", "keep"), "choose": ("changed", "relabel")}
    for name, (action, label) in wanted.items():
        row = table[name]
        if action in words:
            assert (row["decision"], row["verdict"]) == words[action]
            assert (row["suggested_label"], row["confidence"]) == (f"class {label}", "1.0")
        else:
            assert (row["decision"], row["verdict"]) == (
                ("dropped", "drop") if action == "drop" else ("", before[name]["verdict"])
            )
            assert row["suggested_label"] == before[name]["suggested_label"]
    for name, row in table.items():
        if not row["decision"]:
            assert row == before[name]


def test_the_whole_distribution_of_a_decided_row_is_certain(review, run, tmp_path):
    item = review.take("window 1")["items"][0]
    decided(review, ANN, item, "choose", 2)
    row = written(run, tmp_path / "labels.csv", "--distribution")[item["id"]]
    assert [float(row[f"p_class {label}"]) for label in range(4)] == [0, 0, 1, 0]


@pytest.mark.parametrize(("key", "decision"), [("accept", "kept"), ("keep", "kept")])
def test_where_the_suggestion_is_the_given_label_it_is_kept(review, key, decision):
    answer = review.take("window 1")
    while answer["items"][0]["given"] != answer["items"][0]["likely"][0][0]:
        answer = decided(review, ANN, answer["items"][0], "drop")
    assert decided(review, ANN, answer["items"][0], key)["made"][0]["action"] == decision


def test_choosing_the_likeliest_class_by_hand_accepts_it(review):
    answer = review.take("window 1")
    while answer["items"][0]["given"] == answer["items"][0]["likely"][0][0]:
        answer = decided(review, ANN, answer["items"][0], "keep")
    likeliest = answer["items"][0]["likely"][0][0]
    assert decided(review, ANN, answer["items"][0], "choose", likeliest)["made"][0]["action"] == "accepted"


def test_of_two_people_with_the_same_item_the_second_learns_what_the_first_decided(review):
    item = review.take("window 1")["items"][0]
    first = decided(review, ANN, item, "drop")["made"][0]
    with pytest.raises(OvertakenError) as caught:
        decided(review, BOB, item, "keep")
    assert review.describe(caught.value.entry) == first
    assert review.progress()["decided"] == 1


def test_undo_brings_the_item_back_and_it_can_be_decided_again(review, run, tmp_path):
    item = review.take("window 1")["items"][0]
    decided(review, ANN, item, "drop")
    answer = review.undo(ANN, "undo 1")
    assert answer["undone"][0]["action"] == "undone"
    assert answer["items"] == [{**item, "version": 2}]
    assert answer["progress"]["decided"] == 0
    assert written(run, tmp_path / "labels.csv")[item["id"]]["decision"] == ""
    decided(review, ANN, answer["items"][0], "keep")
    assert written(run, tmp_path / "labels.csv")[item["id"]]["decision"] == "kept"
    assert [entry["action"] for entry in review.recent()] == ["kept"]


def test_nothing_to_undo_is_no_mistake(review):
    answer = review.undo(ANN, "undo 1")
    assert answer["undone"] == []
    assert answer["items"] == review.take("window 1")["items"]


def test_the_queue_ends(review):
    answer = review.take("window 1")
    total = answer["progress"]["total"]
    for _ in range(total):
        answer = decided(review, ANN, answer["items"][0], "accept")
    assert answer["items"] == []
    assert answer["progress"] == {"total": total, "decided": total}
    assert 0 < total < 60


def test_other_probabilities_make_the_order_again_and_decisions_stay(review, run):
    item = review.take("window 1")["items"][0]
    decided(review, ANN, item, "keep")
    before = review.start()["forecast"]
    runs.make_surer(run)
    again = Review(RunDirectory.open(run), with_sure=True)
    assert again.start()["forecast"]["expected"] < before["expected"] - 1
    assert again.progress() == {"total": 60, "decided": 1}
    assert [made["id"] for made in again.recent()] == [item["id"]]
    again.close()


def test_all_rows_are_queued_on_request(run, review):
    review.close()
    everything = Review(RunDirectory.open(run), with_sure=True)
    assert everything.progress()["total"] == 60
    everything.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"action": "burn"}, "action: 'burn' is unknown; use accept"),
        ({"action": "choose"}, "label: None is not a class"),
        ({"action": "choose", "label": 4}, "label: 4 is not a class; use 0 to 3"),
        ({"seen": [(60, 0)]}, "row 60: the run has 60 rows"),
        ({"seen": [(1, 0), (2, 0), (1, 0)]}, "items: a row is listed twice"),
    ],
)
def test_mistakes_are_named_and_enter_nothing(review, changes, words):
    asked = {"seen": [(1, 0)], "action": "keep", "label": None, **changes}
    with pytest.raises(ConfigError, match=words):
        review.decide(ANN, "t", **asked)
    assert review.recent() == []


def test_a_review_of_other_labels_is_refused(make_run, review, run, tmp_path):
    other = make_run(tmp_path / "other", rows=50, images=False)
    (other / "review.sqlite").write_bytes((run / "review.sqlite").read_bytes())
    review.close()
    for name in ("review.sqlite", "review.sqlite-wal", "review.sqlite-shm"):
        if (run / name).exists():
            (other / name).write_bytes((run / name).read_bytes())
    with pytest.raises(RunError, match="belongs to"):
        Review(RunDirectory.open(other))


def test_without_the_data_the_review_goes_on_without_images(make_run, tmp_path):
    run = make_run(tmp_path, images=False)
    (tmp_path / "points.npz").unlink()
    review = Review(RunDirectory.open(run))
    assert "no images are shown: data.path" in review.start()["trouble"]
    assert review.picture(1) is None
    review.close()


def test_cut_rows_are_reviewed_too(make_run, tmp_path):
    from pencil.algorithm.top_rows import cut
    from pencil.stores import StoreChoice

    logits = 8 * torch.rand(40, 30, generator=torch.Generator().manual_seed(0))
    store = StoreChoice.parse("top:8").make(40, 30)
    store.scatter(torch.arange(40), cut(logits, 8))
    run = make_run(tmp_path, rows=40, classes=30, images=False, kept=store.state(), store="top:8")
    review = Review(RunDirectory.open(run))
    item = review.take("window 1")["items"][0]
    decided(review, ANN, item, "choose", 29)
    review.close()
    row = written(run, tmp_path / "labels.csv")[item["id"]]
    assert (row["suggested_label"], row["confidence"], row["decision"]) == ("class 29", "1.0", "changed")
