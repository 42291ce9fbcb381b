"""Rows without labels, as ``pencil predict`` and ``pencil embed`` read them."""

import numpy as np
import pytest
import torch
from PIL import Image

from pencil.errors import DataError
from pencil.kinds import FeaturesData, ImagesData
from pencil.run.sources import read_unlabelled


@pytest.fixture
def photos(tmp_path):
    """A flat folder whose first image is damaged."""
    for number in range(3):
        Image.new("RGB", (5, 4), (number, 0, 0)).save(tmp_path / f"{number}.png")
    (tmp_path / "0.png").write_bytes(b"broken")
    return tmp_path


def read(folder, **settings):
    return read_unlabelled(ImagesData(kind="folder", path=str(folder), **settings))


def test_damaged_images_without_labels_are_left_out_on_request(photos):
    with pytest.warns(
        UserWarning, match=r"1 rows cannot be read and are left out:\n  0.png: .*cannot be decoded"
    ):
        found = read(photos, on_error="skip")
    assert list(found.ids) == ["1.png", "2.png"]
    assert found.inputs.fetch(torch.arange(2))[:, 0, 0, 0].tolist() == [1, 2]
    assert list(found.skipped_rows) == ["0.png"]


def test_without_the_option_no_image_is_checked_or_left_out(photos):
    assert len(read(photos)) == 3


def test_it_is_an_error_if_no_image_can_be_read(photos):
    for name in ("1.png", "2.png"):
        (photos / name).write_bytes(b"broken")
    with pytest.raises(DataError, match=r"no example can be read; fix the files, first: .*0.png"):
        read(photos, on_error="skip")


def test_features_that_are_not_finite_are_left_out_on_request(tmp_path):
    np.save(tmp_path / "new.npy", np.array([[1.0, np.inf], [2, 3]]))
    data = FeaturesData(kind="features", path=str(tmp_path / "new.npy"), on_error="skip")
    with pytest.warns(UserWarning, match=r"1 rows cannot be read and are left out:\n  row 0: holds NaN"):
        assert list(read_unlabelled(data).ids) == ["1"]
