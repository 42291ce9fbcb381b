"""Images as data URIs that say what they hold."""

import base64
import io

import pytest
import torch

from pencil.report import thumbnails
from pencil.report.thumbnails import is_image, thumbnail

pytestmark = pytest.mark.slow


def decoded(uri):
    pillow = pytest.importorskip("PIL.Image")
    head, _, data = uri.partition(",")
    return head, pillow.open(io.BytesIO(base64.b64decode(data)))


def test_small_images_stay_as_they_are_and_large_ones_shrink_to_jpeg():
    small = thumbnail(torch.zeros(1, 28, 28, dtype=torch.uint8))
    assert (small.width, small.height, small.is_sharp) == (28, 28, True)
    assert small.uri.startswith("data:image/png;base64,")
    large = thumbnail(torch.full((3, 100, 300), 200, dtype=torch.uint8))
    head, image = decoded(large.uri)
    assert head == "data:image/jpeg;base64"
    assert image.size == (large.width, large.height) == (112, 37)
    assert not large.is_sharp
    assert image.getpixel((50, 20)) == (200, 200, 200)


def test_without_pillow_large_images_are_png(monkeypatch):
    monkeypatch.setattr(thumbnails, "_jpeg", lambda pixels: None)
    assert thumbnail(torch.zeros(3, 200, 200, dtype=torch.uint8)).uri.startswith("data:image/png;base64,")


def test_floats_are_stretched_from_black_to_white():
    values = torch.linspace(-2, 3, 16).view(1, 4, 4)
    _, image = decoded(thumbnail(values).uri)
    assert (image.getpixel((0, 0)), image.getpixel((3, 3))) == (0, 255)
    _, flat = decoded(thumbnail(torch.full((1, 4, 4), float("nan"))).uri)
    assert flat.getpixel((0, 0)) == 0


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((3, 8, 8), True), ((1, 8, 8), True), ((8,), False), ((4, 8, 8), False), ((1, 1, 9), False)],
)
def test_features_are_no_images(shape, expected):
    assert is_image(torch.zeros(shape)) == expected
