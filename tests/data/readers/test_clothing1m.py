"""Clothing1M's official layout, as a tree of a few painted images: the format only, the data is not public."""

import pytest
import torch

from pencil.data import read_clothing1m
from pencil.errors import DataError

Image = pytest.importorskip("PIL.Image")

NAMES = [f"Garment {number}" for number in range(14)]
NOISY = {f"images/{n % 10}/{n:02d}/{n},{n}.jpg": n % 14 for n in range(42)}
DOUBLE = {"images/0/00/0,0.jpg": 5}  # an image may have a noisy and a clean label
CLEAN = {f"images/{n % 10}/9/clean {n}.jpg": n for n in range(6)}


def lines(values):
    return "".join(f"{value}\n" for value in values)


@pytest.fixture
def tree(tmp_path):
    """category names, two label files, four lists, images of different sizes."""
    for number, key in enumerate([*NOISY, *CLEAN]):
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20 + number, 30), (5 * number, 0, 0)).save(tmp_path / key)
    clean = list(CLEAN)
    files = {
        "category_names_eng": NAMES,
        "noisy_label_kv": [f"{key} {label}" for key, label in NOISY.items()],
        "clean_label_kv": [f"{key} {label}" for key, label in (CLEAN | DOUBLE).items()],
        "noisy_train_key_list": list(NOISY)[::-1],
        "clean_train_key_list": clean[:2],
        "clean_val_key_list": clean[2:4],
        "clean_test_key_list": clean[4:],
    }
    for name, content in files.items():
        (tmp_path / f"{name}.txt").write_text(lines(content))
    return tmp_path


def test_noisy_images_train_and_clean_ones_validate_and_test(tree):
    splits = read_clothing1m(tree, size=8)
    assert splits.train.class_names == tuple(NAMES)
    assert list(splits.train.ids) == list(NOISY)[::-1]
    assert splits.train.labels.values.tolist() == list(NOISY.values())[::-1]
    assert (splits.validation.labels.values.tolist(), splits.test.labels.values.tolist()) == ([2, 3], [4, 5])
    assert list(splits.test.ids) == list(CLEAN)[4:]


def test_an_image_is_decoded_when_it_is_asked_for(tree):
    inputs = read_clothing1m(tree, size=8).train.inputs
    (tree / list(NOISY)[3]).unlink()
    images = inputs.fetch(torch.tensor([41, 0]))  # keys 0 and 41: the list runs backwards
    assert images.shape == (2, 3, 8, 8)
    assert images[1, 0].float().mean() == pytest.approx(5 * 41, abs=3)
    with pytest.raises(DataError, match=r"3,3.jpg: cannot be read"):
        inputs.fetch(torch.tensor([38]))


def test_annotations_may_have_a_folder_of_their_own(tree):
    before = read_clothing1m(tree, size=8)
    (tree / "annotations").mkdir()
    for file in tree.glob("*.txt"):
        file.rename(tree / "annotations" / file.name)
    after = read_clothing1m(tree, size=8)
    assert list(after.train.ids) == list(before.train.ids)


def test_without_their_names_classes_are_numbers(tree):
    (tree / "category_names_eng.txt").unlink()
    assert read_clothing1m(tree, size=8).train.class_names == tuple(map(str, range(14)))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("noisy_label_kv", None, r"noisy_label_kv.txt: missing"),
        ("clean_val_key_list", None, r"clean_val_key_list.txt: missing"),
        (
            "clean_label_kv",
            "images/1.jpg 14\n",
            r"clean_label_kv.txt, line 1: 'images/1.jpg 14' is not .* below 14",
        ),
        (
            "noisy_label_kv",
            "images/1.jpg\n",
            r"noisy_label_kv.txt, line 1: 'images/1.jpg' is not an image and",
        ),
        ("category_names_eng", "Shirt\n", r"category_names_eng.txt: 1 names; Clothing1M has 14"),
        ("noisy_train_key_list", "\n", r"noisy_train_key_list.txt: lists no images"),
        ("noisy_train_key_list", "images/strange.jpg\n", r"images/strange.jpg has no label"),
    ],
)
def test_what_does_not_fit_the_layout_is_named(tree, file, content, message):
    path = tree / f"{file}.txt"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_clothing1m(tree, size=8)


def test_images_that_were_not_unpacked_are_told_from_broken_ones(tree):
    (tree / "images").rename(tree / "elsewhere")
    with pytest.raises(
        DataError, match=r"its first image, images/1/41/41,41.jpg, is not in .*; unpack 0.tar to 9.tar"
    ):
        read_clothing1m(tree, size=8)


@pytest.mark.parametrize("name", ["../x.jpg", "/etc/hostname"])
def test_images_outside_of_the_folder_are_refused(tree, name):
    for file, line in (("noisy_train_key_list", name), ("noisy_label_kv", f"{name} 3")):
        with (tree / f"{file}.txt").open("a") as listed:
            listed.write(f"{line}\n")
    with pytest.raises(DataError, match=rf"the image '{name}' is outside .*; list images inside it"):
        read_clothing1m(tree, size=8)
