"""Arrays in ``.npy`` and ``.npz`` files from untrusted sources: no pickles, memory in proportion to the file."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pencil.errors import DataError, PencilError
from pencil.reading import MB, open_plain

FREE_BYTES = 256 * MB
MOST_PACKED = 100
"""Data larger than ``FREE_BYTES`` may unpack to this many times its packed size: random numbers hardly shrink,
sparse ones to a tenth or a fiftieth, a file made to fill memory to a thousandth."""


_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# CPython 3.11 may raise a SystemError where several threads parse Python at once, as numpy does with a header.
_PARSING = threading.Lock()


@dataclass(frozen=True)
class Header:
    """The checked header of an ``.npy``."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """What the array takes."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes]) -> Header:
    """Read the header of an ``.npy``; the file is then positioned after it. Raises ValueError for anything else."""
    if file.read(2) == b"PK":
        raise ValueError("it is an .npz archive; name it .npz")
    file.seek(0)
    try:
        version = np.lib.format.read_magic(file)
        with _PARSING:
            shape, fortran, dtype = _READERS[version](file)
    # numpy parses it as Python: TokenError, SyntaxError, RecursionError, MemoryError, ...
    except Exception as error:
        raise ValueError(
            f"its header is not that of an array: {str(error).partition(chr(10))[0][:200]}"
        ) from error
    return _checked(Header(shape, fortran, dtype))


def _checked(header: Header) -> Header:
    if header.dtype.hasobject:
        raise ValueError("it holds Python objects; save numbers or text")
    if any(length < 0 for length in header.shape) or (not header.dtype.itemsize and all(header.shape)):
        raise ValueError(f"its header names the shape {header.shape} of {header.dtype}")
    return header


def check_packed(packed: int, unpacked: int, what: str = "it") -> None:
    """Raise ValueError for data that would unpack to far more than its packed size justifies."""
    if unpacked > max(FREE_BYTES, MOST_PACKED * packed):
        raise ValueError(
            f"{what} would unpack from {packed:,} to {unpacked:,} bytes; if that is intended, save it unpacked"
        )


def load_array(path: Path, key: str | None = None) -> NDArray[Any]:
    """One array of a ``.npy`` (mapped, since it may be larger than memory) or, by key, of an ``.npz``."""
    where = f"{path}: " if key is None else f"{path}, array {key!r}: "
    try:
        return _map_npy(path) if key is None else _unpack(path, key)
    except PencilError:
        raise
    except Exception as error:  # damaged archives raise nearly anything
        raise DataError(
            f"{where}cannot read it as numpy data without pickled objects ({error}); write it again"
        ) from error


def _map_npy(path: Path) -> NDArray[Any]:
    with open_plain(path) as file:
        header = read_header(file)
        start, size = file.tell(), os.fstat(file.fileno()).st_size
        if header.bytes > size - start:
            raise ValueError(f"shape {header.shape} needs {header.bytes:,} bytes, found {size - start:,}")
        if not header.bytes:
            return np.empty(header.shape, header.dtype)
        # "c" is copy on write: torch wants a writable array, and the file must stay as it is.
        order: Any = "F" if header.fortran else "C"
        return np.asarray(np.memmap(file, header.dtype, "c", start, header.shape, order))


def _unpack(path: Path, key: str) -> NDArray[Any]:
    with _archive(path) as archive:
        member = archive.getinfo(f"{key}.npy" if f"{key}.npy" in archive.namelist() else key)
        check_packed(min(member.compress_size, path.stat().st_size), member.file_size)
        with archive.open(member) as file:
            header = read_header(file)
            if header.bytes > member.file_size:
                raise ValueError(
                    f"shape {header.shape} needs {header.bytes:,} bytes, found {member.file_size:,}"
                )
        with archive.open(member) as file:
            array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
            return array


def npz_keys(path: Path) -> list[str]:
    """The names of the arrays in an ``.npz``."""
    try:
        with _archive(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except PencilError:
        raise
    except Exception as error:
        raise DataError(f"{path}: cannot read it as an .npz archive ({error}); write it again") from error


@contextlib.contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    with open_plain(path) as file, zipfile.ZipFile(file) as archive:
        yield archive


def as_tensor(array: NDArray[Any], what: str) -> Tensor:
    """The array as a tensor of the same type and, where the machine's byte order allows, the same memory."""
    try:
        native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        return torch.from_numpy(native)
    except TypeError as error:
        raise DataError(
            f"{what} has type {array.dtype}, which torch does not support; save it as numbers"
        ) from error
