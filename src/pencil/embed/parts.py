"""Features of a whole data set, written in parts. Where they go, ``outputs`` says.

Rows are divided into parts of a fixed size, whatever the number of processes, and each part is a file that is complete
or absent. So a run that was killed continues after its complete parts, and several processes write the same bytes as
one. They share nothing but the folder: rank 0 waits until all parts are there, then joins or indexes them.

Before a part is published, a sealed record of it is, with checksums of the rows that it was made from and of its file.
By these, parts of rows that have changed since and damaged parts are refused.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from pencil.data import Examples, Unlabelled, content, row_keys, span
from pencil.data.fingerprint import CONTENTS, fingerprint
from pencil.data.inputs import subset_inputs
from pencil.data.shards.cache import file_crc32
from pencil.durable import is_partial, make_folder, write_text
from pencil.embed.encode import BATCH, encode_rows, encoded
from pencil.embed.encoder import Encoder
from pencil.errors import ConfigError
from pencil.identity import FORMAT, seal_problem, sealed_json
from pencil.results.files import read_json, writing

PART_ROWS = 8192
SHOWN = 5  # parts in one message
POLL_SECONDS = 0.2
SETTINGS = "embed.json"
RECORDS = ".records"
Rows = Examples | Unlabelled
Progress = Callable[[int, int], None]
"""Called with the rows done and all rows of this rank; rows of complete parts count as done from the start."""


@dataclass(frozen=True)
class Part:
    """Consecutive rows of a split."""

    split: str
    number: int
    start: int
    stop: int

    @property
    def stem(self) -> str:
        """The file's name without ending."""
        return f"{self.split}-{self.number:05}"


def parts_of(splits: Mapping[str, Rows], part_rows: int) -> list[Part]:
    """All parts, in order."""
    return [
        Part(split, number, start, min(start + part_rows, len(rows)))
        for split, rows in splits.items()
        for number, start in enumerate(range(0, len(rows), part_rows))
    ]


@dataclass(frozen=True)
class Output(ABC):
    """Where features go.

    Attributes:
        out: The file or folder that the user named.
        splits: The rows by split: "train" and perhaps "test".
        encoder: Makes the features.
        part_rows: Rows of a part.
    """

    out: Path
    splits: Mapping[str, Rows]
    encoder: Encoder
    part_rows: int = PART_ROWS
    suffix: ClassVar[str]

    def __post_init__(self) -> None:
        self.check()

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The folder of the parts."""

    @abstractmethod
    def check(self) -> None:
        """Refuse what could not be finished, before hours of work."""

    @abstractmethod
    def write(self, part: Part, features: Tensor, path: Path) -> None:
        """Write a part (B, D) to a file."""

    @abstractmethod
    def finish(self) -> Path:
        """Join the parts; returns the path to train with."""

    def path(self, part: Part) -> Path:
        """The file of a part."""
        return self.folder / f"{part.stem}{self.suffix}"

    @property
    def parts(self) -> list[Part]:
        """All parts, in order."""
        return parts_of(self.splits, self.part_rows)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What must be equal for parts to belong together."""
        return {
            "format": FORMAT,
            "model": self.encoder.name,
            "mark": self.encoder.mark,
            "features": self.encoder.size,
            "part_rows": self.part_rows,
            "data": {
                split: fingerprint(rows) if isinstance(rows, Examples) else _mark(rows)
                for split, rows in self.splits.items()
            },
        }

    @cached_property
    def owner(self) -> str:
        """The owner of seals, a checksum of the settings: ranks cannot agree on a random id."""
        return _digest(json.dumps(self.settings, sort_keys=True).encode())

    def rows_mark(self, part: Part) -> str:
        """A checksum of a part's rows, as they are now. The settings have those of shards, which are not read."""
        rows = self.splits[part.split]
        mark = "\0".join(rows.ids[part.start : part.stop]).encode("utf-8", "surrogatepass")
        if getattr(rows.inputs, "checksum", None) is None:
            inputs = subset_inputs(rows.inputs, torch.arange(part.start, part.stop))
            mark += row_keys(inputs).numpy().tobytes()
        return _digest(mark)

    def put(self, part: Part, features: Tensor, mark: str) -> None:
        """Write a part (B, D) that was made from rows with this mark, and its record."""
        with writing(self.path(part), self.suffix) as partial:
            self.write(part, features, partial)
            record = {"rows": mark, "file": file_crc32(partial)}
            write_text(self._record(part), sealed_json(record, self.owner))

    def check_marks(self, parts: Sequence[Part], field: str, mark: Callable[[Part], object]) -> None:
        """Refuse parts whose record has another mark."""
        bad = [str(self.path(part)) for part in parts if self._recorded(part, field) != mark(part)]
        if bad:
            problem = "made from other rows" if field == "rows" else "damaged"
            remove = (
                f"rm {shlex.join(bad)}" if len(bad) <= SHOWN else f"rm -r {shlex.quote(str(self.folder))}"
            )
            raise ConfigError(
                f"--out {self.out}: {len(bad):,} of {len(self.parts):,} parts are {problem}, first {bad[0]}; remove "
                f"them and run the command again: {remove}"
            )

    def _recorded(self, part: Part, field: str) -> object:
        path = self._record(part)
        return read_json(path)[field] if path.exists() and not seal_problem(path, self.owner) else None

    def _record(self, part: Part) -> Path:
        return self.folder / RECORDS / f"{part.stem}.json"


def embed_rows(
    output: Output,
    *,
    rank: int = 0,
    world_size: int = 1,
    batch: int = BATCH,
    progress: Progress = lambda *_: None,
) -> int:
    """Write the parts of this rank that are not there yet; returns how many rows were encoded."""
    _begin(output, rank)
    all_parts = output.parts
    mine = [all_parts[number] for number in span(len(all_parts), rank, world_size)]
    left = [part for part in mine if not output.path(part).exists()]
    total, todo = (sum(part.stop - part.start for part in parts) for parts in (mine, left))
    done = 0
    for part in left:
        features, mark = [], output.rows_mark(part)  # before they are read: a row may change meanwhile
        for rows, values in encoded(
            output.splits[part.split].inputs, output.encoder, range(part.start, part.stop), batch
        ):
            features.append(values)
            done += len(rows)
            progress(total - todo + done, total)
        output.put(part, torch.cat(features), mark)
    return done


def join_parts(output: Output, waiting: Callable[[int], None] = lambda _: None) -> Path:
    """Wait for the parts of all ranks, then finish; ``waiting`` is called with the number that is missing."""
    missing = output.parts
    while missing := [part for part in missing if not output.path(part).exists()]:
        if not (output.folder / SETTINGS).exists():
            raise ConfigError(
                f"--out {output.out}: another process finished or removed it; run the command again"
            )
        waiting(len(missing))
        time.sleep(POLL_SECONDS)
    output.check_marks(output.parts, "file", lambda part: file_crc32(output.path(part)))
    return output.finish()


def _mark(rows: Unlabelled) -> dict[str, int]:
    """Identifies rows without labels: all ids, as no label shows that rows have moved, and a sample of contents."""
    ids = 0
    for name in rows.ids:
        ids = zlib.crc32(name.encode("utf-8", "surrogatepass") + b"\0", ids)
    contents = getattr(rows.inputs, "checksum", None)
    if contents is None:
        sample = range(0, len(rows), max(len(rows) // CONTENTS, 1))
        contents = zlib.crc32(b"".join(hashlib.blake2b(content(rows.inputs, row)).digest() for row in sample))
    return {"rows": len(rows), "ids": ids, "contents": contents}


def _begin(output: Output, rank: int) -> None:
    """Make the folder and its settings, or check that those there are the same.

    Rank 0 checks all parts that are there, since other ranks leave theirs as they are.
    """
    path = output.folder / SETTINGS
    begun = path.exists()
    if begun:
        _check_same(path, output)
    elif rank == 0:
        _check_own(output)
    if rank == 0:
        output.check_marks(
            [part for part in output.parts if output.path(part).exists()], "rows", output.rows_mark
        )
    if not begun:
        first = next(iter(output.splits.values()))
        encode_rows(first.inputs, output.encoder, [0])  # a model that does not fit leaves no folder behind
        make_folder(output.folder / RECORDS)
    if rank == 0 and not begun:
        write_text(path, sealed_json(output.settings, output.owner, indent=1))


def _check_own(output: Output) -> None:
    """Refuse a folder with files of others; another rank may have written parts already."""
    known = {RECORDS, *(f"{part.stem}{output.suffix}" for part in output.parts)}
    found = [file.name for file in output.folder.iterdir()] if output.folder.is_dir() else []
    foreign = next(
        (name for name in found if name not in known and not any(is_partial(name, part) for part in known)),
        None,
    )
    if foreign is not None:
        raise ConfigError(
            f"--out {output.out}: holds {foreign}, which this command did not write; choose another folder"
        )


def _check_same(path: Path, output: Output) -> None:
    remedy = f"remove {output.folder} or choose another"
    before = read_json(path, remedy=remedy)
    words = {
        "format": "another version",
        "model": "another model",
        "mark": "other weights or preprocessing",
        "part_rows": "another --part-rows",
        "data": "other data",
    }
    changed = [word for key, word in words.items() if before.get(key) != output.settings[key]]
    if changed:
        raise ConfigError(f"--out {output.out}: was begun with {' and '.join(changed)}; {remedy}")


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
