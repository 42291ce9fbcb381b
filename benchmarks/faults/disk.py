"""A disk that forgets: what may be on it after power loss, by a record of changes.

Strict, as POSIX allows. A file keeps what it held when it was last synced; of every later write all, nothing or some
sectors may be there, and its length may have grown without its bytes. A folder keeps the names it held when it was last
synced; of every later name that was made, changed or removed any may have been kept, whatever became of the others. A
rename is one change. Syncing a file says nothing about its name, and syncing a folder nothing about its files' bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from faults.trace import Change, UnknownCallError

SECTOR = 512
Names = dict[str, "File | Folder"]


@dataclass(eq=False)
class File:
    """What is surely there, and what was written since."""

    content: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    mapped: bool = False

    def sync(self) -> None:
        """All of it is there now."""
        if self.mapped:
            raise UnknownCallError(
                "a file is relied upon that is written through memory, where nobody sees it"
            )
        for change in self.pending:
            _apply(self.content, change)
        self.pending.clear()

    def now(self) -> bytes:
        """What a process reads."""
        content = bytearray(self.content)
        for change in self.pending:
            _apply(content, change)
        return bytes(content)

    def after_loss(self, draw: random.Random) -> bytes:
        """What may be left."""
        if self.mapped:
            return draw.randbytes(draw.choice((0, len(self.now()))))
        fate = draw.choice((_keep, _lose, _tear))
        content = bytearray(self.content)
        for change in self.pending:
            fate(content, change, draw)
        return bytes(content)


@dataclass(eq=False)
class Folder:
    """The names that are surely there, and what was done to them since."""

    names: Names = field(default_factory=dict)
    pending: list[Callable[[Names], None]] = field(default_factory=list)

    def sync(self) -> None:
        """All of it is there now."""
        self.names = self.now()
        self.pending.clear()

    def now(self) -> Names:
        """What a process finds."""
        names = dict(self.names)
        for change in self.pending:
            change(names)
        return names

    def after_loss(self, draw: random.Random) -> Names:
        """What may be left: all later changes, none, or any of them."""
        share = draw.choice((0.0, 0.5, 1.0))
        names = dict(self.names)
        for change in self.pending:
            if draw.random() < share:
                change(names)
        return names


class Disk:
    """Everything below one folder, which itself is there from the beginning."""

    def __init__(self, root: Path) -> None:
        self._root, self.top = root, Folder()

    def apply(self, changes: Iterable[Change]) -> None:
        """Go on by some changes."""
        for change in changes:
            if change.kind != "mark":
                getattr(self, f"_{change.kind}")(change)

    def after_loss(self, draw: random.Random, into: Path) -> None:
        """Write what may be left after power loss now."""
        _write(self.top, into, lambda folder: folder.after_loss(draw), lambda file: file.after_loss(draw))

    def now(self, into: Path) -> None:
        """Write what is there while the power is on."""
        _write(self.top, into, Folder.now, File.now)

    def synced_names(self, path: Path) -> set[str]:
        """The names in a folder that no power loss takes away."""
        found = self.find(str(path))
        return set(found.names) if isinstance(found, Folder) else set()

    def _create(self, change: Change) -> None:
        self._name(change.path, File())

    def _mkdir(self, change: Change) -> None:
        self._name(change.path, Folder())

    def _write(self, change: Change) -> None:
        self._file(change.path).pending.append(change)

    _truncate = _write

    def _map(self, change: Change) -> None:
        self._file(change.path).mapped = True

    def _sync(self, change: Change) -> None:
        found = self.find(change.path)
        if found is not None:  # else it was removed meanwhile
            found.sync()

    def _rename(self, change: Change) -> None:
        moved = self.find(change.path)
        assert moved is not None
        old, new = PurePath(change.path).name, PurePath(change.target).name

        def rename(names: Names) -> None:
            if names.get(old) is moved:
                del names[old]
            names[new] = moved

        self._folder(change.path).pending.append(rename)

    def _unlink(self, change: Change) -> None:
        gone, name = self.find(change.path), PurePath(change.path).name

        def unlink(names: Names) -> None:
            if names.get(name) is gone:
                del names[name]

        self._folder(change.path).pending.append(unlink)

    def _name(self, path: str, made: File | Folder) -> None:
        self._folder(path).pending.append(lambda names: names.__setitem__(PurePath(path).name, made))

    def find(self, path: str) -> File | Folder | None:
        """What has a path now."""
        found: File | Folder | None = self.top
        for name in PurePath(path).relative_to(self._root).parts:
            found = found.now().get(name) if isinstance(found, Folder) else None
        return found

    def _folder(self, path: str) -> Folder:
        found = self.find(str(PurePath(path).parent))
        assert isinstance(found, Folder), path
        return found

    def _file(self, path: str) -> File:
        found = self.find(path)
        assert isinstance(found, File), path
        return found


def _write(
    folder: Folder, into: Path, names: Callable[[Folder], Names], content: Callable[[File], bytes]
) -> None:
    into.mkdir()
    for name, found in names(folder).items():
        if isinstance(found, Folder):
            _write(found, into / name, names, content)
        else:
            (into / name).write_bytes(content(found))


def _apply(content: bytearray, change: Change) -> None:
    if change.kind == "truncate":
        _resize(content, change.number)
    else:
        _resize(content, max(len(content), change.number + len(change.data)))
        content[change.number : change.number + len(change.data)] = change.data


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _keep(content: bytearray, change: Change, draw: random.Random) -> None:
    _apply(content, change)


def _lose(content: bytearray, change: Change, draw: random.Random) -> None:
    """Nothing of it is there."""


def _tear(content: bytearray, change: Change, draw: random.Random) -> None:
    """Some sectors of it are there, or only the length that it made."""
    if change.kind == "truncate":
        if draw.random() < 0.5:
            _apply(content, change)
        return
    if draw.random() < 0.5:
        _resize(content, max(len(content), change.number + len(change.data)))
    for start in range(0, len(change.data), SECTOR):
        if draw.random() < 0.5:
            part = change.data[start : start + SECTOR]
            _apply(content, Change("write", change.path, part, change.number + start))
