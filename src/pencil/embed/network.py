"""Frozen torch networks as encoders, and the checksums that identify them.

B: rows of a batch. D: features.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pencil.data import Image, Record, Shown, Text
from pencil.embed.encoder import Kind

Batch = Mapping[str, Tensor]
EXAMPLES: Mapping[str, Shown] = {
    "images": Image(torch.zeros(3, 32, 32, dtype=torch.uint8)),
    "texts": Text("word"),
    "records": Record({"column": 0}),
}
"""Rows that show how many features a network has."""


@dataclass(frozen=True)
class Pixels:
    """Images as a network takes them: (x * scale - mean) / std of pixels x from 0 to 255.

    Attributes:
        name: The name of the images in a batch.
        side: Height and width.
        scale: Factor for pixels.
        mean: Subtracted from each channel.
        std: Divides each channel.
    """

    name: str
    side: int
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class FrozenNetwork:
    """A torch network in three steps: rows become a batch, the batch goes to the device, features come back.

    Attributes:
        name: The name in the settings.
        takes: What it encodes.
        mark: A checksum of weights, preprocessing and pooling.
        size: D.
        network: The network itself.
        prepare: Rows to tensors by name, on the CPU.
        features: A batch on the network's device to features (B, D).
        device: Where the network is.
        pixels: How it takes images, if it can be trained further; None otherwise.
    """

    name: str
    takes: Kind
    mark: str
    size: int
    network: nn.Module
    prepare: Callable[[Sequence[Shown]], Batch]
    features: Callable[[Batch], Tensor]
    device: torch.device
    pixels: Pixels | None = None

    def encode(self, rows: Sequence[Shown]) -> Tensor:
        """Features (B, D), float32 on the CPU."""
        batch = {name: values.to(self.device) for name, values in self.prepare(rows).items()}
        with (
            torch.no_grad()
        ):  # not inference_mode: a head that learns from the features must keep them for its gradient
            return self.features(batch).float().cpu()


def frozen_network(
    name: str,
    takes: Kind,
    network: nn.Module,
    prepare: Callable[[Sequence[Shown]], Batch],
    features: Callable[[Batch], Tensor],
    *,
    recipe: Mapping[str, Any],
    device: str,
    pixels: Pixels | None = None,
) -> FrozenNetwork:
    """Freeze a network; its number of features is that of one example.

    Args:
        name: The name in the settings.
        takes: What it encodes.
        network: The network.
        prepare: Rows to tensors by name.
        features: A batch to features (B, D).
        recipe: Everything but the weights that determines the features, as plain values.
        device: Where to compute.
        pixels: How it takes images, if it can be trained further.
    """
    network.eval().requires_grad_(False)
    mark = mark_of(recipe, network.state_dict())
    where = torch.device(device)
    found = FrozenNetwork(name, takes, mark, 0, network.to(where), prepare, features, where, pixels)
    return replace(found, size=found.encode([EXAMPLES[takes]]).shape[1])


def mark_of(recipe: Mapping[str, Any], weights: Mapping[str, Tensor]) -> str:
    """A checksum of settings and weights."""
    checksum = hashlib.blake2b(json.dumps(recipe, sort_keys=True, default=str).encode(), digest_size=16)
    for name, tensor in sorted(weights.items()):
        checksum.update(str((name, tensor.dtype, tuple(tensor.shape))).encode())
        content: Any = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        checksum.update(content)
    return checksum.hexdigest()
