"""CIFAR-10 and CIFAR-100 in both official layouts, binary and python.

The python layout is pickles. They are read without executing anything: the few names such a file needs are
resolved to stand-ins from this module, any other name is refused.
"""

from __future__ import annotations

import io
import pickle  # only through _CifarUnpickler, which looks up nothing outside this module
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pencil.data.examples import Examples, RowNumbers, Splits
from pencil.data.inputs import TensorInputs
from pencil.errors import DataError
from pencil.reading import MB, read_bytes
from pencil.stores import GivenLabels

_PIXELS = 3 * 32 * 32
_MOST_BYTES = 1024 * MB  # the largest official file has 155 MB

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Pixels (n, 3072), channel by channel, and labels (n,)."""


@dataclass(frozen=True)
class _Variant:
    """Names and layout of the files of one data set."""

    folders: tuple[str, str]
    """Binary, python."""
    train: tuple[str, ...]
    test: str
    names_text: str
    names_pickle: str
    names_key: str
    labels_key: str
    label_bytes: int
    label_column: int


def read_cifar(
    root: str | Path, num_classes: Literal[10, 100] = 10, label: Literal["fine", "coarse"] = "fine"
) -> Splits:
    """Read CIFAR-10 or CIFAR-100.

    Args:
        root: The extracted folder (``cifar-10-batches-bin``, ``cifar-10-batches-py``, ``cifar-100-binary``,
            ``cifar-100-python``) or the one that holds it.
        num_classes: 10 or 100: which data set.
        label: For CIFAR-100, its 100 ``fine`` or its 20 ``coarse`` classes.

    Returns:
        Images (N, 3, 32, 32) uint8 in the official order, so that CIFAR-N's labels fit; ids are row numbers.
    """
    variant = _variant(num_classes, label)
    folder, binary = _find(Path(root), variant)
    read = _read_binary if binary else _read_python
    names = (_names_text if binary else _names_pickle)(folder, variant)
    train = _examples([read(folder, stem, variant) for stem in variant.train], names)
    return Splits(train, _examples([read(folder, variant.test, variant)], names))


def _variant(num_classes: int, label: str) -> _Variant:
    if (num_classes, label) not in ((10, "fine"), (100, "fine"), (100, "coarse")):
        raise DataError(f"num_classes={num_classes}, label={label!r}: give 10, or 100 with fine or coarse")
    if num_classes == 10:
        return _Variant(
            folders=("cifar-10-batches-bin", "cifar-10-batches-py"),
            train=tuple(f"data_batch_{number}" for number in range(1, 6)),
            test="test_batch",
            names_text="batches.meta.txt",
            names_pickle="batches.meta",
            names_key="label_names",
            labels_key="labels",
            label_bytes=1,
            label_column=0,
        )
    return _Variant(
        folders=("cifar-100-binary", "cifar-100-python"),
        train=("train",),
        test="test",
        names_text=f"{label}_label_names.txt",
        names_pickle="meta",
        names_key=f"{label}_label_names",
        labels_key=f"{label}_labels",
        label_bytes=2,
        label_column=0 if label == "coarse" else 1,
    )


def _find(root: Path, variant: _Variant) -> tuple[Path, bool]:
    """The folder and whether it is binary, known by its first train file."""
    for binary, inner, end in ((True, variant.folders[0], ".bin"), (False, variant.folders[1], "")):
        for folder in (root, root / inner):
            if (folder / f"{variant.train[0]}{end}").is_file():
                return folder, binary
    raise DataError(
        f"{root}: neither it nor a {' or '.join(variant.folders)} in it holds {variant.train[0]}.bin or "
        f"{variant.train[0]}; extract the official archive and give its folder"
    )


def _content(path: Path) -> bytes:
    return read_bytes(path, limit=_MOST_BYTES)


def _read_binary(folder: Path, stem: str, variant: _Variant) -> Batch:
    path = folder / f"{stem}.bin"
    data, width = _content(path), variant.label_bytes + _PIXELS
    if not data or len(data) % width:
        raise DataError(
            f"{path}: {len(data)} bytes are not a number of records of {width} bytes; extract the official "
            "archive again"
        )
    rows = np.frombuffer(data, np.uint8).reshape(-1, width)
    return rows[:, variant.label_bytes :], rows[:, variant.label_column].astype(np.int64)


def _read_python(folder: Path, stem: str, variant: _Variant) -> Batch:
    path = folder / stem
    content = _load_pickle(path)
    images, labels = (_entry(content, key, path) for key in ("data", variant.labels_key))
    if not isinstance(images, _PickledArray) or images.values.shape[1:] != (_PIXELS,):
        raise DataError(f"{path}: 'data' is not a uint8 array (n, {_PIXELS})")
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise DataError(f"{path}: {variant.labels_key!r} is not a list of whole numbers")
    if not labels or len(labels) != len(images.values):
        raise DataError(
            f"{path}: {len(images.values)} images and {len(labels)} labels; expected as many, at least 1"
        )
    return images.values, np.array(labels, np.int64)


def _names_text(folder: Path, variant: _Variant) -> tuple[str, ...]:
    path = folder / variant.names_text
    return tuple(_content(path).decode("utf-8", errors="replace").split())


def _names_pickle(folder: Path, variant: _Variant) -> tuple[str, ...]:
    path = folder / variant.names_pickle
    names = _entry(_load_pickle(path), variant.names_key, path)
    if not isinstance(names, list):
        raise DataError(
            f"{path}: {variant.names_key!r} is not a list of class names; extract the official archive again"
        )
    return tuple(_text(name) for name in names)


def _entry(content: dict[str, Any], key: str, path: Path) -> Any:
    if key not in content:
        raise DataError(f"{path}: no entry {key!r}; found {', '.join(content) or 'none'}")
    return content[key]


def _examples(batches: list[Batch], names: tuple[str, ...]) -> Examples:
    images = np.concatenate([images for images, _ in batches]).reshape(-1, 3, 32, 32)
    labels = torch.from_numpy(np.concatenate([labels for _, labels in batches]))
    given = GivenLabels.of(labels, len(names))
    return Examples(TensorInputs(torch.from_numpy(images)), given, names, RowNumbers(len(given)))


def _load_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in an official file, its keys as text."""
    try:
        # Python 2 wrote the files: its byte strings become text, letter for byte.
        content = _CifarUnpickler(io.BytesIO(_content(path)), encoding="latin1").load()
        if not isinstance(content, dict):
            raise DataError(
                f"holds a {type(content).__name__}, not a dictionary; extract the official archive again"
            )
        return {_text(key): value for key, value in content.items()}
    except DataError as error:
        raise error if str(path) in str(error) else DataError(f"{path}: {error}") from error
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise DataError(
            f"{path}: cannot be read ({type(error).__name__}: {error}); extract the official archive again"
        ) from error


def _text(value: object) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


class _CifarUnpickler(pickle._Unpickler):
    """Resolves the names that an array of bytes needs to stand-ins, and refuses all others.

    Python's own implementation, not the one in C, which allocates memory for any memo index that a file names.
    """

    def find_class(self, module: str, name: str) -> Any:
        """A stand-in from this module; numpy itself is never reached."""
        if (module, name) not in _STAND_INS:
            raise DataError(
                f"the pickle asks for {module}.{name}, which no CIFAR file needs; it was not loaded: "
                "extract the official archive again"
            )
        return _STAND_INS[module, name]


class _PickledArray:
    """Takes the place of a numpy array while it is rebuilt: receives shape and bytes."""

    def __init__(self, *_: object) -> None:
        self.values: NDArray[np.uint8] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[object, tuple[int, ...], object, bool, str | bytes]) -> None:
        _, shape, _, fortran, raw = state
        data = raw.encode("latin1") if isinstance(raw, str) else raw
        self.values = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


class _PickledType:
    """Takes the place of a numpy dtype; CIFAR needs only one."""

    def __init__(self, code: str, *_: object) -> None:
        if code != "u1":
            raise DataError(f"the pickle holds an array of type {code!r}, where CIFAR has bytes ('u1')")

    def __setstate__(self, state: object) -> None:
        """Byte order and the like mean nothing to bytes."""


def _encode(text: str, encoding: str) -> bytes:
    """Takes the place of ``_codecs.encode``, with which Python 3 writes bytes in old protocols."""
    if encoding != "latin1":
        raise DataError(f"the pickle asks for the encoding {encoding!r}, where CIFAR has latin1")
    return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy", "ndarray"): object,
    ("numpy", "dtype"): _PickledType,
    ("_codecs", "encode"): _encode,
}
