"""From fetched inputs to what the network sees: on the device, in batches, normalised, then augmented."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.data.augment import Augment, Normalize, center_crop
from pencil.data.randomness import mixed_seed


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How inputs become a batch for the network.

    Attributes:
        device: Where the network lives.
        normalize: Mean and deviation to remove; None leaves values as they are (features).
        augment: Random changes while training; None for none.
        seed: Chooses the augmentation of every (epoch, row, view).
        channels_last: Memory format of images.
    """

    device: torch.device
    normalize: Normalize | None = None
    augment: Augment | None = None
    seed: int = 0
    channels_last: bool = False

    def training(self, inputs: Tensor, indices: Tensor, epoch: int, view: int = 0) -> Tensor:
        """Inputs (B, ...) as training sees them; ``indices`` (B,) number them across all ranks.

        Views of one example differ in nothing but their augmentation.
        """
        values = self._normalized(inputs)
        if self.augment is not None:
            seed = mixed_seed(self.seed, view) if view else self.seed
            values = self.augment(values, indices.to(self.device), seed=seed, epoch=epoch)
        return self._formatted(values)

    def evaluation(self, inputs: Tensor) -> Tensor:
        """Inputs (B, ...) as evaluation sees them: the middle of the image, nothing random."""
        values = self._normalized(inputs)
        if self.augment is not None and self.augment.crop is not None:
            values = center_crop(values, self.augment.crop)
        return self._formatted(values)

    def _normalized(self, inputs: Tensor) -> Tensor:
        values = inputs.to(self.device, non_blocking=True)
        return self.normalize(values) if self.normalize is not None else values.float()

    def _formatted(self, values: Tensor) -> Tensor:
        if self.channels_last and values.dim() == 4:
            return values.contiguous(memory_format=torch.channels_last)
        return values
