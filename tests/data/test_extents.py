"""The size that suits images: from a list of sizes, and from a sample of files and shards."""

import io
from dataclasses import replace

import pytest

from pencil.data import read_image_folder, read_shards, write_index
from pencil.data.extents import SAMPLED, sampled_extents, size_for, typical_side
from support import files

pillow = pytest.importorskip("PIL.Image")


@pytest.mark.parametrize(
    ("extents", "size"),
    [
        ([], 32),
        ([(8, 8)], 32),
        ([(32, 32)], 32),
        ([(47, 300)], 32),
        ([(48, 48)], 48),
        ([(640, 63)], 48),
        ([(64, 64), (64, 64), (3000, 4000)], 64),
        ([(20, 20), (96, 200), (4000, 3000)], 96),
        ([(4000, 3000)], 96),
    ],
)
def test_the_median_shorter_side_decides(extents, size):
    assert size_for(extents) == size


def test_the_median_lies_between_two_images():
    assert typical_side([(40, 99), (90, 60)]) == 50


def picture(width, height, mode="RGB"):
    file = io.BytesIO()
    pillow.new(mode, (width, height)).save(file, format="PNG")
    return file.getvalue()


@pytest.fixture
def photos(tmp_path):
    for number in range(6):
        place = tmp_path / "photos" / ("cat" if number % 2 else "dog")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.png").write_bytes(picture(70 + number, 50, "RGB" if number else "P"))
    return tmp_path / "photos"


def test_extents_are_those_of_the_files_whatever_size_is_asked_for(photos):
    found = sampled_extents(read_image_folder(photos, size=8).train.inputs)
    assert found == [(71, 50), (73, 50), (75, 50), (70, 50), (72, 50), (74, 50)]  # cats, then dogs


def test_images_that_cannot_be_read_are_left_out(photos):
    (photos / "cat" / "1.png").write_bytes(b"no image")
    (photos / "dog" / "0.png").write_bytes(b"")
    assert len(sampled_extents(read_image_folder(photos, size=8).train.inputs)) == 4


def test_large_data_is_sampled_evenly(photos):
    inputs = read_image_folder(photos, size=8).train.inputs
    many = replace(inputs, paths=[*inputs.paths] * 50)
    found = sampled_extents(many)
    assert SAMPLED / 2 < len(found) <= SAMPLED
    assert found == [(70 + int(path[-5]), 50) for path in many.paths[::5]]


def test_of_shards_the_first_is_enough(tmp_path):
    files.image_shards(tmp_path / "shards", shards=2, rows=3)
    write_index({"train": [str(tmp_path / "shards")]}, tmp_path / "index")
    inputs = read_shards(tmp_path / "index", size=8).train.inputs
    assert len(inputs) == 6
    assert sampled_extents(inputs) == [picture_size(files.png((0, 0, 0)))] * 3


def picture_size(content):
    with pillow.open(io.BytesIO(content)) as image:
        return image.size
