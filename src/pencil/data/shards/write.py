"""Writing an index: every shard is read once; the folder appears when it is whole."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from pencil.data.shards.classes import check_test_classes, class_table
from pencil.data.shards.index import MANIFEST, Format, Shard, ShardIndex, SplitIndex
from pencil.data.shards.listing import Listed, list_shards, named, real_place
from pencil.data.shards.parquet import scan_parquet
from pencil.data.shards.remote import fetch
from pencil.data.shards.samples import Fields, Layout, Scan, integers
from pencil.data.shards.tar import scan_tar
from pencil.durable import make_folder, publish, sync
from pencil.errors import DataError, PencilError
from pencil.places import is_remote

SHOWN = 10  # mistakes in one message
CHUNK = 1 << 20  # labels renumbered at once
Given = TypeVar("Given")
Result = TypeVar("Result")
Progress = Callable[[int, int, int], None]
"""Called with shards done, all shards, and rows so far."""


def write_index(
    splits: Mapping[str, Sequence[str]],
    out: Path,
    fields: Fields | None = None,
    *,
    workers: int = 1,
    progress: Progress = lambda *_: None,
) -> ShardIndex:
    """Read every shard once and write what it holds to the folder ``out``.

    Args:
        splits: Shards by split (``train``, perhaps ``test``), as files, folders, patterns, addresses or lists.
        out: The index; it must not exist yet.
        fields: Where labels and inputs are.
        workers: Shards read at once.
        progress: Called with the progress.
    """
    if out.exists():
        raise DataError(f"--out {out}: exists already; remove it or choose another folder")
    urls = {split: list_shards(words) for split, words in splits.items()}
    _check_apart(urls)
    shards = named([url for found in urls.values() for url in found])
    with _aside(out) as folder:
        building = _Building(folder, out)
        splits_of = [split for split, found in urls.items() for _ in found]
        scans = in_order(partial(_scan, fields=fields or Fields()), shards, workers)
        for done, (split, listed, scan) in enumerate(zip(splits_of, shards, scans, strict=True), 1):
            building.add(split, listed, scan)
            progress(done, len(shards), building.rows)
        building.finish()
    return ShardIndex.open(out)


def _check_apart(urls: Mapping[str, Sequence[str]]) -> None:
    """Refuse a shard that two splits have."""
    split_of: dict[str, str] = {}
    for split, found in urls.items():
        for url in found:
            if split_of.setdefault(real_place(url), split) != split:
                raise DataError(f"{url}: in two splits; what is tested must not be trained on")


@contextlib.contextmanager
def _aside(out: Path) -> Iterator[Path]:
    """A folder that becomes ``out`` when all went well, and nothing when not."""
    folder = out.with_name(f".{out.name}.partial")
    if folder.exists():
        shutil.rmtree(folder)  # of a process that was killed
    make_folder(out.parent)
    folder.mkdir()
    try:
        yield folder
        for file in folder.iterdir():
            sync(file)
        publish(folder, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _scan(listed: Listed, fields: Fields) -> Scan:
    """What a shard holds; a remote one is fetched for it, and not kept."""
    scan = scan_tar if listed.format == "tar" else scan_parquet
    try:
        if not is_remote(listed.url):
            return scan(Path(listed.url), fields)
        with tempfile.TemporaryDirectory(prefix="pencil-index-") as folder:
            copy = Path(folder) / "shard"
            fetch(listed.url, copy)
            return scan(copy, fields)
    except FileNotFoundError as error:
        return Scan(problems=[f"not found ({error})"])
    except PencilError as error:
        return Scan(problems=[str(error)])


def in_order(
    function: Callable[[Given], Result], items: Iterable[Given], workers: int = 1
) -> Iterator[Result]:
    """The function's results, computed by several threads a little ahead of the consumer."""
    if workers == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    # Threads: reading, fetching and checksums, where the time goes, run beside one another.
    with ThreadPoolExecutor(workers) as pool:
        left = iter(items)
        try:
            while True:
                waiting.extend(
                    pool.submit(function, item) for item in itertools.islice(left, 2 * workers - len(waiting))
                )
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


@dataclass
class _Building:
    """An index that grows shard by shard. Labels are numbered by first appearance until all class names are known.

    ``layout``, ``column`` and, by split, whether there are ``ids`` are those of the first shard, with its name.
    """

    folder: Path
    out: Path
    rows: int = 0
    shards: dict[str, list[Shard]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    first_in: dict[str, str] = field(default_factory=dict)
    train_classes: int = 0
    layout: tuple[Layout, str] | None = None
    column: tuple[str, str] | None = None
    ids: dict[str, tuple[bool, str]] = field(default_factory=dict)
    format: Format = "tar"
    problems: list[str] = field(default_factory=list)

    def add(self, split: str, listed: Listed, scan: Scan) -> None:
        """Append a shard; its mistakes are collected until there are enough for a message."""
        self._check_layout(listed, scan)
        self._check_columns(split, listed, scan)
        self.problems += [f"{listed.name}: {problem}" for problem in scan.problems]
        if len(self.problems) >= SHOWN:
            self._raise_problems()
        for label in scan.labels:
            self.first_in.setdefault(label, listed.name)
        labels = [self.numbers.setdefault(label, len(self.numbers)) for label in scan.labels]
        self._append(split, "labels", labels)
        self._append(split, "offsets", scan.offsets)
        self._append(split, "sizes", scan.sizes)
        self._append_keys(split, scan.keys)
        url = listed.url if is_remote(listed.url) else _portable(listed.url, self.out)
        shard = Shard(listed.name, url, len(labels), scan.bytes, scan.crc32, scan.groups)
        self.shards.setdefault(split, []).append(shard)
        self.rows += len(labels)
        self.format = listed.format
        if split == "train":
            self.train_classes = len(self.numbers)

    def finish(self) -> None:
        """Number the classes in their order, write the manifest."""
        if self.problems:
            self._raise_problems()
        if self.layout is None:
            raise DataError("the shards hold no samples; check that they are those you mean")
        splits = {name: SplitIndex(self.folder, name, tuple(shards)) for name, shards in self.shards.items()}
        check_test_classes(list(self.numbers), self.train_classes)
        classes, table = class_table(self.first_in, self.rows)
        for split in splits.values():
            _renumber(split, table)
        layout = self.layout[0]
        index = ShardIndex(
            folder=self.folder,
            format=self.format,
            kind=layout.kind,
            classes=classes,
            splits=splits,
            column=None if self.column is None else self.column[0],
            shape=layout.shape,
            dtype=layout.dtype,
        )
        with (self.folder / MANIFEST).open("w", encoding="utf-8") as file:
            json.dump(index.table(), file, ensure_ascii=False, indent=1)

    def _check_layout(self, listed: Listed, scan: Scan) -> None:
        for layout in sorted(scan.layouts, key=str):
            known, where = self.layout or (layout, listed.name)
            self.layout = (known, where)
            if layout != known:
                scan.problems.append(f"holds {layout}, but {where} holds {known}")

    def _check_columns(self, split: str, listed: Listed, scan: Scan) -> None:
        """The index keeps one input column for all shards, and ids for all rows of a split or for none."""
        if scan.column is None or not scan.labels:
            return
        column, where = self.column = self.column or (scan.column, listed.name)
        if scan.column != column:
            scan.problems.append(
                f"its input column is {scan.column!r}, but that of {where} is {column!r}; rename it, or name a column "
                "that all shards have with --input-field"
            )
        has_ids, where = self.ids.setdefault(split, (bool(scan.keys), listed.name))
        if bool(scan.keys) != has_ids:
            words = f"has no ids, but {where} has" if has_ids else f"has ids, but {where} has none"
            scan.problems.append(f"{words}; write a column of ids to all shards, or to none")

    def _append(self, split: str, array: str, values: Sequence[int]) -> None:
        if values or array == "labels":
            with (self.folder / f"{split}-{array}.bin").open("ab") as file:
                file.write(integers(list(values)).tobytes())

    def _append_keys(self, split: str, keys: Sequence[bytes]) -> None:
        if keys:
            with (self.folder / f"{split}-keys.bin").open("ab") as file:
                begun = file.seek(0, os.SEEK_END)
                file.write(b"".join(keys))
            ends = itertools.accumulate(map(len, keys), initial=begun)
            self._append(split, "key-ends", list(ends)[1:])

    def _raise_problems(self) -> None:
        more = [f"and {len(self.problems) - SHOWN} more"] if len(self.problems) > SHOWN else []
        lines = "\n  ".join([*self.problems[:SHOWN], *more])
        raise DataError(f"fix these shards, then index again:\n  {lines}")


def _portable(path: str, out: Path) -> str:
    """Relative where shards are beside the index or below, so that both can move together; else absolute."""
    home = os.path.realpath(out.parent)
    real = os.path.realpath(path)
    return os.path.relpath(real, home) if Path(real).is_relative_to(home) else real


def _renumber(split: SplitIndex, table: Sequence[int]) -> None:
    labels, lookup = split.file("labels"), np.asarray(table, dtype="<i8")
    if not len(split):
        return
    with labels.open("r+b") as file:
        while stored := file.read(8 * CHUNK):
            file.seek(-len(stored), os.SEEK_CUR)
            file.write(lookup[np.frombuffer(stored, "<i8")].tobytes())
