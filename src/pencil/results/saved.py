"""Learned labels on disk, in parts that every rank writes for itself and nobody needs to read whole.

A part is a safetensors file of at most ``PIECE`` rows of one rank, in ascending order: ``row`` numbers, ``given``
labels, ``trusted`` where some are, the learned ``rows/...`` as the store keeps them, and the rows' ids as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pencil.durable import make_folder, sync
from pencil.results.files import damaged
from pencil.stores import GivenLabels

LABELS = "labels"
PIECE = 1 << 20


@dataclass(frozen=True)
class SavedRows:
    """Some rows of a finished run.

    Attributes:
        first: The number of the first row; the others follow it.
        given: ŷ.
        rows: What the store kept, by name.
        ids: What identifies each row.
    """

    first: int
    given: GivenLabels
    rows: dict[str, Tensor]
    ids: list[str]


def save_labels(
    folder: Path,
    numbers: Tensor,
    given: GivenLabels,
    rows: Mapping[str, Tensor],
    ids: Sequence[str],
    rank: int = 0,
) -> None:
    """Write one rank's rows, numbered (N,) among those of all ranks, beside the parts of the other ranks.

    Parts that an earlier attempt of this rank left are removed first. All is on disk when this returns.
    """
    place = folder / LABELS
    make_folder(place)
    for old in place.glob(f"{rank:05d}-*.safetensors"):
        old.unlink()
    for index, order in enumerate(numbers.argsort().split(PIECE)):
        part = _part(numbers, given, rows, ids, order)
        file = place / f"{rank:05d}-{index:05d}.safetensors"
        save_file(part, file)
        sync(file)
    sync(place)


def _part(
    numbers: Tensor, given: GivenLabels, rows: Mapping[str, Tensor], ids: Sequence[str], order: Tensor
) -> dict[str, Tensor]:
    texts = [ids[row].encode("utf-8", "surrogateescape") for row in order.tolist()]  # an id may hold anything
    mine = given.subset(order)
    part = {"row": numbers[order], "given": mine.values}
    if mine.trusted is not None:
        part["trusted"] = mine.trusted
    part |= {f"rows/{name}": value[order] for name, value in rows.items()}
    part["ids"] = torch.frombuffer(bytearray(b"".join(texts) or b"\0"), dtype=torch.uint8)
    part["id_ends"] = torch.tensor([len(text) for text in texts]).cumsum(0)
    return part


class SavedLabels:
    """The parts of a run, read together in the order of the rows."""

    def __init__(self, folder: Path, num_classes: int) -> None:
        self._num_classes = num_classes
        self._parts = [_Part(path) for path in sorted((folder / LABELS).glob("*.safetensors"))]
        self.num_rows = sum(part.num_rows for part in self._parts)
        if not self.num_rows:
            raise damaged(folder / LABELS, "it holds no labels")

    def chunks(self, size: int) -> Iterator[SavedRows]:
        """All rows in order, ``size`` at a time."""
        for first in range(0, self.num_rows, size):
            yield self.rows(first, min(first + size, self.num_rows))

    def rows(self, first: int, stop: int) -> SavedRows:
        """The rows numbered from ``first`` to before ``stop``."""
        pieces = [piece for part in self._parts for piece in part.between(first, stop)]
        found = torch.cat([piece["row"] for piece in pieces]) if pieces else torch.empty(0, dtype=torch.long)
        order = found.argsort()
        if not torch.equal(found[order], torch.arange(first, stop)):
            raise damaged(self._parts[0].path.parent, f"rows {first} to {stop - 1} are not there once each")
        names = [name for name in pieces[0] if name not in ("ids", "id_ends")]
        whole = {name: torch.cat([piece[name] for piece in pieces])[order] for name in names}
        ids = [text for piece in pieces for text in _texts(piece)]
        return SavedRows(
            first,
            GivenLabels(whole["given"], self._num_classes, whole.get("trusted")),
            {name.removeprefix("rows/"): value for name, value in whole.items() if name.startswith("rows/")},
            [ids[index] for index in order.tolist()],
        )


@dataclass(frozen=True)
class _Part:
    path: Path

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        """Row numbers and ends of ids: what finds the rest."""
        return self._read({"row": slice(None), "id_ends": slice(None)})

    @property
    def num_rows(self) -> int:
        return len(self._tensors["row"])

    def between(self, first: int, stop: int) -> Iterator[dict[str, Tensor]]:
        """What the part has of these rows; nothing where it has none."""
        span = torch.searchsorted(self._tensors["row"], torch.tensor([first, stop])).tolist()
        if span[0] == span[1]:
            return
        ends = self._tensors["id_ends"]
        begin = int(ends[span[0] - 1]) if span[0] else 0
        wanted = dict.fromkeys(self._names, slice(*span)) | {"ids": slice(begin, int(ends[span[1] - 1]))}
        yield self._read(wanted) | {"id_ends": ends[slice(*span)] - begin}

    @cached_property
    def _names(self) -> tuple[str, ...]:
        with safe_open(self.path, "pt") as file:
            return tuple(file.keys())

    def _read(self, wanted: Mapping[str, slice]) -> dict[str, Tensor]:
        try:
            with safe_open(self.path, "pt") as file:
                return {name: file.get_slice(name)[part] for name, part in wanted.items()}
        except (OSError, SafetensorError) as error:
            raise damaged(self.path.parent, error) from error


def _texts(piece: Mapping[str, Tensor]) -> Iterator[str]:
    text, start = piece["ids"].numpy().tobytes(), 0
    for end in piece["id_ends"].tolist():
        yield text[start:end].decode("utf-8", "surrogateescape")
        start = end
