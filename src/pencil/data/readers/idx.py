"""IDX files, the format of MNIST and Fashion-MNIST, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from pencil.data.arrays import check_packed
from pencil.data.examples import Examples, RowNumbers, Splits
from pencil.data.inputs import TensorInputs
from pencil.errors import DataError
from pencil.reading import open_plain
from pencil.stores import GivenLabels

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"


def read_idx(root: str | Path, class_names: Sequence[str] | None = None) -> Splits:
    """Read the four official files; the two ``t10k`` ones may both be absent.

    Args:
        root: The folder with ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the ``t10k`` pair,
            each also as ``.gz``.
        class_names: (C,) names; "0", "1", ... without them.

    Returns:
        Images (N, 1, H, W) uint8; the ids are the row numbers.
    """
    root = Path(root)
    train = _read_pair(root, "train")
    test = _read_pair(root, "t10k") if _has_any(root, "t10k") else None
    count = max(int(labels.max()) for _, labels in (train, test or train)) + 1
    names = tuple(class_names) if class_names is not None else tuple(str(number) for number in range(count))
    return Splits(_examples(train, names), None if test is None else _examples(test, names))


def read_idx_array(path: str | Path) -> Tensor:
    """One IDX array, with type and shape from its header. Gzip is recognised by content, not by name."""
    path = Path(path)
    with open_plain(path) as file:
        packed = file.read(2) == _GZIP
        file.seek(0)
        try:
            if packed:
                with gzip.GzipFile(fileobj=file) as stream:
                    data, shape, dtype = _read(stream, file, path)
            else:
                data, shape, dtype = _read(file, file, path)
        except (OSError, EOFError, ValueError, MemoryError, zlib.error) as error:
            raise DataError(f"{path}: cannot be read ({error}); fetch the file again") from error
    try:
        array = np.frombuffer(data, dtype).reshape(shape)
    except ValueError as error:  # a size of 0 among others whose product is past all numbers
        raise DataError(
            f"{path}: its header names the shape {shape} ({error}); fetch the file again"
        ) from error
    # IDX is big-endian and the buffer read-only; the copy is neither.
    return torch.from_numpy(array.astype(dtype.newbyteorder("=")))


def _read(
    stream: gzip.GzipFile | BinaryIO, file: BinaryIO, path: Path
) -> tuple[bytes, list[int], np.dtype[Any]]:
    """Values, shape and type. No more is read than the header announces and the file can hold."""
    head = stream.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES or head[3] == 0:
        raise DataError(
            f"{path}: not an IDX file; it begins with {head.hex(' ') or 'nothing'}, not 00 00 type rank; fetch it again"
        )
    start = 4 + 4 * head[3]
    sizes = stream.read(4 * head[3])
    if len(sizes) < 4 * head[3]:
        raise DataError(f"{path}: ends inside its header of {start} bytes; fetch the file again")
    shape, dtype = np.frombuffer(sizes, ">u4").tolist(), np.dtype(_TYPES[head[2]])
    expected, size = math.prod(shape) * dtype.itemsize, os.fstat(file.fileno()).st_size
    if stream is not file:
        check_packed(size, expected)
    data = b"" if stream is file and expected > size else stream.read(expected + 1)
    if len(data) != expected:
        found = size if stream is file else start + len(data)
        raise DataError(
            f"{path}: shape {tuple(shape)} needs {start + expected} bytes, found {found}; fetch the file again"
        )
    return data, shape, dtype


def _read_pair(root: Path, split: str) -> tuple[Tensor, Tensor]:
    """Images (N, 1, H, W) and labels (N,), both uint8."""
    image_path, label_path = (_find(root, stem) for stem in _stems(split))
    images, labels = read_idx_array(image_path), read_idx_array(label_path)
    for path, array, rank in ((image_path, images, 3), (label_path, labels, 1)):
        if array.dim() != rank or array.dtype != torch.uint8:
            raise DataError(
                f"{path}: expected {rank} dimensions of uint8, found {tuple(array.shape)} of {array.dtype}"
            )
    if len(images) != len(labels) or not len(images):
        raise DataError(
            f"{root}: {len(images)} {split} images and {len(labels)} labels; expected as many, at least 1"
        )
    return images.unsqueeze(1), labels


def _stems(split: str) -> tuple[str, str]:
    return f"{split}-images-idx3-ubyte", f"{split}-labels-idx1-ubyte"


def _has_any(root: Path, split: str) -> bool:
    return any((root / f"{stem}{end}").is_file() for stem in _stems(split) for end in ("", ".gz"))


def _find(root: Path, stem: str) -> Path:
    for path in (root / stem, root / f"{stem}.gz"):
        if path.is_file():
            return path
    raise DataError(
        f"{root}: neither {stem} nor {stem}.gz is there; give the folder that holds the IDX files"
    )


def _examples(pair: tuple[Tensor, Tensor], names: tuple[str, ...]) -> Examples:
    images, labels = pair
    return Examples(TensorInputs(images), GivenLabels.of(labels, len(names)), names, RowNumbers(len(labels)))
