"""What identifies a row besides its id: a checksum of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor

from pencil.data.inputs import Inputs, SubsetInputs, TensorInputs, content, content_head

ROWS = 4096  # rows of a tensor that are fetched at once


def row_keys(inputs: Inputs) -> Tensor:
    """A key (N,) for the content of each row; rows with equal content have equal keys."""
    contents = _values(inputs) if _is_tensor(inputs) else (content(inputs, row) for row in range(len(inputs)))
    digests = b"".join(hashlib.blake2b(each, digest_size=8).digest() for each in contents)
    return torch.frombuffer(bytearray(digests or bytes(8)), dtype=torch.int64)[: len(inputs)].clone()


def _values(inputs: Inputs) -> Iterator[bytes]:
    """What ``content`` returns for each row of a tensor, many rows at a time."""
    for rows in torch.arange(len(inputs)).split(ROWS) if len(inputs) else ():
        values = inputs.fetch(rows).contiguous()
        head = content_head(values[0])
        for row in values.flatten(1).view(torch.uint8).numpy():
            yield head + row.tobytes()


def _is_tensor(inputs: Inputs) -> bool:
    return isinstance(_base(inputs), TensorInputs)


def _base(inputs: Inputs) -> Inputs:
    return inputs.base if isinstance(inputs, SubsetInputs) else inputs


def known_keys(inputs: Inputs) -> Tensor | None:
    """The keys (N,) of inputs in memory; None where every file would have to be read for them."""
    base = _base(inputs)
    if hasattr(base, "keys"):
        keys: Tensor = base.keys
        return keys[inputs.indices] if isinstance(inputs, SubsetInputs) else keys
    in_memory = hasattr(base, "content") and not getattr(base, "is_lazy", False)
    return row_keys(inputs) if in_memory or _is_tensor(inputs) else None
