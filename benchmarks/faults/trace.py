"""What a process does to files, by strace: every system call that changes a file, a name or what is synced.

The kernel's own border is watched, so nothing escapes, whatever library writes. Calls that could change files in a way
nobody here understands end the measurement.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MARK = "/pencil-mark/"  # unlinking a name there, which never exists, marks a moment
CHANGES = {
    *("write", "writev", "pwrite64", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate"),
    *("rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat"),
    *("fsync", "fdatasync"),
}
DESCRIPTORS = {
    *("openat", "open", "creat", "close", "dup", "dup2", "dup3", "fcntl", "lseek", "read", "readv", "mmap"),
    *("clone", "clone3", "fork", "vfork"),
}
UNKNOWN = {
    *("link", "linkat", "symlink", "symlinkat", "mknod", "mknodat", "openat2", "sync", "syncfs"),
    *("sync_file_range", "sendfile", "copy_file_range", "splice", "io_uring_setup", "io_uring_enter"),
}
TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
HANDLE = re.compile(r"(AT_FDCWD|\d+)(?:<((?:\\x[0-9a-f]{2})*)>)?")
RESULT = re.compile(r"\) += (-?\d+|\?|0x[0-9a-f]+)")


class UnknownCallError(Exception):
    """Something changed files in a way that is not understood here."""


@dataclass(frozen=True)
class Change:
    """One change, as it took effect.

    Attributes:
        kind: ``create``, ``write``, ``truncate``, ``rename``, ``unlink``, ``mkdir``, ``sync``, ``map`` or ``mark``.
        path: What was changed, absolute; for ``mark`` its text.
        data: What was written.
        number: The offset of a write, the size of a truncation.
        target: The new name of a rename.
    """

    kind: str
    path: str
    data: bytes = b""
    number: int = 0
    target: str = ""


@dataclass
class _Open:
    """An open file: where the next write goes."""

    path: str
    offset: int = 0
    appends: bool = False


@dataclass
class _Process:
    """Threads share their open files; a forked process begins with copies of the table."""

    files: dict[int, _Open] = field(default_factory=dict)


def attach(pid: int, log: Path) -> subprocess.Popen[bytes]:
    """Trace a process and all it starts; ``log`` is whole when the tracer ends, which it does with them."""
    if shutil.which("strace") is None:
        raise SystemExit("strace is needed to follow what a run writes; install it")
    calls = ",".join(sorted(CHANGES | DESCRIPTORS | UNKNOWN))
    words = ["-f", "-q", "-y", "-xx", "-s", str(1 << 28), "-e", f"trace={calls}", "-e", "raw=read,readv"]
    return subprocess.Popen(["strace", *words, "-e", "signal=none", "-o", str(log), "-p", str(pid)])


def changes(log: Path, root: Path) -> list[Change]:
    """Everything that changed below ``root``, in the order in which it took effect."""
    return list(_Reader(str(root)).read(log))


def mark(text: str) -> None:
    """Leave a mark in the trace of this process."""
    try:
        os.unlink(MARK + text)  # noqa: PTH108 - one system call and no other
    except FileNotFoundError:
        return


class _Reader:
    def __init__(self, root: str) -> None:
        self._root = root
        self._processes: dict[int, _Process] = {}
        self._sizes: dict[str, int] = {}  # of files below root, for appending

    def read(self, log: Path) -> Iterator[Change]:
        for pid, name, arguments, result in _calls(log):
            if result < 0 and not (name.startswith("unlink") and MARK in _texts(arguments)[0]):
                continue
            handler = getattr(self, f"_{name}", None)
            if name in UNKNOWN:
                self._refuse(name, arguments)
            elif handler is not None:
                yield from handler(pid, arguments, result) or ()

    # processes and descriptors

    def _files(self, pid: int) -> dict[int, _Open]:
        return self._processes.setdefault(pid, _Process()).files

    def _clone(self, pid: int, arguments: str, child: int) -> None:
        known = self._processes.setdefault(pid, _Process())
        begun = self._processes.get(child, _Process()).files  # it may run before its parent goes on
        if "CLONE_FILES" in arguments:
            known.files |= begun
            self._processes[child] = known
        else:
            self._processes[child] = _Process(known.files | begun)

    _clone3 = _fork = _vfork = _clone

    def _openat(self, pid: int, arguments: str, number: int) -> Iterator[Change]:
        path = self._path(arguments)
        exists = path in self._sizes
        if not path.startswith(self._root):
            self._files(pid).pop(number, None)
            return
        if "O_TMPFILE" in arguments:
            raise UnknownCallError(f"O_TMPFILE below {path}")
        self._files(pid)[number] = _Open(path, appends="O_APPEND" in arguments)
        if "O_CREAT" in arguments and not exists:
            self._sizes[path] = 0
            yield Change("create", path)
        elif "O_TRUNC" in arguments:
            self._sizes[path] = 0
            yield Change("truncate", path)

    def _open(self, pid: int, arguments: str, number: int) -> Iterator[Change]:
        return self._openat(pid, f"AT_FDCWD, {arguments}", number)

    def _creat(self, pid: int, arguments: str, number: int) -> Iterator[Change]:
        return self._openat(pid, f"AT_FDCWD, {arguments}, O_CREAT|O_TRUNC", number)

    def _close(self, pid: int, arguments: str, result: int) -> None:
        self._files(pid).pop(_handle(arguments)[0], None)

    def _dup(self, pid: int, arguments: str, number: int) -> None:
        files = self._files(pid)
        files.pop(number, None)
        if _handle(arguments)[0] in files:
            files[number] = files[_handle(arguments)[0]]

    _dup2 = _dup3 = _dup

    def _fcntl(self, pid: int, arguments: str, number: int) -> None:
        if "F_DUPFD" in arguments:
            self._dup(pid, arguments, number)

    def _lseek(self, pid: int, arguments: str, offset: int) -> None:
        if file := self._files(pid).get(_handle(arguments)[0]):
            file.offset = offset

    def _read(self, pid: int, arguments: str, count: int) -> None:
        if file := self._files(pid).get(int(arguments.split(",")[0], 16)):
            file.offset += count

    _readv = _read

    def _mmap(self, pid: int, arguments: str, _: int) -> Iterator[Change]:
        shared = "MAP_SHARED" in arguments and "PROT_WRITE" in arguments
        handle = arguments.split(", ")[4] if shared else "-1"
        if not handle.startswith("-1"):
            path = _handle(handle)[1]
            if path.startswith(self._root) and path in self._sizes:
                yield Change("map", path)

    # contents

    def _write(self, pid: int, arguments: str, count: int) -> Iterator[Change]:
        file = self._files(pid).get(_handle(arguments)[0])
        if file is not None:
            offset = self._sizes.get(file.path, 0) if file.appends else file.offset
            file.offset = offset + count
            yield from self._written(file.path, arguments, offset, count)

    _writev = _write

    def _pwrite64(self, pid: int, arguments: str, count: int) -> Iterator[Change]:
        file = self._files(pid).get(_handle(arguments)[0])
        if file is not None:
            yield from self._written(file.path, arguments, int(arguments.rsplit(", ", 1)[1]), count)

    _pwritev = _pwrite64

    def _pwritev2(self, pid: int, arguments: str, count: int) -> Iterator[Change]:
        raise UnknownCallError("pwritev2")

    def _written(self, path: str, arguments: str, offset: int, count: int) -> Iterator[Change]:
        data = b"".join(bytes.fromhex(text.replace("\\x", "")) for text in _raw_texts(arguments))[:count]
        if len(data) != count:
            raise UnknownCallError(f"{len(data)} of {count} bytes written to {path} were seen")
        self._sizes[path] = max(self._sizes.get(path, 0), offset + count)
        yield Change("write", path, data, offset)

    def _ftruncate(self, pid: int, arguments: str, _: int) -> Iterator[Change]:
        file = self._files(pid).get(_handle(arguments)[0])
        if file is not None:
            self._sizes[file.path] = int(arguments.rsplit(", ", 1)[1])
            yield Change("truncate", file.path, number=self._sizes[file.path])

    def _fallocate(self, pid: int, arguments: str, _: int) -> Iterator[Change]:
        file = self._files(pid).get(_handle(arguments)[0])
        if file is not None:
            words = arguments.split(", ")
            if words[1] != "0":
                raise UnknownCallError(f"fallocate({words[1:]}) on {file.path}")
            self._sizes[file.path] = max(self._sizes.get(file.path, 0), int(words[2]) + int(words[3]))
            yield Change("truncate", file.path, number=self._sizes[file.path])

    def _truncate(self, pid: int, arguments: str, _: int) -> None:
        self._refuse("truncate", arguments)

    # names

    def _rename(self, pid: int, arguments: str, _: int) -> Iterator[Change]:
        old, new = self._paths(arguments)
        if old.startswith(self._root) or new.startswith(self._root):
            if "RENAME_EXCHANGE" in arguments or os.path.dirname(old) != os.path.dirname(new):  # noqa: PTH120 - plain text
                raise UnknownCallError(f"a rename from {old} to {new}")
            self._rename_known(old, new)
            yield Change("rename", old, target=new)

    _renameat = _renameat2 = _rename

    def _rename_known(self, old: str, new: str) -> None:
        def renamed(path: str) -> str:
            return new + path[len(old) :] if path == old or path.startswith(f"{old}/") else path

        self._sizes.pop(new, None)
        self._sizes = {renamed(path): size for path, size in self._sizes.items()}
        for file in {
            id(file): file for each in self._processes.values() for file in each.files.values()
        }.values():
            file.path = renamed(file.path)

    def _unlink(self, pid: int, arguments: str, result: int) -> Iterator[Change]:
        path = self._path(arguments)
        if path.startswith(MARK):
            yield Change("mark", path.removeprefix(MARK))
        elif path.startswith(self._root):
            self._sizes.pop(path, None)
            for each in self._processes.values():  # what is still open has no name any more
                for number in [number for number, file in each.files.items() if file.path == path]:
                    del each.files[number]
            yield Change("unlink", path)

    _unlinkat = _rmdir = _unlink

    def _mkdir(self, pid: int, arguments: str, _: int) -> Iterator[Change]:
        path = self._path(arguments)
        if path.startswith(self._root):
            yield Change("mkdir", path)

    _mkdirat = _mkdir

    def _fsync(self, pid: int, arguments: str, _: int) -> Iterator[Change]:
        file = self._files(pid).get(_handle(arguments)[0])
        if file is not None:
            yield Change("sync", file.path)

    _fdatasync = _fsync

    # words

    def _refuse(self, name: str, arguments: str) -> None:
        if self._root in "".join(_texts(arguments)) or name in ("sync", "io_uring_setup", "io_uring_enter"):
            raise UnknownCallError(f"{name} of {_texts(arguments)}")

    def _path(self, arguments: str) -> str:
        return self._paths(arguments)[0]

    def _paths(self, arguments: str) -> list[str]:
        """Every path of a call, resolved against the folder handle in front of it."""
        found = []
        for match in TEXT.finditer(arguments):
            before = HANDLE.findall(arguments[: match.start()].rstrip(", "))
            folder = _decoded(before[-1][1]) if before else ""
            path = _decoded(match[1])
            if not os.path.isabs(path) and not folder:  # noqa: PTH117 - text, as strace wrote it
                raise UnknownCallError(f"a relative path: {path}")
            found.append(os.path.normpath(os.path.join(folder, path)))  # noqa: PTH118 - text
        return found


def _calls(log: Path) -> Iterator[tuple[int, str, str, int]]:
    """(process, call, arguments, result) of every call, when it ended."""
    waiting: dict[str, str] = {}
    with log.open(encoding="ascii") as file:
        for line in file:
            pid, _, text = line.rstrip("\n").partition(" ")
            text = text.lstrip()
            if text.startswith(("+++", "---")):
                continue
            if text.endswith("<unfinished ...>"):
                waiting[pid] = text.removesuffix("<unfinished ...>").rstrip()
                continue
            if text.startswith("<... "):
                text = waiting.pop(pid) + text.partition(" resumed>")[2]
            yield _call(int(pid), text)


def _call(pid: int, text: str) -> tuple[int, str, str, int]:
    name, _, rest = text.partition("(")
    end = list(RESULT.finditer(rest))
    if not end:
        raise UnknownCallError(f"a line of strace that has no result: {text[:200]}")
    value = end[-1][1]
    result = -1 if value == "?" else int(value, 16 if value.startswith("0x") else 10)
    return pid, name, rest[: end[-1].start()], result


def _handle(arguments: str) -> tuple[int, str]:
    """The descriptor that a call begins with, and its path."""
    match = HANDLE.match(arguments)
    if match is None or match[1] == "AT_FDCWD":
        raise UnknownCallError(f"no descriptor: {arguments[:100]}")
    return int(match[1]), _decoded(match[2] or "")


def _raw_texts(arguments: str) -> list[str]:
    found = list(TEXT.finditer(arguments))
    if any(match[2] for match in found):
        raise UnknownCallError("strace cut what was written")
    return [match[1] for match in found]


def _texts(arguments: str) -> list[str]:
    return [_decoded(text) for text in _raw_texts(arguments)]


def _decoded(text: str) -> str:
    return bytes.fromhex(text.replace("\\x", "")).decode("utf-8", "surrogateescape")
