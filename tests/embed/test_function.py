"""A user's own function as an encoder: what it gets, and when its features are computed again."""

import sys

import pytest

from pencil.data.packed import PackedTexts
from pencil.data.readers.texts import TextInputs
from pencil.embed import embedded, open_encoder

CODE = """
import functools
import os

import torch


def encode(rows, scale=SCALE):
    return torch.tensor([[len(row) * scale] for row in rows])


class Encoder:
    size, takes = 1, "texts"

    def __call__(self, rows):
        return encode(rows)


thing = Encoder()
partial = functools.partial(encode, scale=SCALE)


def size_of(paths):
    return torch.tensor([[float(os.path.getsize(path))] for path in paths])


size_of.cache = False
for each in (encode, partial, size_of):
    each.size, each.takes = 1, "texts"
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a module, as a process would find it that starts afterwards."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(scale):
        (tmp_path / "encoder_of_mine.py").write_text(CODE.replace("SCALE", scale))
        sys.modules.pop("encoder_of_mine", None)

    yield write
    sys.modules.pop("encoder_of_mine", None)


@pytest.mark.parametrize("name", ["encode", "thing", "partial"])
def test_a_changed_file_is_another_encoder(write, name):
    marks = []
    for scale in ("2.0", "10.0", "2.0"):
        write(scale)
        marks.append(open_encoder(f"encoder_of_mine:{name}").mark)
    assert marks[0] == marks[2] != marks[1]


def test_a_function_that_reads_files_is_not_cached(write, tmp_path, monkeypatch):
    monkeypatch.setenv("PENCIL_CACHE", str(tmp_path / "cache"))
    write("2.0")
    sound, rows = tmp_path / "sound.wav", TextInputs(PackedTexts([str(tmp_path / "sound.wav")]))
    found = []
    for content in (b"a", b"abc"):
        sound.write_bytes(content)
        found.append(embedded(rows, open_encoder("encoder_of_mine:size_of")).values.item())
    assert found == [1, 3]
