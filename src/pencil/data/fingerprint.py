"""A fingerprint of a data set, which no file is read for that the reader did not read.

It covers the number of rows, all class names, labels and ids, and which rows a reader left out. Of contents in memory
(features, texts, tables) it covers all; of shards the checksums in their index; of others, which are read when needed,
a sample of rows. So it does not notice image files outside the sample that changed under their names.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pencil.data.examples import Examples, RowNumbers, SubsetNames
from pencil.data.inputs import Inputs, SubsetInputs, TensorInputs
from pencil.data.keys import known_keys
from pencil.data.matching import has_own_ids
from pencil.stores import GivenLabels

IDS = 4096  # rows whose ids are included in fingerprints of before
CONTENTS = 64  # rows whose inputs are included, where they are not in memory
_BLOCK = 16384  # rows at once
Mark = dict[str, Any]


def fingerprint(examples: Examples, *, sampled: bool = False) -> Mark:
    """Rows, classes and checksums of one split, as plain values, and whether its ids are row numbers.

    ``sampled``: only a sample of ids and contents counts, as in runs of before, whose marks have no "numbered".
    """
    names = "\0".join(examples.class_names).encode("utf-8", "surrogateescape")
    return {
        "rows": len(examples),
        "classes": zlib.crc32(names, examples.num_classes),
        "ids": _sampled_ids(examples.ids) if sampled else _ids(examples.ids),
        "labels": labels_mark(examples.labels),
        "contents": _contents(examples.inputs, sampled=sampled),
        **({} if sampled else {"numbered": not has_own_ids(examples.ids)}),
    }


def labels_mark(labels: GivenLabels) -> int:
    """A checksum of given labels and of which are trusted."""
    return _crc([labels.values, *([] if labels.trusted is None else [labels.trusted])])


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What differs between two fingerprints of a split, in words."""
    if before.get("rows") != now.get("rows"):
        yield f"it had {before.get('rows'):,} rows and has {now.get('rows'):,}"
        return  # everything else follows from that
    words = {"classes": "class names", "ids": "ids", "labels": "labels", "contents": "contents of examples"}
    for name, word in words.items():
        if before.get(name) is not None and before.get(name) != now.get(name):
            yield f"{word} differ"


def _ids(ids: Sequence[str]) -> int:
    """A checksum of all ids; row numbers need none."""
    if isinstance(ids, SubsetNames):
        return _crc([ids.indices], _ids(ids.base))
    if isinstance(ids, RowNumbers):
        return 0
    known: int | None = getattr(ids, "checksum", None)
    if known is not None:
        return known
    checksum = 0
    for start in range(0, len(ids), _BLOCK):
        checksum = zlib.crc32(ascii(list(ids[start : start + _BLOCK])).encode(), checksum)
    return checksum


def _sampled_ids(ids: Sequence[str]) -> int:
    chosen = (ids[row] for row in _spread(len(ids), IDS))
    return zlib.crc32("\0".join(chosen).encode("utf-8", "surrogateescape"))


def _contents(inputs: Inputs, *, sampled: bool) -> int | None:
    """A checksum of all inputs, or of a sample; None for inputs that differ each time they are fetched."""
    base, rows = (inputs.base, [inputs.indices]) if isinstance(inputs, SubsetInputs) else (inputs, [])
    known: int | None = getattr(base, "checksum", None)
    if known is not None or not len(inputs):
        return known if known is None or sampled else _crc(rows, known)
    if not sampled and isinstance(base, TensorInputs):
        return _crc(inputs.fetch(part) for part in torch.arange(len(inputs)).split(_BLOCK))
    keys = None if sampled else known_keys(inputs)
    if keys is not None:
        return _crc([keys])
    indices = torch.tensor(_spread(len(inputs), CONTENTS))
    once, twice = (_crc([inputs.fetch(indices)]) for _ in range(2))
    return once if once == twice else None


def _crc(tensors: Iterable[Tensor], checksum: int = 0) -> int:
    for tensor in tensors:
        checksum = zlib.crc32(str((tensor.dtype, tuple(tensor.shape))).encode(), checksum)
        content: Any = tensor.contiguous().flatten().view(torch.uint8).numpy()
        checksum = zlib.crc32(content, checksum)
    return checksum


def _spread(size: int, count: int) -> list[int]:
    """At most ``count`` of ``size`` rows, evenly spaced, the first and the last among them."""
    if size <= count:
        return list(range(size))
    return [index * (size - 1) // (count - 1) for index in range(count)]
