"""IDX files, the format of MNIST, Fashion-MNIST and their kin, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pencil.data.examples import Examples, RowNumbers, Splits, TensorInputs
from pencil.errors import DataError
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
    """One IDX array, its type and shape as its header says. Gzip is known by the content, not the name."""
    path = Path(path)
    data = _content(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES or data[3] == 0:
        raise DataError(
            f"{path}: not an IDX file; it begins with {data[:4].hex(' ') or 'nothing'}, not 00 00 type rank"
        )
    dtype, start = np.dtype(_TYPES[data[2]]), 4 + 4 * data[3]
    if len(data) < start:
        raise DataError(f"{path}: ends inside its header of {start} bytes; fetch the file again")
    shape = np.frombuffer(data, ">u4", data[3], 4).tolist()
    expected = start + math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise DataError(
            f"{path}: shape {tuple(shape)} needs {expected} bytes, found {len(data)}; fetch the file again"
        )
    array = np.frombuffer(data, dtype, offset=start).reshape(shape)
    # IDX is big-endian and the buffer read-only; the copy is neither.
    return torch.from_numpy(array.astype(dtype.newbyteorder("=")))


def _content(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP) else data
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error


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
