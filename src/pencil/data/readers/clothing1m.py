"""Clothing1M in its official layout (Xiao et al., CVPR 2015; github.com/Cysu/noisy_label).

    category_names_eng.txt     a class name per line, 14 of them, numbered from 0
    noisy_label_kv.txt         "images/0/12/<file>.jpg 3" per line; clean_label_kv.txt likewise
    noisy_train_key_list.txt   one image per line; clean_train, clean_val and clean_test likewise
    images/0 ... images/9

The annotations may also be in a folder ``annotations`` beside ``images``. Images are decoded when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch

from pencil.data.examples import Examples, Splits
from pencil.data.images import ImageDecoder
from pencil.data.readers.folder import ImageFiles
from pencil.errors import DataError
from pencil.places import stays_within
from pencil.reading import MB, is_file, read_text
from pencil.stores import GivenLabels

NUM_CLASSES = 14
LIST_BYTES = 1024 * MB  # the official lists take 50 MB


def read_clothing1m(root: str | Path, size: int | None = None, channels: int = 3) -> Splits:
    """Train on the noisy list, validate on the clean validation list, test on the clean test list.

    The clean training list is not used, as in the paper (Sec. 4.6). Ids are the paths as the lists have them.

    Args:
        root: The folder with ``images``.
        size: Height and width to resize to; the official images differ in size.
        channels: 3 for RGB, 1 for grey.
    """
    root = Path(root)
    ImageDecoder(size, channels)
    notes = root / "annotations" if (root / "annotations" / "noisy_label_kv.txt").exists() else root
    names = _class_names(notes / "category_names_eng.txt")
    clean = _labels(notes / "clean_label_kv.txt", len(names))
    parts = [
        _examples(root, notes / f"{part}_key_list.txt", labels, names, size, channels)
        for part, labels in (
            ("noisy_train", _labels(notes / "noisy_label_kv.txt", len(names))),
            ("clean_test", clean),
            ("clean_val", clean),
        )
    ]
    return Splits(parts[0], parts[1], validation=parts[2])


def _class_names(path: Path) -> tuple[str, ...]:
    """The official names; without their file, numbers."""
    if not path.exists():
        return tuple(map(str, range(NUM_CLASSES)))
    names = tuple(read_lines(path))
    if len(names) != NUM_CLASSES:
        raise DataError(f"{path}: {len(names)} names; Clothing1M has {NUM_CLASSES} classes, one per line")
    return names


def _labels(path: Path, classes: int) -> dict[str, int]:
    """Class numbers by image."""
    labels: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), start=1):
        key, _, text = line.rpartition(" ")
        if not key or not (text.isdecimal() and len(text) < 4) or int(text) >= classes:
            raise DataError(
                f"{path}, line {number}: {line!r} is not an image and a class number below {classes}; fix that line"
            )
        labels[key] = int(text)
    return labels


def _examples(
    root: Path, path: Path, labels: dict[str, int], names: tuple[str, ...], size: int | None, channels: int
) -> Examples:
    keys = read_lines(path)
    if not keys:
        raise DataError(f"{path}: lists no images; extract the official archive again")
    unknown = next((key for key in keys if key not in labels), None)
    if unknown is not None:
        raise DataError(f"{path}: {unknown} has no label; keep the list beside the label file it came with")
    check_inside(keys, root, path)
    if not is_file(root / keys[0]):
        raise DataError(
            f"{path}: its first image, {keys[0][:200]}, is not in {root}; unpack 0.tar to 9.tar into {root / 'images'}"
        )
    given = GivenLabels.of(torch.tensor([labels[key] for key in keys]), len(names))
    return Examples(ImageFiles(keys, size, channels, root), given, names, keys)


def check_inside(images: Iterable[str], folder: Path, path: Path) -> None:
    """Refuse a list of images that names one outside their folder."""
    stray = next((image for image in images if not stays_within(image, folder)), None)
    if stray is not None:
        raise DataError(f"{path}: the image {stray!r} is outside {folder}; list images inside it")


def read_lines(path: Path) -> list[str]:
    """The lines of an annotation file that are not blank."""
    if not path.exists():
        raise DataError(f"{path}: missing; extract the data set's official archive again")
    text = read_text(path, limit=LIST_BYTES)
    return [line for line in map(str.strip, text.splitlines()) if line]
