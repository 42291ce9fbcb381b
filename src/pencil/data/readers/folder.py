"""Folders of images, a folder per class, decoded row by row when they are needed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from pencil.data.examples import Examples, Splits, Unlabelled
from pencil.data.images import IMAGE_SUFFIXES, Extent, ImageDecoder, read_image_bytes
from pencil.data.inputs import Image
from pencil.errors import DataError
from pencil.stores import GivenLabels

TEST_SPLITS = ("test", "val", "valid", "validation")
"""What a split to test on may be called; the first one there is taken."""
_SIDE_FILES = frozenset(
    (".csv", ".db", ".html", ".ini", ".json", ".md", ".tsv", ".txt", ".xml", ".yaml", ".yml")
)
"""Endings of files that often lie beside images: notes, tables, and what systems write, such as Thumbs.db."""
_MOST_ENDINGS = 8  # in one message
KEPT_BYTES = 1 << 29
"""Small images take longer to decode than to learn from, so up to this much of them is decoded once."""


@dataclass(frozen=True)
class ImageFiles:
    """Inputs decoded from files.

    Attributes:
        paths: (N,) image files, relative to ``root`` where it is given.
        size: Height and width to resize to (bilinear), or None if all images have one size already.
        channels: 3 for RGB, 1 for grey.
        root: Folder of relative paths. Kept apart so that the paths can be the rows' ids, held once.
        first: The row that gives the size of all images where they are not resized.
    """

    paths: Sequence[str | Path]
    size: int | None = None
    channels: int = 3
    root: Path | None = None
    first: int = 0
    is_lazy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        ImageDecoder(self.size, self.channels)  # a mistake shows before training, not in its first batch

    def __len__(self) -> int:
        return len(self.paths)

    def __getstate__(self) -> dict[str, Any]:
        """Another process keeps images of its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    def fetch(self, indices: Tensor) -> Tensor:
        """Images (B, channels, H, W) uint8 of the rows numbered (B,)."""
        if self._kept is None:
            return self._decoded(indices)
        images, there = self._kept
        new = indices[~there[indices]]
        if len(new):
            images[new], there[new] = self._decoded(new), True
        return images[indices]

    def shown(self, index: int) -> Image:
        """The image (3, H, W) uint8 of a row as its file has it."""
        return Image(ImageDecoder.original(self._path(index), self._path(index)))

    def content(self, index: int) -> bytes:
        """The bytes of a row's file."""
        return read_image_bytes(self._path(index))

    def sized_by(self, index: int) -> ImageFiles:
        """The same images; where they are not resized, all have the size of this one."""
        return replace(self, first=index)

    def _decoded(self, indices: Tensor) -> Tensor:
        images = self._room(len(indices))
        for place, row in enumerate(indices.tolist()):
            path = self._path(row)
            images[place] = self._decoder.decode(path, path, self._extent, self._path(self.first))
        return images

    def _room(self, count: int) -> Tensor:
        width, height = self._extent
        return torch.empty(count, self.channels, height, width, dtype=torch.uint8)

    @cached_property
    def _kept(self) -> tuple[Tensor, Tensor] | None:
        """All images and which of them are decoded already; None where they would take too much memory."""
        width, height = self._extent
        if len(self) * self.channels * height * width > KEPT_BYTES:
            return None
        return self._room(len(self)), torch.zeros(len(self), dtype=torch.bool)

    def _path(self, row: int) -> Path:
        return Path(self.paths[row]) if self.root is None else self.root / self.paths[row]

    @cached_property
    def _decoder(self) -> ImageDecoder:
        return ImageDecoder(self.size, self.channels)

    @cached_property
    def _extent(self) -> Extent:
        """Width and height of every image; without a size, those of the first."""
        return (
            (self.size, self.size)
            if self.size is not None
            else self._decoder.extent(self._path(self.first), self._path(self.first))
        )


def read_image_folder(
    root: str | Path, size: int | None = None, channels: int = 3, test_split: str | None = None
) -> Splits:
    """Read ``root/train/<class>/*`` with ``root/test/<class>/*``, or ``root/<class>/*`` as train only.

    Args:
        root: The folder.
        size: Height and width to resize to, or None if all images have one size already.
        channels: 3 for RGB, 1 for grey.
        test_split: The folder beside train to test on; by default the first of test, val, valid, validation.

    Returns:
        Classes sorted by name, then files by name; ids are paths relative to root, with "/".
    """
    root = Path(root)
    if not root.is_dir():
        raise DataError(f"{root}: not a folder; give the folder of the images")
    train, test = _split_folders(root, test_split)
    names = tuple(_entries(root / train, folders=True))
    if not names:
        raise DataError(f"{root / train}: no class folders; expected <class>/<image> in it")
    present = [split for split in (train, test) if split is not None]
    others = _beside_classes(root, present)
    splits = [_examples(root, split, names, size, channels, others) for split in present]
    _warn_of_others(root, others)
    return Splits(*splits)


def _beside_classes(root: Path, splits: Sequence[str]) -> list[str]:
    """Images that are in no class folder, but beside them or beside the splits."""
    inside = [f"{split}/{name}" for split in splits if split for name in _named_as_images(root / split)]
    return _named_as_images(root) + inside


def _warn_of_others(root: Path, others: Sequence[str]) -> None:
    """Warn of files that are left out: those with other endings, and images beside the class folders."""
    if others:
        endings = ", ".join(sorted({_ending(name) or "no ending" for name in others})[:_MOST_ENDINGS])
        warnings.warn(
            f"{root}: {len(others):,} files are left out ({endings}), first {others[0]}; images end with one of "
            f"{', '.join(sorted(IMAGE_SUFFIXES))}, and where there are class folders they are in one",
            stacklevel=3,
        )


def warn_of_other_splits(path: Path, rows: Mapping[str, int], test: str) -> None:
    """Warn of splits, with their numbers of rows, that are neither to train nor to test on."""
    if any(rows.values()):
        found = " and ".join(f"{count:,} rows of {name}" for name, count in rows.items())
        warnings.warn(
            f"{path}: {found} are left out, since the split to test on is {test}; to learn from them put them into "
            "train, and to hold rows out set data.validation",
            stacklevel=4,
        )


def _count(split: Path) -> int:
    return sum(len(_named_as_images(split / name)) for name in _entries(split, folders=True))


def read_images_alone(root: Path, size: int | None = None, channels: int = 3) -> Unlabelled | None:
    """The images directly in ``root``, by name; None where it has folders, which are classes."""
    if not root.is_dir() or _entries(root, folders=True):
        return None
    ids = _named_as_images(root)
    if not ids:
        raise DataError(f"{root}: no images and no class folders in it; give a folder of images")
    _warn_of_others(root, _others(_entries(root, folders=False)))
    return Unlabelled(ImageFiles(ids, size, channels, root), ids)


def _split_folders(root: Path, test_split: str | None) -> tuple[str, str | None]:
    """Train and test folders under root; "" is root itself. A train folder without folders is a class."""
    if not (root / "train").is_dir() or not _entries(root / "train", folders=True):
        if test_split is not None:
            raise DataError(f"test_split={test_split!r}: {root} has no train/<class> folders beside it")
        return "", None
    present = [
        name for name in (TEST_SPLITS if test_split is None else (test_split,)) if (root / name).is_dir()
    ]
    if test_split is not None and not present:
        raise DataError(f"test_split={test_split!r}: no such folder in {root}")
    test, *others = present or [""]
    warn_of_other_splits(root, {name: _count(root / name) for name in others}, test)
    return "train", test or None


def _examples(
    root: Path, split: str, names: tuple[str, ...], size: int | None, channels: int, others: list[str]
) -> Examples:
    """The images of a split; files of its class folders that are none are added to ``others``."""
    unknown = sorted(set(_entries(root / split, folders=True)) - set(names))
    if unknown:
        raise DataError(
            f"{root / split}: class folders that train does not have: {', '.join(unknown[:5])}; remove them"
        )
    ids: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        found = _images(root, f"{split}/{name}" if split else name, others)
        ids += found
        labels += [label] * len(found)
    if not ids:
        raise DataError(f"{root / split}: no images; expected <class>/<image> in it")
    given = GivenLabels.of(torch.tensor(labels), len(names))
    return Examples(ImageFiles(ids, size, channels, root), given, names, ids)


def _images(root: Path, folder: str, others: list[str]) -> list[str]:
    """Ids of the images in a class folder; () where a test split leaves the class out. For ``others`` see above."""
    path = root / folder
    if not path.is_dir():
        return []
    nested = _entries(path, folders=True)
    if nested:
        raise DataError(
            f"{path}: contains the folder {nested[0]}; put images directly into their class folder"
        )
    files = _entries(path, folders=False)
    images = [name for name in files if _ending(name) in IMAGE_SUFFIXES]
    if not images:
        raise DataError(
            f"{path}: no images ({', '.join(sorted(IMAGE_SUFFIXES))}); fill or remove the class folder"
        )
    others += [f"{folder}/{name}" for name in _others(files)]
    return [f"{folder}/{name}" for name in images]


def _named_as_images(path: Path) -> list[str]:
    return [name for name in _entries(path, folders=False) if _ending(name) in IMAGE_SUFFIXES]


def _ending(name: str) -> str:
    return Path(name).suffix.lower()


def _others(files: Sequence[str]) -> list[str]:
    """Files that may be images, though their names do not say so."""
    known = IMAGE_SUFFIXES | _SIDE_FILES
    return [name for name in files if _ending(name) not in known]


def _entries(path: Path, *, folders: bool) -> list[str]:
    """Sorted names of folders or of files; hidden ones are ignored.

    scandir, because a stat for each of a million files takes minutes on a network disk.
    """
    with os.scandir(path) as entries:
        return sorted(
            entry.name for entry in entries if _is_folder(entry) is folders and entry.name[0] != "."
        )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself; reading it reports the error
        return False
