"""A fingerprint of a data set, at a cost that does not grow with its contents.

It covers all labels, and the ids and contents of a sample of rows; for shards, the checksums in their index. A changed
label, row or order is always noticed, a changed image only if it is in the sample.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from pencil.data.examples import Examples
from pencil.data.inputs import Inputs, SubsetInputs
from pencil.stores import GivenLabels

IDS = 4096  # rows whose ids are included; all if there are no more
CONTENTS = 64  # rows whose inputs are included
Mark = dict[str, Any]


def fingerprint(examples: Examples) -> Mark:
    """Rows, classes and checksums of one split, as plain values."""
    names = "\0".join(examples.class_names).encode("utf-8", "surrogateescape")
    ids = (examples.ids[row] for row in _spread(len(examples), IDS))
    return {
        "rows": len(examples),
        "classes": zlib.crc32(names, examples.num_classes),
        "ids": zlib.crc32("\0".join(ids).encode("utf-8", "surrogateescape")),
        "labels": labels_mark(examples.labels),
        "contents": _contents(examples.inputs),
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


def _contents(inputs: Inputs) -> int | None:
    """A checksum of shards, or of a sample of inputs; None for inputs that differ each time they are fetched."""
    base = inputs.base if isinstance(inputs, SubsetInputs) else inputs
    known: int | None = getattr(base, "checksum", None)
    if known is not None or not len(inputs):
        return known
    indices = torch.tensor(_spread(len(inputs), CONTENTS))
    once, twice = (_crc([inputs.fetch(indices)]) for _ in range(2))
    return once if once == twice else None


def _crc(tensors: list[Tensor]) -> int:
    checksum = 0
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
