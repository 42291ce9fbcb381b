"""Features written in parts: a run that was killed goes on with the same rows alone, also without labels."""

import numpy as np
import pytest
import torch
from PIL import Image

from pencil.data import Unlabelled
from pencil.data.packed import PackedTexts
from pencil.data.readers.folder import read_images_alone
from pencil.data.readers.texts import TextInputs
from pencil.embed.outputs import NpzOutput
from pencil.embed.parts import embed_rows, join_parts
from pencil.errors import ConfigError


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
