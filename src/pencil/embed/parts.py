"""Features of a whole data set, written in parts. Where they go, ``outputs`` says.

Rows are divided into parts of a fixed size, whatever the number of processes, and each part is a file that is complete
or absent. So a run that was killed continues after its complete parts, and several processes write the same bytes as
one. They share nothing but the folder: rank 0 waits until all parts are there, then joins or indexes them.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from pencil.data import Examples, Unlabelled, content, span
from pencil.data.fingerprint import CONTENTS, fingerprint
from pencil.durable import is_partial, make_folder, replacing, write_text
from pencil.embed.encode import BATCH, encode_rows, encoded
from pencil.embed.encoder import Encoder
from pencil.errors import ConfigError

PART_ROWS = 8192
POLL_SECONDS = 0.2
SETTINGS = "embed.json"
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

    def settings(self) -> dict[str, Any]:
        """What must be equal for parts to belong together."""
        return {
            "model": self.encoder.name,
            "mark": self.encoder.mark,
            "features": self.encoder.size,
            "part_rows": self.part_rows,
            "data": {
                split: fingerprint(rows) if isinstance(rows, Examples) else _mark(rows)
                for split, rows in self.splits.items()
            },
        }


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
        features = []
        for rows, values in encoded(
            output.splits[part.split].inputs, output.encoder, range(part.start, part.stop), batch
        ):
            features.append(values)
            done += len(rows)
            progress(total - todo + done, total)
        with replacing(output.path(part)) as partial:
            output.write(part, torch.cat(features), partial)
    return done


def join_parts(output: Output, waiting: Callable[[int], None] = lambda _: None) -> Path:
    """Wait for the parts of all ranks, then finish; ``waiting`` is called with the number that is missing."""
    missing = output.parts
    while missing := [part for part in missing if not output.path(part).exists()]:
        waiting(len(missing))
        time.sleep(POLL_SECONDS)
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
    """Make the folder and its settings, or check that those there are the same."""
    path, settings = output.folder / SETTINGS, output.settings()
    if path.is_file():
        _check_same(json.loads(path.read_text(encoding="utf-8")), settings, output)
        return
    if rank == 0:
        _check_own(output)
    first = next(iter(output.splits.values()))
    encode_rows(first.inputs, output.encoder, [0])  # a model that does not fit leaves no folder behind
    make_folder(output.folder)
    if rank == 0:
        write_text(path, json.dumps(settings, indent=1))


def _check_own(output: Output) -> None:
    """Refuse a folder with files of others; another rank may have written parts already."""
    known = {f"{part.stem}{output.suffix}" for part in output.parts}
    found = [file.name for file in output.folder.iterdir()] if output.folder.is_dir() else []
    foreign = next(
        (name for name in found if name not in known and not any(is_partial(name, part) for part in known)),
        None,
    )
    if foreign is not None:
        raise ConfigError(
            f"--out {output.out}: holds {foreign}, which this command did not write; choose another folder"
        )


def _check_same(before: Mapping[str, Any], now: Mapping[str, Any], output: Output) -> None:
    words = {
        "model": "another model",
        "mark": "other weights or preprocessing",
        "part_rows": "another --part-rows",
        "data": "other data",
    }
    changed = [word for key, word in words.items() if before.get(key) != now[key]]
    if changed:
        raise ConfigError(
            f"--out {output.out}: was begun with {' and '.join(changed)}; remove {output.folder} or choose another"
        )
