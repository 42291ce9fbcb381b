"""Tar shards in the WebDataset layout: files of one sample follow one another and share their name up to the first dot.

A row is addressed by the offset and size of its input within the shard.
"""

from __future__ import annotations

import itertools
import os
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pencil.data.shards.files import OpenFiles
from pencil.data.shards.index import SplitIndex
from pencil.data.shards.samples import (
    HEADER,
    IMAGES,
    LABEL_BYTES,
    TEXTS,
    Fields,
    Layout,
    Scan,
    label_in_json,
    label_text,
    npy_layout,
    refused,
)
from pencil.errors import DataError, PencilError
from pencil.reading import open_plain

BLOCK = 512  # of the tar format
MOST_EMPTY = 100  # reads after the last byte; a complete tar needs two
_OUTSIDE = re.compile(r"^[/\\]|(^|[/\\])\.\.([/\\]|$)")


@dataclass(frozen=True)
class _File:
    """A file of a sample; of labels its content, of features its head."""

    key: str
    extension: str
    offset: int
    size: int
    content: bytes


def scan_tar(path: Path, fields: Fields) -> Scan:
    """Everything the index keeps of a shard, read once from beginning to end."""
    scan = Scan()
    with open_plain(path) as raw:
        reader = _Counted(raw)
        try:
            # Typing: a stream needs nothing of its file but read.
            with tarfile.open(fileobj=reader, mode="r|") as tar:  # type: ignore[call-overload]
                _scan_samples(_files(tar, fields, scan), fields, scan)
                reader.drain()
                if reader.count < tar.offset + BLOCK and scan.labels:
                    scan.problems.append(
                        "it ends without the empty block that ends a tar; it is cut off, copy it again"
                    )
        except Exception as error:  # headers of a damaged tar make tarfile raise nearly anything
            scan.problems.append(
                f"cannot be read as a tar file ({error or type(error).__name__}); it is damaged or cut off, "
                "copy it again"
            )
    scan.bytes, scan.crc32 = reader.count, reader.crc32
    return scan


class _Counted:
    """A file whose bytes are counted and summed as they are read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = 0
        self.crc32 = 0
        self._empty = 0

    def read(self, size: int) -> bytes:
        block = self._file.read(size)
        self._empty += not block
        if self._empty > MOST_EMPTY:  # tarfile reads on to the end that a header claims, however far
            raise EOFError("a file in it is longer than the tar")
        self.count += len(block)
        self.crc32 = zlib.crc32(block, self.crc32)
        return block

    def drain(self) -> None:
        while self.read(1 << 20):
            pass


def _files(tar: tarfile.TarFile, fields: Fields, scan: Scan) -> Iterator[_File]:
    for member in tar:
        folder, slash, base = member.name.rpartition("/")
        stem, _, extension = base.partition(".")
        if member.isdir() or extension.lower() in fields.ignore:
            continue
        if not member.isreg() or member.issparse() or not stem or _OUTSIDE.search(member.name):
            scan.problems.append(
                f"{member.name!r} is not a plain file named <key>.<extension>; leave out links, devices and names "
                "that lead elsewhere"
            )
            continue
        content = _content(tar, member, extension.lower(), fields)
        yield _File(f"{folder}{slash}{stem}", extension.lower(), member.offset_data, member.size, content)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo, extension: str, fields: Fields) -> bytes:
    """The beginning of a file where it is needed; nothing is ever extracted to disk."""
    limit = LABEL_BYTES + 1 if extension in (*TEXTS, fields.label) else HEADER if extension == "npy" else 0
    file = tar.extractfile(member) if limit else None
    return file.read(min(limit, member.size)) if file else b""


def _scan_samples(files: Iterator[_File], fields: Fields, scan: Scan) -> None:
    seen: set[str] = set()
    for key, group in itertools.groupby(files, key=lambda file: file.key):
        sample: dict[str, _File] = {}
        for file in group:
            if file.extension in sample:
                scan.problems.append(f"sample {key!r} has two files .{file.extension}")
            sample[file.extension] = file
        if key in seen:
            scan.problems.append(
                f"two samples have the name {key!r}; put the files of one sample next to each other"
            )
        seen.add(key)
        _scan_sample(key, sample, fields, scan)


def _scan_sample(key: str, sample: dict[str, _File], fields: Fields, scan: Scan) -> None:
    try:
        _check_extensions(sample, fields)
        chosen = _input(sample, fields)
        label, layout = _label(sample, fields), _layout(chosen)
    except (ValueError, PencilError) as error:  # wrong UTF-8 is a ValueError
        scan.problems.append(f"sample {key!r}: {error}")
        return
    scan.labels.append(label)
    scan.keys.append(key.encode("utf-8", "surrogateescape"))
    scan.offsets.append(chosen.offset)
    scan.sizes.append(chosen.size)
    scan.layouts.add(layout)


def _check_extensions(sample: dict[str, _File], fields: Fields) -> None:
    strange = sample.keys() - IMAGES - TEXTS - {"npy", fields.label, fields.input}
    if strange:
        raise ValueError(refused(min(strange)))


def _input(sample: dict[str, _File], fields: Fields) -> _File:
    found = [extension for extension in sample if extension in IMAGES or extension == "npy"]
    if fields.input is not None:
        found = [extension for extension in sample if extension == fields.input]
    if not found:
        raise ValueError(f"it has no {f'.{fields.input}' if fields.input else 'image and no .npy'}")
    if len(found) > 1:
        raise ValueError(f"it has {' and '.join(found)}; choose with --input-field {found[0]}")
    return sample[found[0]]


def _label(sample: dict[str, _File], fields: Fields) -> str:
    name = fields.label or ("cls" if "cls" in sample else "label")
    if name in sample:
        return label_text(sample[name].content)
    if "json" in sample:
        return label_in_json(sample["json"].content, name)
    wanted = "cls" if fields.label is None else fields.label
    raise ValueError(f"it has no label: no .{wanted} and no .json; name its place with --label-field")


def _layout(file: _File) -> Layout:
    return npy_layout(file.content, file.size) if file.extension == "npy" else Layout("images")


class TarReader:
    """Inputs of tar shards by row, from files that stay open."""

    def __init__(self, split: SplitIndex, files: OpenFiles) -> None:
        self._split = split
        self._files = files

    def read(self, shard: int, row: int) -> bytes:
        """The bytes of a row's input."""
        size, offset = int(self._split.sizes[row]), int(self._split.offsets[row])
        if not 0 <= offset <= offset + size <= self._split.shards[shard].bytes:
            raise DataError(
                f"the index has it at {offset} with {size} bytes, outside the shard; write the index again"
            )
        content = os.pread(self._files.descriptor(shard), size, offset)
        if len(content) != size:
            raise DataError(f"cut off: {len(content)} of {size} bytes are there")
        return content
