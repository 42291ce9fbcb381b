"""Any tensor as pixels, and pixels as a PNG file that Pillow reads."""

import io

import pytest
import torch

from pencil.data.pixels import as_pixels, encode_png


@pytest.mark.parametrize("level", [1, 9])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 5, 9), (3, 1, 1), (1, 300, 7)])
def test_a_png_holds_exactly_the_pixels(shape, level):
    pixels = torch.randint(256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(encode_png(pixels, level=level)))
    assert image.mode == ("RGB" if shape[0] == 3 else "L")
    assert image.size == (shape[2], shape[1])
    found = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    assert torch.equal(found, pixels.permute(1, 2, 0).flatten())


def test_floats_are_stretched_to_the_whole_range():
    pixels = as_pixels(torch.tensor([[[-1.0, 0.0], [1.0, 3.0]]]))
    assert pixels.flatten().tolist() == [0, 64, 128, 255]
    assert as_pixels(torch.zeros(3, 2, 2)).unique().tolist() == [0]
