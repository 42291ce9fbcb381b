"""``audit.jsonl`` in a run's folder: every plan, draw and answer as one line, appended and synced before it counts.

``asked.jsonl`` holds the same about rows that are asked about.

Draws and answers name their audit, and only the newest audit is continued: a page or a sheet of an earlier one is
refused. A line that a killed process left incomplete is ignored, and removed by the next one that writes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from pencil.audit.record import Answer, Audit, Draw, Plan, What
from pencil.durable import sync
from pencil.errors import RunError
from pencil.identity import run_id
from pencil.reading import read_bytes

LOG, ASKED = "audit.jsonl", "asked.jsonl"
MOST_BYTES = 1 << 30

_Parts = tuple[Plan, list[Draw], list[Answer]]


class Line(BaseModel):
    """One line: exactly one of its parts."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    plan: Plan | None = None
    draw: Draw | None = None
    answer: Answer | None = None


def log_of(what: What) -> str:
    """The file of audits of this kind."""
    return ASKED if what == "asked" else LOG


def append(folder: Path, what: What, *lines: Line, to: Plan | None = None) -> None:
    """Append lines to a log of a run, and sync them to disk.

    Args:
        folder: The run's folder.
        what: The kind of audit.
        lines: The lines.
        to: The audit that they continue; None if they begin one.

    Raises:
        RunError: Another audit was begun since, the log is that of another run, or it cannot be written.
    """
    path = folder / log_of(what)
    text = "".join(f"{line.model_dump_json(exclude_unset=True)}\n" for line in lines)
    try:
        created = os.O_CREAT if to is None else 0
        handle = os.open(path, os.O_RDWR | created | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "r+b") as file:
            # Released when the file is closed anywhere in this process, so it is not opened again to read it.
            fcntl.lockf(file, fcntl.LOCK_EX)
            content = file.read()
            _check_newest(path, _audits(path, content), to)
            file.seek(_whole(content))
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


def _check_newest(path: Path, audits: Sequence[Audit], plan: Plan | None) -> None:
    if plan is not None and (not audits or audits[-1].plan != plan):
        raise RunError(
            f"{path}: its newest audit is another one than that of this page or sheet; nothing was recorded, "
            "begin again with pencil audit"
        )


def read_audits(folder: Path, what: What = "all") -> list[Audit]:
    """All audits of a run, oldest first, or all that was asked about; a log of another run is refused."""
    path = folder / log_of(what)
    return _audits(path, read_bytes(path, limit=MOST_BYTES, error=RunError)) if path.exists() else []


def _audits(path: Path, content: bytes) -> list[Audit]:
    found: list[_Parts] = []
    known: dict[str, _Parts] = {}  # by id; the newest one of those without an id
    run = run_id(path.parent) or ""
    for number, line in enumerate(_lines(path, content), start=1):
        if line.plan is not None:
            if line.plan.run not in ("", run):  # "": begun before the run had an id
                problem = "belongs to another run than the one in its folder"
                raise RunError(f"{path}: {problem}; move it away, or bring its run back")
            known[line.plan.id] = (line.plan, [], [])
            found.append(known[line.plan.id])
            continue
        part = line.draw or line.answer
        if part is not None and part.audit not in known:
            raise _damaged(path, number, "comes before the plan of its audit")
        if line.draw is not None:
            known[line.draw.audit][1].append(line.draw)
        elif line.answer is not None:
            known[line.answer.audit][2].append(line.answer)
    return [Audit(*parts) for parts in found if parts[1]]


def _lines(path: Path, content: bytes) -> Iterator[Line]:
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
