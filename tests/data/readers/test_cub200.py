"""CUB-200-2011's official layout, as a tree of a few painted images: the format only, not the birds."""

import pytest
import torch

from pencil.data import read_cub200
from pencil.errors import DataError

Image = pytest.importorskip("PIL.Image")

CLASSES = ("001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Sooty_Albatross")
IMAGES = [f"{CLASSES[n % 3]}/Bird_{n:04d}_{n}.jpg" for n in range(9)]
IS_TRAIN = [1, 0, 1, 1, 0, 1, 0, 1, 1]


def numbered(values):
    return "".join(f"{number} {value}\n" for number, value in enumerate(values, start=1))


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "CUB_200_2011"
    for number, name in enumerate(IMAGES):
        (root / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30, 20 + number), (0, 25 * number, 0)).save(root / "images" / name)
    (root / "classes.txt").write_text(numbered(CLASSES))
    (root / "images.txt").write_text(numbered(IMAGES))
    (root / "image_class_labels.txt").write_text(numbered(n % 3 + 1 for n in range(9)))
    (root / "train_test_split.txt").write_text(numbered(IS_TRAIN))
    (root / "bounding_boxes.txt").write_text("1 60.0 27.0 325.0 304.0\n")
    return root


@pytest.mark.parametrize("unpacked_in", [False, True])
def test_the_official_split(tree, unpacked_in):
    splits = read_cub200(tree.parent if unpacked_in else tree, size=8)
    assert splits.train.class_names == CLASSES
    assert list(splits.train.ids) == [name for name, train in zip(IMAGES, IS_TRAIN, strict=True) if train]
    assert splits.train.labels.values.tolist() == [0, 2, 0, 2, 1, 2]
    assert splits.test.labels.values.tolist() == [1, 1, 0]
    assert splits.validation is None


def test_images_are_decoded_when_asked_for_at_the_size_asked_for(tree):
    splits = read_cub200(tree, size=16)
    (tree / "images" / IMAGES[8]).unlink()
    images = splits.test.inputs.fetch(torch.tensor([2, 0]))
    assert images.shape == (2, 3, 16, 16)
    assert images[:, 1].float().mean(dim=(1, 2)).tolist() == pytest.approx([150, 25], abs=3)


def test_lines_may_stand_in_any_order(tree):
    before = read_cub200(tree, size=8)
    labels = tree / "image_class_labels.txt"
    labels.write_text("".join(sorted(labels.read_text().splitlines(keepends=True), reverse=True)))
    assert read_cub200(tree, size=8).train.labels.values.tolist() == before.train.labels.values.tolist()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("images.txt", None, r"images.txt: missing"),
        ("classes.txt", "1\n", r"classes.txt, line 1: '1' is not a new number and a word"),
        ("images.txt", "1 a.jpg\n1 b.jpg\n", r"images.txt, line 2"),
        ("image_class_labels.txt", "1 1\n", r"image 2 .* has 'no line'; expected one of 1, 2, 3"),
        ("image_class_labels.txt", numbered([4] * 9), r"image 1 .* has '4'; expected one of 1, 2, 3"),
        ("train_test_split.txt", numbered([2] * 9), r"has '2'; expected one of 0, 1"),
        ("train_test_split.txt", numbered([1] * 9), r"one part is empty"),
        ("images.txt", numbered(["gone.jpg"] * 9), r"its first image, gone.jpg, is not in"),
        ("classes.txt", "", r"classes.txt: empty"),
    ],
)
def test_what_does_not_fit_the_layout_is_named(tree, file, content, message):
    (tree / file).unlink() if content is None else (tree / file).write_text(content)
    with pytest.raises(DataError, match=message):
        read_cub200(tree, size=8)


@pytest.mark.parametrize("name", ["../x.jpg", "/etc/hostname"])
def test_images_outside_of_the_folder_are_refused(tree, name):
    (tree / "images.txt").write_text(numbered([*IMAGES[:-1], name]))
    with pytest.raises(DataError, match=rf"the image '{name}' is outside .*; list images inside it"):
        read_cub200(tree, size=8)
