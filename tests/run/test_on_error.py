"""Training on without rows that cannot be read: told, exact on resume, refused where ranks differ."""

import json

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from pencil.config import RunConfig
from pencil.data import Order
from pencil.errors import DataError, RunError
from pencil.presets import preset
from pencil.run import resume, train
from pencil.run.build import check_same_rows

BAD = ("a/03.png", "b/07.png", "b/08.png")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    generator = torch.Generator().manual_seed(0)
    for kind, colour in (("a", 40), ("b", 200)):
        (folder / kind).mkdir()
        for number in range(12):
            shade = colour + int(torch.randint(30, (), generator=generator))
            Image.new("RGB", (8, 8), (shade, shade, shade)).save(folder / kind / f"{number:02}.png")
    for name in BAD:
        (folder / name).write_bytes(b"broken")
    return folder


@pytest.fixture(scope="module")
def config(photos):
    table = preset("folder", str(photos)).table()
    table["data"] |= {"size": 8, "on_error": "skip", "augment": {"crop": 8}, "validation": 0.2}
    table["model"] = {"name": "small_cnn"}
    table["train"] |= {"batch_size": 4, "precision": "fp32"}
    table["checkpoint"] = {"steps": 3, "keep": 9}
    for phase, epochs in zip(table["phases"], (1, 2, 1), strict=True):
        phase["epochs"] = epochs
    return RunConfig.of(table)


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    with pytest.warns(
        UserWarning, match=r"3 rows cannot be read and are left out:\n  a/03.png: .*03.png: cannot"
    ):
        return train(config, tmp_path_factory.mktemp("runs") / "whole")


def test_what_was_left_out_is_in_the_summary(whole):
    summary = json.loads((whole.path / "summary.json").read_text())
    assert list(summary["skipped_rows"]) == list(BAD)
    assert summary["skipped_rows_count"] == 3
    assert "cannot be decoded" in summary["skipped_rows"]["a/03.png"]
    assert summary["examples"] == 17  # 24 less 3, of which a fifth is held out


class StopAfter:
    """Stops a run as a signal would, in mid-epoch."""

    def handle(self, event):
        if event.kind == "step" and event.step == 4:
            raise KeyboardInterrupt

    def close(self):
        pass


def test_resuming_is_exact(config, whole, tmp_path):
    with pytest.warns(UserWarning, match="3 rows cannot be read"), pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", [StopAfter()])
    assert not (tmp_path / "run" / "summary.json").exists()
    with pytest.warns(UserWarning, match="3 rows cannot be read"):
        resume(tmp_path / "run")
    for name in ("model.safetensors", "labels/00000-00000.safetensors"):
        found, wanted = load_file(tmp_path / "run" / name), load_file(whole.path / name)
        assert all(torch.equal(found[key], wanted[key]) for key in wanted)


def test_without_asking_it_is_an_error_that_says_how_to_go_on(config, tmp_path):
    table = config.table()
    del table["data"]["on_error"]
    with pytest.raises(DataError, match=r"03.png: cannot be decoded .*--set data.on_error=skip"):
        train(RunConfig.of(table), tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Two:
    """Two ranks, of which the other one says this."""

    rank, world_size = 0, 2

    def __init__(self, other):
        self.other = other

    def total(self, mine):
        return mine + self.other if self.other is not None else 2 * mine


def test_ranks_that_leave_out_different_rows_are_refused():
    check_same_rows(Order(9), Two(None), ["a", "b"])
    seen = []
    spy = Two(None)
    spy.total = lambda mine: seen.append(mine.clone()) or 2 * mine
    check_same_rows(Order(9), spy, ["a", "c"])
    with pytest.raises(RunError, match="the ranks read different rows"):
        check_same_rows(Order(9), Two(seen[0]), ["a", "b"])


class Three(Two):
    """Three ranks, of which the other two say this together."""

    world_size = 3


def test_ranks_with_different_numbers_of_rows_are_refused():
    """As two hosts, each with its own copy of a folder."""
    check_same_rows(Order(9), Two(None))
    seen = []
    spy = Two(None)
    spy.total = lambda mine: seen.append(mine.clone()) or 2 * mine
    check_same_rows(Order(8), spy)
    with pytest.raises(RunError, match="the ranks read different rows"):
        check_same_rows(Order(9), Two(seen[0]))
    check_same_rows(Order(10), spy)
    with pytest.raises(
        RunError, match="the ranks read different rows"
    ):  # of three ranks, one has the average
        check_same_rows(Order(9), Three(seen[0] + seen[1]))
