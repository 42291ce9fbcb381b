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

    Attributes:
        name: The name in the settings, such as ``transformers:facebook/dinov2-small``.
        takes: What it encodes.
        mark: A checksum of weights, preprocessing and pooling. Encoders with equal marks return equal features.
        size: D, the number of features.
    """

    name: str
    takes: Kind
    mark: str
    size: int

    def encode(self, rows: Sequence[Shown]) -> Tensor:
        """Features (B, D), float32 on the CPU. Those of a row do not depend on the other rows of its batch."""
        ...
