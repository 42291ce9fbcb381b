"""Learned labels on disk. Each rank writes its own files, and readers load them a range of rows at a time.

A part is a safetensors file of at most ``PIECE`` rows of one rank, in ascending order: ``row`` indices, ``given``
labels, ``trusted`` and the labels ``before`` if some are, ``content`` keys if they are known, the learned ``rows/...``
in the store's format, and the rows' ids as text. Parts are sealed (``pencil.identity``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pencil.durable import make_folder, sync
from pencil.errors import RunError
from pencil.identity import run_id
from pencil.results.files import check_plain, check_whole, damaged, write_tensors
from pencil.stores import GivenLabels

LABELS = "labels"
POSTERIOR = "posterior"
PIECE = 1 << 20


@dataclass(frozen=True)
class SavedRows:
    """Consecutive rows of a finished run.

    Attributes:
        first: The number of the first row.
        given: The given labels ŷ.
        rows: The store's tensors, by name.
        ids: The ids of the rows.
        content: The keys of the rows' content, if they were saved.
        likeliest: The classes that are right most often, if they were saved.
    """

    first: int
    given: GivenLabels
    rows: dict[str, Tensor]
    ids: list[str]
    content: Tensor | None = None
    likeliest: Tensor | None = None


def save_labels(
    folder: Path,
    indices: Tensor,
    given: GivenLabels,
    rows: Mapping[str, Tensor],
    ids: Sequence[str],
    rank: int = 0,
    *,
    name: str = LABELS,
    content: Tensor | None = None,
    likeliest: Tensor | None = None,
) -> None:
    """Write one rank's rows; ``indices`` (N,) are their row indices across all ranks.

    ``content`` (N,) holds the keys of the rows' content, ``likeliest`` (N,) the classes that are right most often, if
    they are known.

    ``name`` is the folder within the run: ``LABELS`` for the rows of the method, ``POSTERIOR`` for calibrated
    probabilities.

    Parts left by an earlier attempt of this rank are removed first. Everything is synced to disk on return.
    """
    place = folder / name
    make_folder(place)
    for old in place.glob(f"{rank:05d}-*.safetensors"):
        old.unlink()
    for index, order in enumerate(indices.argsort().split(PIECE)):
        part = _part(indices, given, rows, ids, order)
        if content is not None:
            part["content"] = content[order]
        if likeliest is not None:
            part["likeliest"] = likeliest[order]
        write_tensors(place / f"{rank:05d}-{index:05d}.safetensors", part, run_id(folder))
    sync(place)


def _part(
    indices: Tensor, given: GivenLabels, rows: Mapping[str, Tensor], ids: Sequence[str], order: Tensor
) -> dict[str, Tensor]:
    texts = [ids[row].encode("utf-8", "surrogateescape") for row in order.tolist()]  # ids may hold any bytes
    mine = given.subset(order)
    part = {"row": indices[order], "given": mine.values}
    if mine.trusted is not None:
        part["trusted"] = mine.trusted
    if mine.before is not None:
        part["before"] = mine.before
    part |= {f"rows/{name}": value[order] for name, value in rows.items()}
    part["ids"] = torch.frombuffer(bytearray(b"".join(texts) or b"\0"), dtype=torch.uint8)
    part["id_ends"] = torch.tensor([len(text) for text in texts]).cumsum(0)
    return part


class SavedLabels:
    """Read the labels of all ranks in row order.

    Args:
        folder: The run.
        num_classes: C.
        rows: The expected tensors of the store, by name: empty tensors (0, ...) of the right type and width. None
            accepts any.
        name: The folder within the run, as in ``save_labels``.
    """

    def __init__(
        self,
        folder: Path,
        num_classes: int,
        rows: Mapping[str, Tensor] | None = None,
        *,
        name: str = LABELS,
    ) -> None:
        self._num_classes = num_classes
        self.folder = folder / name
        paths = sorted(self.folder.glob("*.safetensors"))
        self._parts = [_Part(path, num_classes, rows) for path in paths]
        self.num_rows = sum(part.num_rows for part in self._parts)
        if not self.num_rows:
            raise damaged(self.folder, "no labels found")

    @property
    def has_before(self) -> bool:
        """Whether people said what some rows are before the run."""
        return any("before" in part._names for part in self._parts)

    def chunks(self, size: int) -> Iterator[SavedRows]:
        """Yield all rows in order, ``size`` at a time."""
        for first in range(0, self.num_rows, size):
            yield self.rows(first, min(first + size, self.num_rows))

    def rows(self, first: int, stop: int) -> SavedRows:
        """Return the rows numbered from ``first`` up to, but not including, ``stop``."""
        pieces = [piece for part in self._parts for piece in part.between(first, stop)]
        found = torch.cat([piece["row"] for piece in pieces]) if pieces else torch.empty(0, dtype=torch.long)
        order = found.argsort()
        if not torch.equal(found[order], torch.arange(first, stop)):
            raise damaged(self.folder, f"rows {first} to {stop - 1} are missing or repeated")
        if len({(frozenset(piece), piece["given"].dim()) for piece in pieces}) != 1:
            raise damaged(self.folder, "its parts hold different tensors")
        names = [name for name in pieces[0] if name not in ("ids", "id_ends")]
        whole = {name: torch.cat([piece[name] for piece in pieces])[order] for name in names}
        ids = [text for piece in pieces for text in _texts(piece)]
        return SavedRows(
            first,
            GivenLabels(whole["given"], self._num_classes, whole.get("trusted"), whole.get("before")),
            {name.removeprefix("rows/"): value for name, value in whole.items() if name.startswith("rows/")},
            [ids[index] for index in order.tolist()],
            whole.get("content"),
            whole.get("likeliest"),
        )


@dataclass(frozen=True)
class _Part:
    path: Path
    num_classes: int
    expected: Mapping[str, Tensor] | None

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        """Row indices and id offsets, which locate the remaining data."""
        check_plain(self.path)
        if self._forms.get("row") == _NOTHING:  # a rank without rows
            return {"row": _LONG, "id_ends": _LONG}
        self._check_names()
        found = self._read({"row": slice(None), "id_ends": slice(None)})
        row, ends, size = found["row"], found["id_ends"], self._forms["ids"].shape[0]
        if len(row) and (int(row[0]) < 0 or bool((row.diff() < 1).any())):
            raise self._damaged("row indices must ascend from 0")
        if len(ends) and (int(ends[0]) < 0 or bool((ends.diff() < 0).any()) or int(ends[-1]) > size):
            raise self._damaged("id_ends must ascend within ids")
        return found

    def _check_names(self) -> None:
        """Check that the tensors are those that ``_part`` writes, before reading them."""
        forms = self._forms
        rows = forms["row"].shape[0] if "row" in forms and forms["row"].shape else 0
        wanted = {"row": _LONG, "id_ends": _LONG, "ids": _BYTES, "given": self._given(forms.get("given"))}
        wanted |= {"trusted": _FLAGS} if "trusted" in forms else {}
        wanted |= {name: _LONG for name in ("content", "before", "likeliest") if name in forms}
        wanted |= {f"rows/{name}": value for name, value in (self.expected or {}).items()}
        for name, like in wanted.items():
            shape = (rows if name != "ids" else None, *like.shape[1:])
            if name not in forms or not forms[name].fits(shape, like.dtype):
                raise self._damaged(f"{name} is missing or not {like.dtype} of shape {shape}")
        if any(forms[name].shape[:1] != (rows,) for name in self._names):
            raise self._damaged(f"some tensors do not have {rows} rows")

    def _given(self, form: _Form | None) -> Tensor:
        """The expected form of given labels: classes or distributions."""
        return torch.empty(0, self.num_classes) if form is not None and len(form.shape) == 2 else _LONG

    @property
    def num_rows(self) -> int:
        return len(self._tensors["row"])

    def between(self, first: int, stop: int) -> Iterator[dict[str, Tensor]]:
        """Yield the tensors for the rows of this part in the range, if it has any."""
        span = torch.searchsorted(self._tensors["row"], torch.tensor([first, stop])).tolist()
        if span[0] == span[1]:
            return
        ends = self._tensors["id_ends"]
        begin = int(ends[span[0] - 1]) if span[0] else 0
        wanted = dict.fromkeys(self._names, slice(*span)) | {"ids": slice(begin, int(ends[span[1] - 1]))}
        piece = self._read(wanted, self._whole)
        self._check_given(piece["given"])
        for name in ("before", "likeliest"):
            if not bool((piece.get(name, _LONG) < self.num_classes).all()):
                raise self._damaged(f"{name} must be classes below {self.num_classes}")
        yield piece | {"id_ends": ends[slice(*span)] - begin}

    @cached_property
    def _whole(self) -> Path:
        """The file; its seal is checked once, before the first rows are read."""
        check_whole(self.path, run_id(self.path.parents[1]))
        return self.path

    @property
    def _names(self) -> list[str]:
        """The requested tensors that have one entry per row."""
        own = ("row", "given", "trusted", "before", "content", "likeliest")
        kept = None if self.expected is None else {f"rows/{name}" for name in self.expected}
        return [
            name
            for name in self._forms
            if name in own or (name.startswith("rows/") if kept is None else name in kept)
        ]

    def _check_given(self, given: Tensor) -> None:
        if given.dim() == 1 and not 0 <= int(given.min()) <= int(given.max()) < self.num_classes:
            raise self._damaged(f"given classes must be from 0 to {self.num_classes - 1}")
        if given.dim() == 2 and not bool(given.isfinite().all()):
            raise self._damaged("given labels must be finite")

    @cached_property
    def _forms(self) -> dict[str, _Form]:
        """Type and shape of every tensor."""
        with self._opened(self.path) as file:
            found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            return {name: _Form(part.get_dtype(), tuple(part.get_shape())) for name, part in found.items()}

    def _read(self, wanted: Mapping[str, slice], path: Path | None = None) -> dict[str, Tensor]:
        with self._opened(path or self.path) as file:
            return {name: file.get_slice(name)[part] for name, part in wanted.items()}

    @contextlib.contextmanager
    def _opened(self, path: Path) -> Iterator[Any]:
        try:
            with safe_open(path, "pt") as file:
                yield file
        except (OSError, SafetensorError) as error:
            raise self._damaged(error) from error

    def _damaged(self, problem: object) -> RunError:
        return damaged(self.path.parent, f"{self.path.name}: {problem}")


class _Form(NamedTuple):
    """Type (in safetensors' notation) and shape of a tensor in a file."""

    dtype: str
    shape: tuple[int, ...]

    def fits(self, shape: tuple[int | None, ...], dtype: torch.dtype) -> bool:
        """Whether the tensor has this type and shape; None matches any size."""
        sizes = zip(self.shape, shape, strict=False)
        same = len(self.shape) == len(shape) and all(wanted in (None, size) for size, wanted in sizes)
        return same and self.dtype == _NAMES.get(dtype)


_NOTHING = _Form("I64", (0,))
_NAMES = {
    torch.int64: "I64",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.float32: "F32",
    torch.int16: "I16",
}
_LONG, _BYTES, _FLAGS = (torch.empty(0, dtype=dtype) for dtype in (torch.int64, torch.uint8, torch.bool))


def _texts(piece: Mapping[str, Tensor]) -> Iterator[str]:
    text, start = piece["ids"].numpy().tobytes(), 0
    for end in piece["id_ends"].tolist():
        yield text[start:end].decode("utf-8", "surrogateescape")
        start = end
