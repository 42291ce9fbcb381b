"""What turns examples into features: one small protocol for pretrained networks and for hashed n-grams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from torch import Tensor

from pencil.data import Shown

Kind = Literal["images", "texts", "records"]
"""What an encoder takes."""


class Encoder(Protocol):
    """A frozen function from examples to features.

    An encoder may have ``cached = False``: a row's features depend on more than its content, and are not kept.
    """

    @property
    def name(self) -> str:
        """The name in the settings, such as ``transformers:facebook/dinov2-small``."""
        ...

    @property
    def takes(self) -> Kind:
        """What it encodes."""
        ...

    @property
    def mark(self) -> str:
        """A checksum of weights, preprocessing and pooling. Encoders with equal marks return equal features."""
        ...

    @property
    def size(self) -> int:
        """D, the number of features."""
        ...

    def encode(self, rows: Sequence[Shown]) -> Tensor:
        """Features (B, D), float32 on the CPU. Those of a row do not depend on the other rows of its batch."""
        ...
