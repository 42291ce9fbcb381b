"""The network's inputs by row, views of some of them, and what people see of a row.

Inputs are what the network gets; ``shown`` returns what they are made of: an image as it is stored, a text, a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import Dataset

from pencil.data.order import Blocks
from pencil.errors import DataError


@dataclass(frozen=True)
class Image:
    """An image (1 or 3, H, W): uint8, or any numbers, of which the least is black and the largest white."""

    pixels: Tensor


@dataclass(frozen=True)
class Text:
    """A text. It may come from an untrusted source; code that shows it must escape it."""

    text: str


@dataclass(frozen=True)
class Record:
    """Named values, such as a row of a table; shown like a text."""

    fields: Mapping[str, Any]


Shown = Image | Text | Record


class Inputs(Protocol):
    """The network's inputs by row number. Fetching is deterministic; augmentation happens later, in batches.

    Inputs may offer more:

    * ``shown(index)`` returns what people see of a row, an ``Image``, ``Text`` or ``Record``. Without it, inputs that
      look like images are shown as they are.
    * ``content(index)`` returns the bytes that a row is made of, such as those of its file: all that ``shown`` depends
      on. Without it, what ``shown`` returns is taken.
    * ``is_text`` is True where rows are texts, which have no tensors unless ``data.embed`` makes some.
    * ``blocks`` says which rows are stored together, such as those of one shard.
    * ``checksum`` identifies the contents without reading them.
    * ``is_lazy`` is True where a row is read when it is fetched and may turn out to be damaged
      (``data.on_error = "skip"`` then reads every row once before training), and ``sized_by(index)`` returns the same
      inputs with the size of their images taken from that row.
    """

    def __len__(self) -> int: ...

    def fetch(self, indices: Tensor) -> Tensor:
        """The inputs (B, ...) of the rows numbered (B,): uint8 for images, any float for features."""
        ...


@dataclass(frozen=True)
class TensorInputs:
    """Inputs held in memory as one tensor (N, ...)."""

    values: Tensor

    def __len__(self) -> int:
        return self.values.shape[0]

    def fetch(self, indices: Tensor) -> Tensor:
        """Rows of the tensor."""
        return self.values[indices]


@dataclass(frozen=True)
class DatasetInputs:
    """An indexed view of any map-style Dataset whose items are a tensor, or a tuple that begins with one."""

    dataset: Dataset[Any]

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]  # Dataset has no __len__; map-style ones do

    def fetch(self, indices: Tensor) -> Tensor:
        """Items stacked into a batch."""
        return torch.stack([self._tensor(row) for row in indices.tolist()])

    def _tensor(self, row: int) -> Tensor:
        item = self.dataset[row]
        value = item[0] if isinstance(item, tuple | list) else item
        if not isinstance(value, Tensor):
            raise DataError(
                f"data set item {row} begins with a {type(value).__name__}, not a tensor; add a transform to tensors"
            )
        return value


@dataclass(frozen=True)
class SubsetInputs:
    """A view of some rows of other inputs, renumbered from 0."""

    base: Inputs
    indices: Tensor

    def __len__(self) -> int:
        return self.indices.shape[0]

    def fetch(self, indices: Tensor) -> Tensor:
        """Rows of the base."""
        return self.base.fetch(self.indices[indices])

    @cached_property
    def blocks(self) -> Blocks | None:
        """Those of the base, as far as these rows go."""
        base = blocks_of(self.base)
        return None if base is None else base.subset(self.indices)


def shown(inputs: Inputs, index: int) -> Shown | None:
    """What people see of a row: an image as it is stored, not resized for the network; None for plain numbers."""
    if isinstance(inputs, SubsetInputs):
        return shown(inputs.base, int(inputs.indices[index]))
    if hasattr(inputs, "shown"):
        found: Shown | None = inputs.shown(index)
        return found
    return as_image(inputs.fetch(torch.tensor([index]))[0])


def content(inputs: Inputs, index: int) -> bytes:
    """The bytes that a row is made of: what the inputs offer as such, else what they show of it, else its values.

    Features are kept by these bytes, and an encoder gets what is shown: two rows that look different must differ here.
    """
    if isinstance(inputs, SubsetInputs):
        return content(inputs.base, int(inputs.indices[index]))
    if hasattr(inputs, "content"):
        found: bytes = inputs.content(index)
        return found
    seen: Shown | None = inputs.shown(index) if hasattr(inputs, "shown") else None
    return _tensor_content(inputs.fetch(torch.tensor([index]))[0]) if seen is None else _shown_content(seen)


def _shown_content(seen: Shown) -> bytes:
    match seen:
        case Image(pixels):
            return _tensor_content(pixels)
        case Text(text):
            return text.encode("utf-8", "surrogatepass")
        case Record(fields):  # the text of a large array or tensor leaves out most of its numbers
            plain = {
                name: value.tolist() if hasattr(value, "tolist") else value for name, value in fields.items()
            }
            return repr(plain).encode("utf-8", "surrogatepass")


def _tensor_content(values: Tensor) -> bytes:
    plain = values.contiguous()
    return content_head(plain) + plain.flatten().view(torch.uint8).numpy().tobytes()


def content_head(values: Tensor) -> bytes:
    """What precedes the bytes of a row's values: equal bytes of another type or shape are other content."""
    return repr((values.dtype, tuple(values.shape))).encode()


def is_text(inputs: Inputs) -> bool:
    """Whether rows are texts, which cannot be fetched."""
    base = inputs.base if isinstance(inputs, SubsetInputs) else inputs
    return getattr(base, "is_text", False)


def as_image(value: Tensor) -> Image | None:
    """A network's input as an image, where it looks like one: (1 or 3, H, W)."""
    return Image(value) if value.dim() == 3 and value.shape[0] in (1, 3) and value.numel() else None


def as_text(found: Shown | None) -> str | None:
    """A text, or a record with a line per field; None for images and plain numbers."""
    if isinstance(found, Record):
        return "\n".join(f"{name}: {value}" for name, value in found.fields.items())
    return found.text if isinstance(found, Text) else None


def blocks_of(inputs: Inputs) -> Blocks | None:
    """Which rows of these inputs are stored together; None where none are."""
    blocks: Blocks | None = getattr(inputs, "blocks", None)
    return blocks


def subset_inputs(inputs: Inputs, indices: Tensor) -> Inputs:
    """A view of some rows; a view of a view refers to what that one refers to."""
    if isinstance(inputs, SubsetInputs):
        return SubsetInputs(inputs.base, inputs.indices[indices])
    return SubsetInputs(inputs, indices)
