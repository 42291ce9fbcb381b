"""Labels on disk: what every rank wrote comes back in the order of the rows, each once."""

import os

import pytest
import torch
from safetensors.torch import load_file, save_file

from pencil.errors import RunError
from pencil.results import SavedLabels, save_labels
from pencil.results import saved as saved_module
from pencil.stores import GivenLabels

IDS = [
    "a.png",
    "two\nlines",
    "",
    b"\xff.png".decode("utf-8", "surrogateescape"),
    "\u017c\u00f3\u0142\u0107",
    "f",
    "g",
]
LABELS = torch.tensor([2, 0, 1, 1, 2, 0, 1])
ROWS = {"values": torch.arange(21.0).reshape(7, 3), "top": torch.arange(7, dtype=torch.int16)[:, None]}


def save(folder, owners, labels=LABELS, trusted=None):
    """Rows as the ranks own them: ``owners`` lists each rank's row numbers, in the order it keeps them."""
    for rank, numbers in enumerate(owners):
        mine = torch.tensor(numbers, dtype=torch.long)
        given = GivenLabels.of(labels, 3, trusted).subset(mine)
        rows = {name: value[mine] for name, value in ROWS.items()}
        save_labels(folder, mine, given, rows, [IDS[row] for row in numbers], rank)


@pytest.mark.parametrize(
    "owners", [[[0, 1, 2, 3, 4, 5, 6]], [[4, 0, 2], [6, 1], [5, 3]], [[6, 5, 4, 3, 2, 1, 0], []]]
)
@pytest.mark.parametrize("piece", [2, 100])
def test_parts_of_any_ranks_come_back_in_row_order(tmp_path, monkeypatch, owners, piece):
    monkeypatch.setattr(saved_module, "PIECE", piece)
    save(tmp_path, owners)
    found = list(SavedLabels(tmp_path, 3).chunks(3))
    assert [chunk.first for chunk in found] == [0, 3, 6]
    assert [name for chunk in found for name in chunk.ids] == IDS
    assert torch.equal(torch.cat([chunk.given.hard for chunk in found]), LABELS)
    for name, value in ROWS.items():
        together = torch.cat([chunk.rows[name] for chunk in found])
        assert together.dtype == value.dtype
        assert torch.equal(together, value)


@pytest.mark.parametrize("soft", [False, True])
def test_soft_labels_and_trust_come_back(tmp_path, soft):
    labels = torch.nn.functional.one_hot(LABELS, 3).float() * 0.5 + 1 / 6 if soft else LABELS
    trusted = torch.arange(7) % 2 == 0
    save(tmp_path, [[1, 3, 5], [0, 2, 4, 6]], labels, trusted)
    found = SavedLabels(tmp_path, 3).rows(0, 7).given
    assert torch.equal(found.values, GivenLabels.of(labels, 3).values)
    assert torch.equal(found.trusted, trusted)


def test_rows_of_no_width_come_back(tmp_path):
    save_labels(tmp_path, torch.arange(7), GivenLabels.of(LABELS), {"values": torch.empty(7, 0)}, IDS)
    assert SavedLabels(tmp_path, 3).rows(2, 5).rows["values"].shape == (3, 0)


def test_what_an_earlier_attempt_of_a_rank_left_does_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(saved_module, "PIECE", 2)
    save(tmp_path, [[0, 1, 2, 3, 4, 5, 6]])
    save(tmp_path, [[0, 1, 2]])
    assert SavedLabels(tmp_path, 3).num_rows == 3


@pytest.mark.parametrize("owners", [[[0, 1, 2], [2, 3]], [[0, 1], [3]]])
def test_a_row_twice_or_missing_is_an_error(tmp_path, owners):
    save(tmp_path, owners)
    with pytest.raises(RunError, match=r"missing or repeated.*pencil resume"):
        list(SavedLabels(tmp_path, 3).chunks(10))


def test_no_labels_and_cut_off_labels_say_what_to_do(tmp_path):
    with pytest.raises(RunError, match=r"labels cannot be read \(no labels found\); .*pencil resume"):
        SavedLabels(tmp_path, 3)
    save(tmp_path, [[0, 1, 2]])
    part = next((tmp_path / "labels").iterdir())
    part.write_bytes(part.read_bytes()[:-5])
    with pytest.raises(RunError, match=r"labels cannot be read .*pencil resume"):
        SavedLabels(tmp_path, 3)


HALF = torch.full((7, 3), 1 / 3)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("row", None),
        ("row", torch.arange(7.0)),
        ("row", torch.arange(7).flip(0)),
        ("row", torch.arange(-1, 6)),
        ("row", torch.zeros(7, dtype=torch.int64)),
        ("row", torch.tensor(3)),
        ("row", torch.arange(6)),
        ("id_ends", None),
        ("id_ends", torch.arange(7).flip(0)),
        ("id_ends", torch.arange(7) * 1000),
        ("id_ends", torch.arange(7) - 3),
        ("id_ends", torch.arange(7, dtype=torch.int32)),
        ("ids", None),
        ("ids", torch.zeros(2, 2, dtype=torch.uint8)),
        ("given", None),
        ("given", torch.tensor([0, 1, 2, 3, 0, 1, 2])),
        ("given", torch.tensor([0, 1, 2, -1, 0, 1, 2])),
        ("given", torch.zeros(7)),
        ("given", torch.ones(7, 2)),
        ("given", torch.full((7, 3), float("nan"))),
        ("trusted", torch.ones(7)),
        ("trusted", torch.ones(6, dtype=torch.bool)),
        ("rows/values", None),
        ("rows/values", torch.ones(7, 4)),
        ("rows/values", torch.ones(7, 3, dtype=torch.float64)),
        ("rows/values", torch.ones(6, 3)),
        ("rows/values", torch.ones(7)),
    ],
)
def test_a_part_that_no_run_wrote_is_one_error(tmp_path, name, tensor):
    save_labels(tmp_path, torch.arange(7), GivenLabels.of(LABELS), {"values": HALF}, IDS)
    (part,) = (tmp_path / "labels").glob("*.safetensors")
    tensors = {key: value for key, value in load_file(part).items() if key != name}
    save_file(tensors if tensor is None else tensors | {name: tensor}, part)
    with pytest.raises(RunError, match=r"labels cannot be read \(.*write the results again"):
        SavedLabels(tmp_path, 3, {"values": torch.empty(0, 3)}).rows(0, 7)


def test_parts_that_are_not_alike_are_one_error(tmp_path):
    save(tmp_path, [[0, 1, 2], [3, 4, 5, 6]])
    save_labels(
        tmp_path,
        torch.arange(3),
        GivenLabels.of(LABELS[:3], 3, torch.ones(3)),
        {name: value[:3] for name, value in ROWS.items()},
        IDS[:3],
    )
    with pytest.raises(RunError, match=r"its parts hold different tensors"):
        SavedLabels(tmp_path, 3).rows(0, 7)


def test_other_tensors_are_passed_over(tmp_path):
    save(tmp_path, [[0, 1, 2, 3, 4, 5, 6]])
    (part,) = (tmp_path / "labels").glob("*.safetensors")
    save_file(load_file(part) | {"more": torch.tensor(1.0)}, part)
    assert SavedLabels(tmp_path, 3).rows(0, 7).ids == IDS


def test_a_pipe_among_the_parts_is_not_waited_for(tmp_path):
    (tmp_path / "labels").mkdir()
    os.mkfifo(tmp_path / "labels" / "00000-00000.safetensors")
    with pytest.raises(RunError, match=r"is not a plain file"):
        SavedLabels(tmp_path, 3)
