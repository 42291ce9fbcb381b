"""Checkpoints by torch.distributed.checkpoint (DCP): whole or absent.

A checkpoint is a folder ``step-0000001234``. It is written under another name, its files are listed with sizes and
checksums in ``complete.json``, and only then is it renamed. A folder without that list, or whose files differ from
it, is not a checkpoint. Everything in it is a tensor; what is not (the progress of a run) is JSON in a tensor of
bytes. DCP reads its own index with pickle, so the index is first passed through an unpickler that knows DCP's
record types and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from pencil.engine.runtime import Runtime
from pencil.errors import RunError

COMPLETE = "complete.json"
State = dict[str, Tensor]


class Checkpoints:
    """The checkpoints of one run, newest kept, older ones removed."""

    def __init__(self, folder: Path, runtime: Runtime, keep: int = 2) -> None:
        self.folder = folder
        self._runtime = runtime
        self._keep = keep

    def save(self, step: int, state: State) -> Path:
        """Write the state after ``step`` steps; returns once it is whole on disk."""
        final = self.folder / f"step-{step:010d}"
        partial = self.folder / f".{final.name}.partial"
        if self._runtime.is_main:
            for leftover in self.folder.glob(".step-*.partial"):  # of a process killed while saving
                shutil.rmtree(leftover)
        self._runtime.barrier()
        with _quiet_about_one_process():
            dcp_save(dict(state), checkpoint_id=partial, no_dist=self._runtime.world_size == 1)
        self._runtime.barrier()
        if self._runtime.is_main:
            self._commit(partial, final)
        self._runtime.barrier()
        return final

    def newest(self) -> Path | None:
        """The newest whole checkpoint; damaged ones are passed over with a warning."""
        for path in sorted(self.folder.glob("step-*"), reverse=True):
            problem = damage(path)
            if problem is None:
                return path
            warnings.warn(f"checkpoint {path.name} is not used: {problem}", stacklevel=2)
        return None

    def load(self, path: Path, state: State) -> None:
        """Fill the tensors of ``state``, in place, from a checkpoint."""
        problem = damage(path)
        if problem is not None:
            raise RunError(f"checkpoint {path} cannot be loaded: {problem}; resume from an older one")
        check_index(path / ".metadata")
        with _quiet_about_one_process():
            dcp_load(state, checkpoint_id=path, no_dist=self._runtime.world_size == 1)

    def _commit(self, partial: Path, final: Path) -> None:
        files = {file.name: _fingerprint(file) for file in sorted(partial.iterdir())}
        _write_durably(partial / COMPLETE, json.dumps(files))
        if final.exists():
            shutil.rmtree(final)
        partial.rename(final)
        _sync_folder(self.folder)
        self._remove_all_but_newest(final)

    def _remove_all_but_newest(self, last: Path) -> None:
        """What is numbered beyond the last one saved was damaged and passed over: it must not count as kept."""
        found = sorted(self.folder.glob("step-*"))
        kept = [path for path in found if path.name <= last.name][-self._keep :]
        for path in found:
            if path not in kept:
                shutil.rmtree(path)


def damage(path: Path) -> str | None:
    """What keeps a folder from being a whole checkpoint, or None."""
    try:
        listed = json.loads((path / COMPLETE).read_text())
    except (OSError, ValueError):
        listed = None
    if not isinstance(listed, dict) or ".metadata" not in listed:
        return f"{COMPLETE} is missing or cut off"
    for name, fingerprint in listed.items():
        if not (path / name).is_file() or _fingerprint(path / name) != fingerprint:
            return f"{name} is missing or differs from what was written"
    return None


def tensors_in(path: Path, prefix: str) -> State:
    """Empty tensors, shaped as the checkpoint's entries under ``prefix``, for ``Checkpoints.load`` to fill."""
    check_index(path / ".metadata")
    index = FileSystemReader(path).read_metadata().state_dict_metadata
    return {
        key: torch.empty(entry.size, dtype=entry.properties.dtype)
        for key, entry in index.items()
        if key.startswith(prefix) and isinstance(entry, TensorStorageMetadata)
    }


def to_bytes(value: Mapping[str, Any]) -> Tensor:
    """JSON as a tensor of bytes: floats survive exactly, and nothing needs pickle."""
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).clone()


def from_bytes(value: Tensor) -> dict[str, Any]:
    """What ``to_bytes`` was given."""
    decoded: dict[str, Any] = json.loads(bytes(value.tolist()))
    return decoded


_INDEX_NAMES = {
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


class _IndexUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        plain_torch = module == "torch" and (
            name == "Size" or isinstance(getattr(torch, name, None), torch.dtype)
        )
        if not plain_torch and name not in _INDEX_NAMES.get(module, ()):
            raise RunError(
                f"the checkpoint's index asks for {module}.{name}: it was not written by this program"
            )
        return super().find_class(module, name)


def check_index(path: Path) -> None:
    """Refuse an index that holds anything but DCP's records of tensors."""
    with path.open("rb") as file:
        try:
            _IndexUnpickler(file).load()
        except RunError:
            raise
        except Exception as error:  # bytes that are no pickle fail in every way there is
            raise RunError(f"the checkpoint's index {path} cannot be read: {error}") from error


def _fingerprint(path: Path) -> list[int]:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            checksum = zlib.crc32(block, checksum)
    return [path.stat().st_size, checksum]


def _write_durably(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _quiet_about_one_process() -> Any:
    """DCP warns whenever there is no process group; here that is a choice."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield
