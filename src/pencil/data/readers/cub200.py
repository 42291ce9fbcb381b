"""CUB-200-2011 in its official layout (Wah et al. 2011), images decoded when they are needed.

    classes.txt               "1 001.Black_footed_Albatross" per line
    images.txt                "1 001.Black_footed_Albatross/<file>.jpg"
    image_class_labels.txt    "1 1": image, class; both numbered from 1
    train_test_split.txt      "1 0": image, 1 to train on and 0 to test on
    images/

Bounding boxes, parts and attributes are not read.
"""

from __future__ import annotations

from pathlib import Path

import torch

from pencil.data.examples import Examples, Splits
from pencil.data.images import ImageDecoder
from pencil.data.readers.clothing1m import check_inside, read_lines
from pencil.data.readers.folder import ImageFiles
from pencil.errors import DataError
from pencil.reading import is_file
from pencil.stores import GivenLabels

FOLDER = "CUB_200_2011"


def read_cub200(root: str | Path, size: int | None = None, channels: int = 3) -> Splits:
    """The official train and test split; ids are the image paths as ``images.txt`` has them.

    Args:
        root: The folder ``CUB_200_2011``, or the one it was unpacked in.
        size: Height and width to resize to; the official images differ in size.
        channels: 3 for RGB, 1 for grey.
    """
    ImageDecoder(size, channels)
    root = images_folder(Path(root)).parent
    classes = _table(root / "classes.txt")
    images = _table(root / "images.txt")
    labels = _numbers(root / "image_class_labels.txt", images, set(classes))
    split = _numbers(root / "train_test_split.txt", images, {"0", "1"})
    place = {number: row for row, number in enumerate(classes)}
    names, paths = tuple(classes.values()), list(images.values())
    check_inside(paths, root / "images", root / "images.txt")
    if not is_file(root / "images" / paths[0]):
        raise DataError(
            f"{root / 'images.txt'}: its first image, {paths[0][:200]}, is not in {root / 'images'}"
        )
    given = GivenLabels.of(torch.tensor([place[label] for label in labels]), len(names))
    whole = Examples(ImageFiles(paths, size, channels, root / "images"), given, names, paths)
    is_train = torch.tensor([word == "1" for word in split])
    if is_train.all() or not is_train.any():
        raise DataError(
            f"{root / 'train_test_split.txt'}: one part is empty; mark training images with 1 and test images with 0"
        )
    return Splits(*(whole.subset(mask.nonzero().flatten()) for mask in (is_train, ~is_train)))


def images_folder(root: Path) -> Path:
    """The folder that ids are relative to."""
    return (root / FOLDER if (root / FOLDER / "images.txt").exists() else root) / "images"


def _table(path: Path) -> dict[str, str]:
    """The second word of every line by its first."""
    table: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        key, _, value = line.partition(" ")
        if not value or key in table:
            raise DataError(
                f"{path}, line {number}: {line!r} is not a new number and a word; extract the archive again"
            )
        table[key] = value
    if not table:
        raise DataError(f"{path}: empty; extract the official archive again")
    return table


def _numbers(path: Path, images: dict[str, str], allowed: set[str]) -> list[str]:
    """One value per image, in the order of ``images``."""
    table = _table(path)
    for image, name in images.items():
        if table.get(image) not in allowed:
            raise DataError(
                f"{path}: image {image} ({name}) has {table.get(image, 'no line')!r}; expected one of "
                f"{', '.join(sorted(allowed)[:3])}{', ...' if len(allowed) > 3 else ''}"
            )
    return [table[image] for image in images]
