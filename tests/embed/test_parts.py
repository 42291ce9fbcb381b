"""Features written in parts: a run that was killed goes on with the same rows alone, also without labels."""

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from pencil import durable
from pencil.data import Examples, Text, Unlabelled, read_shards
from pencil.data.packed import PackedTexts
from pencil.data.readers.folder import read_images_alone
from pencil.data.readers.texts import TextInputs
from pencil.embed.outputs import NpzOutput, ShardOutput
from pencil.embed.parts import embed_rows, join_parts
from pencil.errors import ConfigError, PencilError
from pencil.stores import GivenLabels


class Lengths:
    """Encodes a text by its length, an image by its mean; dies after some rows."""

    name, mark, size = "lengths", "m", 1

    def __init__(self, takes, left=1000):
        self.takes, self.left = takes, left

    def encode(self, rows):
        self.left -= len(rows)
        if self.left < 0:
            raise KeyboardInterrupt
        values = [len(row.text) if self.takes == "texts" else row.pixels.float().mean() for row in rows]
        return torch.tensor(values, dtype=torch.float32)[:, None]


def images(folder):
    return read_images_alone(folder)


def texts(folder):
    found = [path.read_bytes().hex() for path in sorted(folder.iterdir())]
    return Unlabelled(TextInputs(PackedTexts(found)), [str(row) for row in range(len(found))])


def save(folder, name, value):
    Image.fromarray(np.full((4, 4, 3), value, dtype=np.uint8)).save(folder / f"{name}.png")


@pytest.mark.parametrize(("read", "takes"), [(images, "images"), (texts, "texts")])
@pytest.mark.parametrize("change", ["none", "other row", "other content"])
def test_rows_without_labels_are_known_by_ids_and_contents(tmp_path, read, takes, change):
    folder, out = tmp_path / "rows", tmp_path / "x.npz"
    folder.mkdir()
    for row in range(10):
        save(folder, f"{row}", row)
    with pytest.raises(KeyboardInterrupt):
        embed_rows(NpzOutput(out, {"train": read(folder)}, Lengths(takes, 5), part_rows=2), batch=1)
    if change == "other row":
        (folder / "1.png").unlink()
        save(folder, "x", 200)
    elif change == "other content":
        save(folder, "5", 200)
    again = NpzOutput(out, {"train": read(folder)}, Lengths(takes), part_rows=2)
    if change == "none":
        assert embed_rows(again, batch=1) == 6
        assert np.load(join_parts(again))["X"].shape == (10, 1)
    else:
        with pytest.raises(ConfigError, match=r"was begun with other data; remove .*x\.npz\.parts"):
            embed_rows(again, batch=1)


class Rows:
    """200 texts, read when they are needed, of which those changed have other lengths."""

    def __init__(self, changed):
        self.changed = changed

    def __len__(self):
        return 200

    def shown(self, index):
        return Text("x" * (index % 7 + 10 * (index in self.changed)))

    def fetch(self, indices):
        return torch.tensor([[len(self.shown(index).text)] for index in indices.tolist()])


def npz(folder, changed=()):
    ids = [str(row) for row in range(200)]
    return NpzOutput(folder / "x.npz", {"train": Unlabelled(Rows(changed), ids)}, Lengths("texts"), 20)


def shards(folder, changed=()):
    labels = GivenLabels.of(torch.arange(200) % 2)
    examples = Examples(Rows(changed), labels, ("a", "b"), [str(row) for row in range(200)])
    return ShardOutput(folder / "shards", {"train": examples}, Lengths("texts"), 20)


def features(path):
    if path.suffix == ".npz":
        return np.load(path)["X"][:, 0].tolist()
    return read_shards(path).train.inputs.fetch(torch.arange(200))[:, 0].tolist()


OUTPUTS = pytest.mark.parametrize("output", [npz, shards])


@OUTPUTS
def test_a_part_of_a_row_that_changed_is_refused_and_once_removed_made_again(tmp_path, output):
    embed_rows(output(tmp_path))
    now = output(tmp_path, changed=[26])
    with pytest.raises(
        ConfigError, match=r"1 of 10 parts are made from other rows, .*train-00001.* rm "
    ) as refused:
        embed_rows(now)
    (tmp_path / str(refused.value).rpartition(" rm ")[2]).unlink()
    assert embed_rows(output(tmp_path, changed=[26])) == 20
    assert features(join_parts(output(tmp_path, changed=[26]))) == [
        row % 7 + 10 * (row == 26) for row in range(200)
    ]


def test_finished_shards_are_not_begun_again(tmp_path):
    embed_rows(shards(tmp_path))
    join_parts(shards(tmp_path))
    left = {path.name for path in (tmp_path / "shards").iterdir() if path.suffix != ".parquet"}
    assert left == {"embed.json", "index"}
    with pytest.raises(ConfigError, match="is finished already"):
        shards(tmp_path)


def test_rank_0_refuses_old_parts_of_another_rank(tmp_path):
    embed_rows(npz(tmp_path), rank=1, world_size=2)
    with pytest.raises(ConfigError, match="1 of 10 parts"):
        embed_rows(npz(tmp_path, changed=[125]), rank=0, world_size=2)


@OUTPUTS
def test_a_damaged_part_is_refused(tmp_path, output):
    embed_rows(output(tmp_path))
    path = output(tmp_path).path(output(tmp_path).parts[3])
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"damaged, first {path}.* rm {path}"):
        join_parts(output(tmp_path))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "[" * 200_000, "cannot be read"),
        (lambda text: "[]", "cannot be read"),
        (lambda text: text.replace("pencil 1 ", "pencil 2 "), "newer version"),
        (lambda text: json.dumps({"format": 0}), "another version"),
        (lambda text: text.replace('"features": 1', '"features": 2'), "checksum"),
    ],
)
def test_settings_that_are_not_what_was_written_are_refused(tmp_path, change, words):
    embed_rows(npz(tmp_path))
    path = tmp_path / "x.npz.parts" / "embed.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(PencilError, match=words):
        embed_rows(npz(tmp_path))


@OUTPUTS
@pytest.mark.parametrize("published", [False, True])
def test_killed_at_any_file_it_goes_on_to_the_same_bytes(tmp_path, monkeypatch, output, published):
    """Killed as a file is about to be published, or has been, for the first time, the second, and so on."""
    (tmp_path / "whole").mkdir()
    embed_rows(output(tmp_path / "whole"))
    whole, publish, left = features(join_parts(output(tmp_path / "whole"))), durable.publish, [0]

    def dying(partial, path):
        left[0] -= 1
        if published or left[0]:
            publish(partial, path)
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(durable, "publish", dying)
    for count in range(1, 30):
        folder, left[0] = tmp_path / str(count), count
        folder.mkdir()
        try:
            embed_rows(output(folder))
            join_parts(output(folder))
        except KeyboardInterrupt:
            left[0] = -1
            if not (folder / "x.npz").exists() and not (folder / "shards" / "index").exists():
                embed_rows(output(folder))
                assert features(join_parts(output(folder))) == whole
        else:
            assert count > 20
            return
    raise AssertionError("it was killed every time")


def test_parts_that_another_process_has_removed_end_it_with_one_error(tmp_path):
    embed_rows(npz(tmp_path))
    shutil.rmtree(tmp_path / "x.npz.parts")
    with pytest.raises(ConfigError, match="another process"):
        join_parts(npz(tmp_path))


def test_a_full_disk_is_named_with_the_file(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("819200 requested and 75744 written")  # as numpy says it

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(ConfigError, match=r"train-00000\.npy: cannot be written .no space left"):
        embed_rows(npz(tmp_path))
