"""A checkpoint's index, read without running code from it.

torch.distributed.checkpoint (DCP) keeps its index in ``.metadata`` and reads it with plain pickle, which can run code.
Here it is read once, by an unpickler that knows DCP's record types and nothing else; what it says is checked against
the folder; and DCP gets the result from ``IndexedReader`` and never opens the file itself.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pencil.errors import RunError
from pencil.reading import MB, is_file, open_plain

if TYPE_CHECKING:
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

INDEX = ".metadata"
INDEX_BYTES = 256 * MB  # a model of a million tensors has a smaller one

_RECORDS = {
    "torch.distributed.checkpoint.metadata": {
        "Metadata",
        "TensorStorageMetadata",
        "TensorProperties",
        "ChunkStorageMetadata",
        "MetadataIndex",
        "StorageMeta",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "pathlib": {"PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"},
    "pathlib._local": {"PosixPath", "WindowsPath"},
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        plain_torch = module == "torch" and (
            name == "Size" or isinstance(getattr(torch, name, None), torch.dtype)
        )
        if not plain_torch and name not in _RECORDS.get(module, ()):
            raise RunError(
                f"the checkpoint's index asks for {module}.{name}: it was not written by this program"
            )
        return super().find_class(module, name)


def read_index(folder: Path) -> Metadata:
    """The index of a checkpoint; refuses one that holds anything but records of tensors in this folder's files."""
    path = folder / INDEX
    with open_plain(path, error=RunError) as file:
        if path.stat().st_size > INDEX_BYTES:
            raise RunError(f"{path}: is larger than {INDEX_BYTES:,} bytes, which no such index needs")
        try:
            index = _Unpickler(file).load()
            problem = next(_problems(index, folder), None)
        except RunError:
            raise
        except Exception as error:  # bytes that are no pickle, and records of the wrong kind, raise any error
            raise RunError(f"the checkpoint's index {path} cannot be read: {error}") from error
    if problem is not None:
        raise RunError(f"the checkpoint's index {path} was not written by this program: {problem}")
    found: Metadata = index
    return found


def index_reader(folder: Path, index: Metadata) -> FileSystemReader:
    """What DCP loads a checkpoint with: an index that was read already, and the files beside it."""
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    class IndexedReader(FileSystemReader):
        def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
            return index

    return IndexedReader(folder)


def _problems(index: Any, folder: Path) -> Iterator[str]:
    """What is wrong with an index, if anything."""
    from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

    if type(index) is not Metadata or not isinstance(index.storage_data, dict):
        yield f"it holds a {type(index).__name__}"
        return
    sizes = {
        name: _size_of(folder, name) for name in {info.relative_path for info in index.storage_data.values()}
    }
    for info in index.storage_data.values():
        if (
            info.transform_descriptors
            or not 0 <= info.offset <= info.offset + info.length <= sizes[info.relative_path]
        ):
            yield f"it names bytes that {info.relative_path!r} does not have"
    held: dict[str, int] = {}
    for key, info in index.storage_data.items():
        held[key.fqn] = held.get(key.fqn, 0) + info.length
    for name, entry in index.state_dict_metadata.items():
        if type(name) is not str or type(entry) is not TensorStorageMetadata:
            yield f"its entry {name!r} is no tensor"
        elif _bytes_of(entry) > held.get(name, 0):
            yield f"its entry {name!r} is larger than the files that hold it"


def _size_of(folder: Path, name: Any) -> int:
    """The size of a plain file of the folder; -1 for any other name."""
    if type(name) is not str or not name.startswith("__") or "/" in name or "\\" in name:
        return -1
    path = folder / name
    return path.stat().st_size if is_file(path) and not path.is_symlink() else -1


def _bytes_of(entry: TensorStorageMetadata) -> int:
    """The bytes of a tensor, whose chunks must lie within it."""
    for chunk in entry.chunks:
        spans = zip(chunk.offsets, chunk.sizes, entry.size, strict=True)
        if not all(0 <= offset <= offset + size <= whole for offset, size, whole in spans):
            raise ValueError("a chunk lies outside its tensor")
    return math.prod(entry.size) * entry.properties.dtype.itemsize
