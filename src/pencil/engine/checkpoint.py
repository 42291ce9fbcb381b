"""Checkpoints by torch.distributed.checkpoint (DCP): whole or absent.

A checkpoint is a folder ``step-0000001234``. It is written under another name, its files are listed with sizes and
checksums in ``complete.json``, all of them are synced, and only then is it renamed. A folder without that list, or
whose files differ from it, is not a checkpoint. Everything DCP writes is a tensor; what is not (the progress of a
run) is JSON in a tensor of bytes. Label rows are beside it in raw files (``row_files``). DCP would read its index with
pickle; it gets one that ``index`` has read safely. DCP is imported where it is used: its import takes half as long as
all of torch, and commands that only read results do not need it.
"""

from __future__ import annotations

import json
import shlex
import shutil
import warnings
import zlib
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pencil.durable import make_folder, publish, sync
from pencil.engine.index import INDEX, index_reader, read_index
from pencil.engine.row_files import Fingerprint, RowSnapshot, write_rows
from pencil.engine.runtime import Runtime, is_lost_rank
from pencil.errors import RunError
from pencil.reading import is_file, parse_json, read_json

COMPLETE = "complete.json"
NEEDS = "needs.json"
State = dict[str, Tensor]


class Checkpoints:
    """The checkpoints of one run: the newest are kept, and older ones that one of them needs; others are removed."""

    def __init__(self, folder: Path, runtime: Runtime, keep: int = 2) -> None:
        self.folder = folder
        self._runtime = runtime
        self._keep = keep
        self._saving: Future[Path] | None = None
        self._background = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._whole: Path | None = None  # known to be
        # Checkpoints are saved beside training, over connections of their own. They are opened here, where the ranks
        # have just connected: a host that is lost meanwhile is noticed late.
        self._group = runtime.new_group()

    def save(
        self, step: int, state: State, rows: RowSnapshot | None = None, needs: Collection[int] = ()
    ) -> Path:
        """Write the state after ``step`` steps; returns once it is whole on disk.

        ``needs``: steps of older checkpoints that stay as long as this one is among the newest.
        """
        self.wait()
        return self._save(step, state, rows, needs)

    def begin(
        self, step: int, state: State, rows: RowSnapshot | None = None, needs: Collection[int] = ()
    ) -> None:
        """Write the state in the background; first waits for the save before, and raises what went wrong in it."""
        self.wait()
        copies = {name: value.detach().clone() for name, value in state.items()}
        self._saving = self._background.submit(self._save, step, copies, rows, needs)

    def wait(self) -> None:
        """Wait until nothing is being saved; raises what went wrong."""
        _be_quiet_about_one_process()
        if self._saving is not None:
            saving, self._saving = self._saving, None
            saving.result()

    def at(self, step: int) -> Path:
        """Where the checkpoint after ``step`` steps is, or would be."""
        return self.folder / f"step-{step:010d}"

    def newest(self) -> Path | None:
        """The newest whole checkpoint; skips damaged ones with a warning, and raises ``RunError`` where all are."""
        damaged: dict[str, str] = {}
        for path in sorted(self.folder.glob("step-*"), reverse=True):
            problem = self._damage(path)
            if problem is None:
                self._whole = path
                for name, problem in damaged.items():
                    warnings.warn(f"checkpoint {name} is not used: {problem}", stacklevel=2)
                return path
            damaged[path.name] = problem
        if damaged:
            found = "; ".join(f"{name}: {problem}" for name, problem in damaged.items())
            raise RunError(
                f"{self.folder}: every checkpoint is damaged ({found}); put back one from a copy, or begin again with: "
                f"pencil resume {shlex.quote(str(self.folder.parent))} --from-start"
            )
        return None

    def load(self, path: Path, state: State) -> None:
        """Fill the tensors of ``state``, in place, from a checkpoint."""
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.state_dict_loader import load as dcp_load

        problem = None if path == self._whole else self._damage(path)
        if problem is not None:
            raise RunError(f"checkpoint {path} cannot be loaded: {problem}; resume from an older one")
        reader = index_reader(path, read_index(path))
        _be_quiet_about_one_process()
        try:
            dcp_load(state, storage_reader=reader, no_dist=self._runtime.world_size == 1)
        except (CheckpointException, Exception) as error:
            cause = _first_failure(error)
            if isinstance(cause, RuntimeError) and is_lost_rank(cause):
                raise cause from error
            raise RunError(
                f"checkpoint {path} does not fit this run ({cause}); resume it with the settings, data and code that "
                "it began with"
            ) from error

    def _damage(self, path: Path) -> str | None:
        """What is wrong; each rank checks its share of the files, and all get the result."""
        problem = damage(path, self._runtime.rank, self._runtime.world_size)
        found = self._runtime.total(torch.tensor([float(problem is not None)]))
        return problem or ("another rank found a file damaged" if found[0] else None)

    def _save(self, step: int, state: State, rows: RowSnapshot | None, needs: Collection[int]) -> Path:
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.filesystem import FileSystemWriter
        from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

        final, group = self.at(step), self._group
        partial = self.folder / f".{final.name}.partial"
        if final == self._whole:  # the run was resumed here: this is on disk already
            return final
        if self._runtime.is_main:
            make_folder(self.folder)
            for leftover in self.folder.glob(".step-*.partial"):  # of a process killed while saving
                shutil.rmtree(leftover)
        self._runtime.barrier(group)
        try:
            dcp_save(
                dict(state),
                # DCP would sync its index before the last bytes of it are written; ``_own_files`` syncs all.
                storage_writer=FileSystemWriter(partial, sync_files=False),
                process_group=group,
                no_dist=self._runtime.world_size == 1,
            )
        except CheckpointException as error:
            raise _first_failure(error) from None
        files = self._runtime.gathered(self._own_files(partial, rows, needs), group)
        if self._runtime.is_main:
            self._commit(partial, final, {name: mark for each in files for name, mark in each.items()})
        self._runtime.barrier(group)
        return final

    def _own_files(
        self, partial: Path, rows: RowSnapshot | None, needs: Collection[int]
    ) -> dict[str, Fingerprint]:
        """The fingerprints of what this rank wrote, which is on disk then."""
        mine = [*partial.glob(f"__{self._runtime.rank}_*")]
        if self._runtime.is_main:
            mine.append(partial / INDEX)
            if needs:
                (partial / NEEDS).write_text(json.dumps(sorted(needs)))
                mine.append(partial / NEEDS)
        written = write_rows(partial, rows) if rows is not None else {}
        for file in mine:
            sync(file)
        return {file.name: fingerprint(file) for file in mine} | written

    def _commit(self, partial: Path, final: Path, files: dict[str, Fingerprint]) -> None:
        (partial / COMPLETE).write_text(json.dumps(files))
        sync(partial / COMPLETE)
        if final.exists():
            shutil.rmtree(final)
        publish(partial, final)
        self._remove_all_but_newest(final)

    def _remove_all_but_newest(self, last: Path) -> None:
        """Those numbered beyond the last one saved were damaged and skipped: they must not count as kept."""
        found = sorted(self.folder.glob("step-*"))
        kept = [path for path in found if path.name <= last.name][-self._keep :]
        needed = {self.at(step) for path in kept for step in _needs(path)}
        for path in found:
            if path not in kept and (path not in needed or path.name > last.name):
                shutil.rmtree(path)


def damage(path: Path, share: int = 0, shares: int = 1) -> str | None:
    """Why a folder is not a whole checkpoint, or None; checks one of several shares of its files."""
    try:
        listed = read_json(path / COMPLETE, error=RunError)
    except RunError:
        listed = None
    if not isinstance(listed, dict) or INDEX not in listed:
        return f"{COMPLETE} is missing or cut off"
    for name in sorted(listed)[share::shares]:
        if not _lies_in(path, name) or fingerprint(path / name) != listed[name]:
            return f"{name} is missing or differs from what was written"
    return None


def _needs(path: Path) -> list[int]:
    """The steps of the checkpoints that a checkpoint needs; none where that cannot be read."""
    try:
        found = read_json(path / NEEDS, error=RunError) if is_file(path / NEEDS) else []
    except RunError:
        return []
    return [step for step in found if type(step) is int] if isinstance(found, list) else []


def _lies_in(folder: Path, name: str) -> bool:
    """Whether a name is that of a plain file in the folder itself."""
    path = folder / name
    return path.parent == folder and is_file(path) and not path.is_symlink()


def tensors_in(path: Path, prefix: str) -> State:
    """Empty tensors, shaped as the checkpoint's entries under ``prefix``, for ``Checkpoints.load`` to fill."""
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    return {
        key: torch.empty(entry.size, dtype=entry.properties.dtype)
        for key, entry in read_index(path).state_dict_metadata.items()
        if key.startswith(prefix) and isinstance(entry, TensorStorageMetadata)
    }


def _first_failure(error: BaseException) -> BaseException:
    """The error of the first rank that DCP names; DCP's own message is a traceback for each rank."""
    failures = getattr(error, "failures", None)
    return next(iter(failures.values()))[0] if failures else error


def to_bytes(value: Mapping[str, Any]) -> Tensor:
    """JSON as a tensor of bytes: floats stay exact, and pickle is not needed."""
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).clone()


def from_bytes(value: Tensor) -> dict[str, Any]:
    """What ``to_bytes`` was given."""
    decoded: dict[str, Any] = parse_json(bytes(value.tolist()), source="the checkpoint")
    return decoded


def fingerprint(path: Path) -> Fingerprint:
    """Size and checksum of a file."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            checksum = zlib.crc32(block, checksum)
    return [path.stat().st_size, checksum]


def _be_quiet_about_one_process() -> None:
    """DCP warns whenever there is no process group, which is intended here. Filters hold for all threads."""
    warnings.filterwarnings("ignore", message="torch.distributed is disabled")
