"""From stored inputs to what the network sees: normalise, pad, crop, flip, in batches on their own device.

An example's augmentation is a pure function of (seed, epoch, row): neither its batch, its place in it, the
rank nor a resumed run changes it. So there is no generator whose state would have to be kept.

Shapes: images (B, channels, H, W); features (B, D); indices (B,).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from pencil.data.inputs import Inputs
from pencil.data.randomness import mixed_seed, row_random
from pencil.errors import ConfigError, DataError

_TOP, _LEFT, _FLIP = range(3)  # always three draws, so that leaving the flip out moves no crop
MOST_PADDING = 1024
_CHUNK = 2**22  # values that statistics hold as float64 at a time: 32 MB


@dataclass(frozen=True)
class Augment:
    """Zero-pad, crop at random, flip at random; the paper's CIFAR setting is ``Augment(pad=4, flip=True)``.

    Applied after normalisation, the zeros of the padding are the mean colour, as in the paper.

    Attributes:
        pad: Pixels of zeros added on each side before the crop; at most 1024, since a batch must hold them.
        crop: The side of the square that is cut out; None for the images' own height and width.
        flip: Whether to mirror half of the images left to right.
    """

    pad: int = 0
    crop: int | None = None
    flip: bool = False

    def __post_init__(self) -> None:
        if self.pad < 0:
            raise ValueError(f"pad: {self.pad} must be 0 or more pixels")
        if self.pad > MOST_PADDING:
            raise ValueError(f"pad: {self.pad} must be at most {MOST_PADDING} pixels")
        if self.crop is not None and self.crop < 1:
            raise ValueError(
                f"crop: {self.crop} must be 1 or more pixels; leave it out to keep the images' size"
            )

    def __call__(self, images: Tensor, indices: Tensor, *, seed: int, epoch: int) -> Tensor:
        """Augmented images (B, channels, H, W) of the rows ``indices`` (B,): same dtype, device and memory format."""
        height, width = self.output_size(*_size(images))
        padded = F.pad(images, (self.pad,) * 4) if self.pad else images
        random = row_random(seed, epoch, indices.to(images.device), 3)
        top = _offset(random[:, _TOP], padded.shape[2] - height)
        left = _offset(random[:, _LEFT], padded.shape[3] - width)
        mirrored = (random[:, _FLIP] < 0.5) if self.flip else torch.zeros_like(top, dtype=torch.bool)
        return _cut(padded, top, left, mirrored, (height, width))

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """The (height, width) that images of this size have afterwards."""
        size = (height, width) if self.crop is None else (self.crop, self.crop)
        _check_fits(size, height + 2 * self.pad, width + 2 * self.pad)
        return size


@dataclass(frozen=True)
class Normalize:
    """(x - mean) / std in float32, per channel of images or per feature.

    Images of uint8 are scaled to [0, 1] first, so their mean and std are in that unit; floats are taken as
    they are. The paper's mean subtraction is a std of ones.

    Attributes:
        mean: One value per channel or feature, or a single one for all.
        std: Likewise, above 0.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std):
            raise ValueError(
                f"mean: {len(self.mean)} values, but std has {len(self.std)}; give as many of both"
            )
        if not all(math.isfinite(mean) for mean in self.mean):
            raise ValueError(f"mean: {self.mean} must be finite everywhere")
        if not all(0 < std < math.inf for std in self.std):
            raise ValueError(f"std: {self.std} must be above 0 and finite everywhere")

    def __call__(self, inputs: Tensor) -> Tensor:
        """Inputs (B, channels, H, W) or (B, D), of any dtype, to float32 of the same shape."""
        if len(self.mean) not in (1, inputs.shape[1]):
            raise DataError(
                f"mean and std have {len(self.mean)} values, but the inputs {tuple(inputs.shape)} have "
                f"{inputs.shape[1]} channels or features"
            )
        shape = (-1,) + (1,) * (inputs.dim() - 2)
        unit = 255.0 if inputs.dtype == torch.uint8 else 1.0
        std = _constant(self.std, inputs.device).view(shape)
        if inputs.dtype == torch.float64:  # a number far from 0, such as a time, has more digits than float32
            return (inputs - _constant(self.mean, inputs.device, inputs.dtype).view(shape)).float().div_(std)
        mean, values = _constant(self.mean, inputs.device).view(shape), inputs.float()
        # One new tensor, then in place; the caller's is never written to.
        centred = values - mean * unit if values is inputs else values.sub_(mean * unit)
        return centred.div_(std * unit)


@lru_cache(maxsize=8)
def _constant(values: tuple[float, ...], device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """The values as a tensor, made once: for a thousand features that takes longer than to normalise a batch."""
    return torch.tensor(values, dtype=dtype, device=device)


def center_crop(images: Tensor, size: int) -> Tensor:
    """The middle (B, channels, size, size) of images, a view; an odd pixel stays on the right and below."""
    height, width = _size(images)
    _check_fits((size, size), height, width)
    top, left = (height - size) // 2, (width - size) // 2
    return images[:, :, top : top + size, left : left + size]


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


def channel_statistics(
    inputs: Inputs, indices: Tensor | None = None, batch: int = 1024
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel of images or per feature, in the units ``Normalize`` takes.

    Summed batch by batch in float64; no copy of the inputs is held. Where a channel or feature is constant
    its std is given as 1, so that normalising leaves it at 0.

    Args:
        inputs: Where the inputs come from.
        indices: (M,) the rows to measure, e.g. those that train; None for all.
        batch: How many rows to fetch at a time.
    """
    count, mean, squares = 0, torch.zeros(()), torch.zeros(())
    for values in _channel_values(inputs, indices, batch):
        seen = values.shape[1]
        variance, center = torch.var_mean(values, dim=1, correction=0)
        # Chan et al. 1979: exact merging of means and squared deviations, safe where the mean is far from 0.
        shift, total = center - mean, count + seen
        mean = mean + shift * (seen / total)
        squares = squares + variance * seen + shift.square() * (count * seen / total)
        count = total
    if not count:
        raise DataError("no rows to measure the mean and standard deviation of")
    return _checked_statistics(mean, (squares / count).sqrt())


def _channel_values(inputs: Inputs, indices: Tensor | None, batch: int) -> Iterator[Tensor]:
    """The inputs as float64 (channels, values) chunk by chunk, in the unit of ``Normalize``."""
    count = len(inputs) if indices is None else len(indices)
    for start in range(0, count, batch):
        numbers = (
            torch.arange(start, min(start + batch, count))
            if indices is None
            else indices[start : start + batch]
        )
        fetched = inputs.fetch(numbers)
        unit = 255.0 if fetched.dtype == torch.uint8 else 1.0
        for chunk in torch.split(fetched, max(1, _CHUNK // max(1, fetched[0].numel()))):
            yield (chunk.double() / unit).transpose(0, 1).flatten(1)


def _checked_statistics(mean: Tensor, std: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    bad = (~torch.isfinite(mean) | ~torch.isfinite(std)).nonzero()
    if len(bad):
        raise DataError(f"channel or feature {int(bad[0])} of the inputs holds values that are not finite")
    varies = std > 1e-10 * mean.abs()  # below that it is the rounding of a constant
    std = torch.where(varies, std, torch.ones_like(std))
    return tuple(mean.tolist()), tuple(std.tolist())


def _cut(images: Tensor, top: Tensor, left: Tensor, mirrored: Tensor, size: tuple[int, int]) -> Tensor:
    """From each image the window of this size at (top, left), (B,) each, mirrored where asked (B,).

    One gather for the batch: on a CPU twice as fast as slicing image by image, on a GPU one kernel, no wait.
    """
    (batch, channels, _, stride), (height, width) = images.shape, size
    down = torch.arange(height, device=images.device)
    right = torch.arange(width, device=images.device)
    columns = left[:, None] + torch.where(mirrored[:, None], width - 1 - right, right)
    pixels = (top[:, None] + down)[:, :, None] * stride + columns[:, None, :]
    index = pixels.view(batch, 1, -1).expand(-1, channels, -1)
    windows = images.reshape(batch, channels, -1).gather(2, index).view(batch, channels, height, width)
    plain = images.is_contiguous() or not images.is_contiguous(memory_format=torch.channels_last)
    return windows if plain else windows.contiguous(memory_format=torch.channels_last)


def _offset(random: Tensor, largest: int) -> Tensor:
    """Uniform whole numbers 0 to ``largest`` (B,) from uniform numbers in [0, 1)."""
    return (random * (largest + 1)).long()


def _size(images: Tensor) -> tuple[int, int]:
    if images.dim() != 4:
        raise DataError(
            f"crops and flips take images (B, channels, H, W); these inputs are {tuple(images.shape)}"
        )
    return images.shape[2], images.shape[3]


def _check_fits(size: tuple[int, int], height: int, width: int) -> None:
    if size[0] > height or size[1] > width:
        raise ConfigError(
            f"data.augment.crop = {size[0]} is larger than the images, {height} x {width} with their padding"
        )
