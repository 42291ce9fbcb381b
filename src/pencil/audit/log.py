"""``audit.jsonl`` in a run's folder: every plan, draw and answer as one line, appended and synced before it counts.

A line that a killed process left incomplete is ignored, and removed by the next one that writes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from pencil.audit.record import Answer, Audit, Draw, Plan
from pencil.durable import sync
from pencil.errors import RunError
from pencil.reading import read_bytes

LOG = "audit.jsonl"
MOST_BYTES = 1 << 30


class Line(BaseModel):
    """One line: exactly one of its parts."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    plan: Plan | None = None
    draw: Draw | None = None
    answer: Answer | None = None


def append(folder: Path, *lines: Line) -> None:
    """Append lines to the log of a run, and sync them to disk."""
    path = folder / LOG
    text = "".join(f"{line.model_dump_json(exclude_unset=True)}\n" for line in lines)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)  # released when the file is closed
            file.seek(_whole(file.read()))
            file.truncate()
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        sync(folder)
    except OSError as error:
        raise RunError(
            f"{path}: cannot be written ({error.strerror or error}); free the disk, or change the rights"
        ) from error


def _whole(content: bytes) -> int:
    """The number of bytes up to the last complete line."""
    return content.rfind(b"\n") + 1


def read_audits(folder: Path) -> list[Audit]:
    """All audits of a run, oldest first."""
    if not (folder / LOG).exists():
        return []
    found: list[tuple[Plan, list[Draw], list[Answer]]] = []
    for number, line in enumerate(_lines(folder / LOG), start=1):
        if line.plan is not None:
            found.append((line.plan, [], []))
        elif not found:
            raise _damaged(folder / LOG, number, "comes before the first plan")
        elif line.draw is not None:
            found[-1][1].append(line.draw)
        elif line.answer is not None:
            found[-1][2].append(line.answer)
    return [Audit(*parts) for parts in found if parts[1]]


def _lines(path: Path) -> Iterator[Line]:
    content = read_bytes(path, limit=MOST_BYTES, error=RunError)
    for number, text in enumerate(content[: _whole(content)].splitlines(), start=1):
        try:
            yield Line.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise _damaged(path, number, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _damaged(path: Path, number: int, problem: str) -> RunError:
    return RunError(
        f"{path}, line {number}: {problem[:200]}; restore the file from a backup, or move it away"
    )
