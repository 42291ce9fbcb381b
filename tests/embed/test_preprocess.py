"""Preprocessing settings as models are published with them."""

import pytest
import torch

from pencil.data import Image
from pencil.embed.preprocess import Preprocessing
from pencil.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "resize", "crop"),
    [
        ({"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 200}}, 256, (224, 200)),
        ({"size": {"height": 30, "width": 40}}, (30, 40), None),
        ({"size": 224, "crop_size": 224, "do_center_crop": True}, 224, (224, 224)),
        ({"size": 224}, (224, 224), None),
        ({"size": [30, 40]}, (30, 40), None),
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875}, 256, (224, 224)),
        ({"size": {"shortest_edge": 384}, "crop_pct": 1.0}, (384, 384), None),
        ({"size": 9, "do_resize": False, "crop_size": 8}, None, (8, 8)),
        ({"size": {"shortest_edge": 9}, "crop_size": 8, "do_center_crop": False}, 9, None),
        ({"image_processor": {"size": 7}}, (7, 7), None),
    ],
)
def test_sizes(settings, resize, crop):
    found = Preprocessing.of(settings, "a file")
    assert (found.resize, found.crop) == (resize, crop)


def test_scaling_can_be_switched_off():
    row = Image(torch.full((3, 4, 4), 51, dtype=torch.uint8))
    plain = {"size": 4, "do_normalize": False}
    assert Preprocessing.of({**plain, "do_rescale": False}, "").batch([row]).unique().tolist() == [51.0]
    assert Preprocessing.of(plain, "").batch([row]).unique().tolist() == pytest.approx([0.2])
    centred = Preprocessing.of({"size": 4, "image_mean": [0.2] * 3, "image_std": [0.5] * 3}, "")
    assert centred.batch([row]).abs().max() < 1e-6


def test_grey_images_and_images_of_other_numbers_are_taken():
    steps = Preprocessing((4, 4), scale=1.0, mean=(0, 0, 0), std=(1, 1, 1))
    grey = torch.arange(16, dtype=torch.uint8).view(1, 4, 4)
    assert steps.batch([Image(grey)])[0].tolist() == [grey[0].tolist()] * 3
    assert steps.batch([Image(grey.float())]).max() == 255


def test_a_crop_larger_than_the_picture_is_black_around_it():
    steps = Preprocessing(None, (4, 4), scale=1.0, mean=(0, 0, 0), std=(1, 1, 1))
    found = steps.batch([Image(torch.full((3, 2, 2), 9, dtype=torch.uint8))])[0, 0]
    assert found.tolist() == [[0, 0, 0, 0], [0, 9, 9, 0], [0, 9, 9, 0], [0, 0, 0, 0]]


def test_images_of_several_sizes_need_a_size():
    rows = [Image(torch.zeros(3, size, 4, dtype=torch.uint8)) for size in (4, 5)]
    with pytest.raises(ConfigError, match="the images differ in size"):
        Preprocessing(None).batch(rows)


@pytest.mark.parametrize(
    "settings",
    [{"size": {"longest_edge": 4}}, {"size": "large"}, {"size": 4, "image_mean": [1]}, {"size": [1]}],
)
def test_what_is_not_known_is_refused(settings):
    with pytest.raises(
        ConfigError, match=r"a file: this preprocessing is not known .*; use a model with size"
    ):
        Preprocessing.of(settings, "a file")
