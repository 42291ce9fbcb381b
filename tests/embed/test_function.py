"""A user's own function as an encoder: what it gets, and when its features are computed again."""

import sys

import pytest

from pencil.embed import open_encoder

CODE = """
import functools

import torch


def encode(rows, scale=SCALE):
    return torch.tensor([[len(row) * scale] for row in rows])


class Encoder:
    size, takes = 1, "texts"

    def __call__(self, rows):
        return encode(rows)


thing = Encoder()
partial = functools.partial(encode, scale=SCALE)
for each in (encode, partial):
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
