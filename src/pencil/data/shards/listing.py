"""Shards from arguments: files, folders, patterns, ranges in braces, addresses, and text files that list them."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path

from pencil.data.shards.index import Format
from pencil.data.shards.remote import remote_matches
from pencil.errors import DataError
from pencil.places import is_remote
from pencil.reading import MB, read_text

ENDINGS: dict[str, Format] = {".tar": "tar", ".parquet": "parquet"}
LIST_BYTES = 1024 * MB
MOST_SHARDS = 10_000_000
_COMPRESSED = re.compile(r"\.(tar\.\w+|tgz)$")
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


@dataclass(frozen=True)
class Listed:
    """A shard before it is indexed: where it is, and what it will be called."""

    name: str
    url: str
    format: Format


def list_shards(words: Sequence[str]) -> list[str]:
    """The absolute paths and addresses that the words mean, in the order of the words, each once."""
    found = [url for word in words for url in _meant(word, Path.cwd())]
    twice = [url for url, count in Counter(map(real_place, found)).items() if count > 1]
    if twice:
        raise DataError(f"{twice[0]}: named twice; a shard belongs to one split, once")
    if not found:
        raise DataError(f"no shards: {' '.join(words) or 'nothing'} names no .tar and no .parquet file")
    return found


def real_place(url: str) -> str:
    """Where a shard is: a path without dots and symbolic links, an address without signature."""
    return _bare(url) if is_remote(url) else os.path.realpath(url)


def named(urls: Sequence[str]) -> list[Listed]:
    """Shards with names: the last part of each address, or as many parts as make all names differ."""
    formats = {url: _format(url) for url in urls}
    if len(set(formats.values())) > 1:
        raise DataError("some shards are tar, some Parquet; index them separately")
    parts = [_bare(url).replace("://", "/").split("/") for url in urls]
    depth = next(
        size
        for size in range(1, max(map(len, parts)) + 1)
        if len({tuple(each[-size:]) for each in parts}) == len(parts)
    )
    return [Listed("/".join(each[-depth:]), url, formats[url]) for each, url in zip(parts, urls, strict=True)]


def _bare(url: str) -> str:
    """An address without what is asked of its server, such as a signature."""
    return url.partition("?")[0] if is_remote(url) else url


def _format(url: str) -> Format:
    for ending, kind in ENDINGS.items():
        if _bare(url).lower().endswith(ending):
            return kind
    if _COMPRESSED.search(_bare(url).lower()):
        raise DataError(f"{url}: compressed tar; unpack it to .tar, because rows are read in place")
    raise DataError(f"{url}: neither .tar nor .parquet; give shards in one of these formats")


def _meant(word: str, folder: Path) -> Iterator[str]:
    for url in _expanded(word):
        if is_remote(url):
            yield from remote_matches(url) if has_magic(_bare(url)) else [url]
        else:
            yield from _local(url, folder)


def _local(word: str, folder: Path) -> Iterator[str]:
    path = folder / Path(word).expanduser()
    if path.is_dir():
        yield from _in_folder(path)
    elif path.suffix == ".txt" and path.is_file():
        lines = [line.strip() for line in read_text(path, limit=LIST_BYTES).splitlines()]
        for line in lines:
            yield from _meant(line, path.parent) if line and not line.startswith("#") else ()
    elif has_magic(word) and not path.exists():
        yield from _matches(Path(word).expanduser(), folder)
    elif path.exists():
        yield os.path.normpath(path)
    else:
        raise DataError(
            f"{word}: no such file or folder{'' if Path(word).is_absolute() else f' in {folder}'}"
        )


def _in_folder(folder: Path) -> list[str]:
    """The shards of a folder; those that would be ones if they were unpacked are mentioned."""
    files = sorted(folder.iterdir())
    compressed = [file.name for file in files if _COMPRESSED.search(file.name.lower())]
    if compressed:
        warnings.warn(
            f"{folder}: {len(compressed):,} compressed tar files are left out, first {compressed[0]}; unpack them to "
            ".tar, because rows are read in place",
            stacklevel=2,
        )
    return [str(file) for file in files if file.suffix.lower() in ENDINGS]


def _matches(pattern: Path, folder: Path) -> list[str]:
    if any("**" in part and part != "**" for part in pattern.parts):
        raise DataError(
            f"{pattern}: ** stands for folders and needs slashes around it; write FOLDER/**/*.tar"
        )
    root = Path(pattern.anchor) if pattern.is_absolute() else folder
    return sorted(map(os.path.normpath, root.glob(str(pattern.relative_to(pattern.anchor)))))


def _expanded(word: str) -> list[str]:
    """``a-{000..002}.tar`` as three words."""
    ends = _RANGE.findall(word)
    if any(len(end) > 9 for pair in ends for end in pair) or math.prod(map(_size, ends)) > MOST_SHARDS:
        raise DataError(f"{word[:80]}: stands for more than {MOST_SHARDS:,} shards; write smaller ranges")
    return _words(word)


def _size(ends: tuple[str, str]) -> int:
    """How many numbers a range has; at least 1, so that an empty one does not hide a long one."""
    return max(1, int(ends[1]) - int(ends[0]) + 1)


def _words(word: str) -> list[str]:
    match = _RANGE.search(word)
    if match is None:
        return [word]
    first, last = match.groups()
    numbers = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return [
        rest for number in numbers for rest in _words(word[: match.start()] + number + word[match.end() :])
    ]
