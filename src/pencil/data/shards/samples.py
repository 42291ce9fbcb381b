"""What a sample of a shard may hold: an input and a label, found by extension or column. Nothing is ever unpickled."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pencil.data.arrays import read_header
from pencil.data.images import IMAGE_SUFFIXES
from pencil.data.shards.index import Integers, Kind
from pencil.errors import DataError
from pencil.reading import parse_json

IMAGES = frozenset(suffix.removeprefix(".") for suffix in IMAGE_SUFFIXES)
TEXTS = frozenset({"cls", "txt", "json"})
PICKLES = frozenset({"pickle", "pkl", "pt", "pth", "pyd"})
LABEL_BYTES = 1 << 20
"""The most a file that holds a label may have."""
HEADER = 16384
"""Bytes that the header of an ``.npy`` fits into; numpy itself refuses longer headers."""


@dataclass(frozen=True)
class Fields:
    """Where input, label and id of a sample are, if not in the usual place.

    Attributes:
        label: Tar: the extension of the file with the label, or the field of the ``.json``. Parquet: its column.
        input: Tar: the extension of the input. Parquet: its column.
        id: Parquet: the column that names the rows.
        ignore: Extensions of files in tar shards that are ignored.
    """

    label: str | None = None
    input: str | None = None
    id: str | None = None
    ignore: frozenset[str] = frozenset()


@dataclass
class Scan:
    """What one shard holds, N rows.

    ``labels`` are texts; ``offsets`` and ``sizes`` are empty for Parquet; ``keys`` are empty where rows have no names.
    """

    labels: list[str] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    groups: tuple[int, ...] = ()
    column: str | None = None
    bytes: int = 0
    crc32: int = 0
    layouts: set[Layout] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Layout:
    """What inputs look like; all of a data set must agree. Images may differ in size, so they have no shape."""

    kind: Kind
    shape: tuple[int, ...] = ()
    dtype: str = ""

    def __str__(self) -> str:
        return self.kind if self.kind == "images" else f"features {self.shape} of {self.dtype}"


def label_text(content: bytes) -> str:
    """The label that a ``.cls`` or ``.txt`` holds."""
    if len(content) > LABEL_BYTES:
        raise ValueError(f"its label has more than {LABEL_BYTES:,} bytes; a label is a number or a name")
    text = content.decode("utf-8").strip()
    if not text:
        raise ValueError("its label is empty")
    return text


def label_in_json(content: bytes, name: str) -> str:
    """The label in a field of a JSON object."""
    if len(content) > LABEL_BYTES:
        raise ValueError(f"its .json has more than {LABEL_BYTES:,} bytes; write the label as .cls")
    table = parse_json(content, source="its .json")
    if not isinstance(table, dict) or name not in table:
        raise ValueError(f"its .json has no field {name!r}")
    return label_value(table[name])


def label_value(value: Any) -> str:
    """A label as text; only text and whole numbers are labels."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"its label {value!r} is neither text nor a whole number")
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise ValueError("its label is a number of more than 18 digits, which is no class")
    return label_text(str(value).encode())


def npy_layout(head: bytes, size: int) -> Layout:
    """What an ``.npy`` of ``size`` bytes that begins so holds."""
    file = io.BytesIO(head)
    header = read_header(file)
    shape, dtype = header.shape, header.dtype
    if dtype.kind not in "fiu" or len(shape) == 0:
        raise ValueError(f"an array of {dtype} with shape {shape} holds no features")
    if file.tell() + header.bytes != size:
        raise ValueError("the array is cut off")
    return Layout("features", tuple(map(int, shape)), dtype.newbyteorder("=").name)


def read_npy(content: bytes, layout: Layout, name: str) -> NDArray[Any]:
    """The features an ``.npy`` holds, checked against the index."""
    try:
        npy_layout(content, len(content))
        array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except Exception as error:  # numpy parses headers as Python
        raise DataError(f"{name}: cannot be read as .npy ({error}); restore the shard") from error
    if array.shape != layout.shape or array.dtype.name != layout.dtype:
        raise DataError(
            f"{name}: {array.dtype} {array.shape}, but the index says {layout}; write the index again"
        )
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def refused(extension: str) -> str:
    """Why a file of a sample is not taken."""
    if extension.rpartition(".")[2] in PICKLES:
        return (
            f".{extension} is refused, because unpickling runs code; write labels as .cls, features as .npy"
        )
    known = ", ".join(sorted(IMAGES | TEXTS | {"npy"}))
    return f".{extension} is unknown (known: {known}); ignore it with --ignore {extension}"


def integers(values: list[int]) -> Integers:
    """As the index keeps them."""
    return np.asarray(values, dtype="<i8")
