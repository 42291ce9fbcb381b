"""Images as an image network expects them: resized, cropped, scaled.

The settings are those of ``preprocessor_config.json``, the file that models of transformers come with. transformers'
own image processors need torchvision, or differ from it without; these few lines need Pillow alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pencil.data import Image
from pencil.data.images import pillow
from pencil.data.pixels import as_pixels
from pencil.embed.network import Pixels
from pencil.errors import ConfigError

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
Extent = tuple[int, int]
"""Height and width."""


@dataclass(frozen=True)
class Preprocessing:
    """Steps from a picture of any size to the network's input.

    Attributes:
        resize: Height and width to resize to; one number is the length of the shorter edge; None: as it is.
        crop: Height and width to cut from the centre; None: everything.
        resample: Pillow's number of the filter; 2 is bilinear, 3 bicubic.
        scale: Factor for pixels from 0 to 255.
        mean: Subtracted from each channel after scaling.
        std: Divides each channel after that.
    """

    resize: int | Extent | None
    crop: Extent | None = None
    resample: int = 3
    scale: float = 1 / 255
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def batch(self, images: Sequence[Image]) -> Tensor:
        """Images as one tensor (B, 3, H, W)."""
        pixels = [torch.from_numpy(np.array(self.apply(as_picture(image)))) for image in images]
        sizes = {tuple(each.shape) for each in pixels}
        if len(sizes) > 1:
            raise ConfigError(
                "the model's preprocessing resizes nothing, and the images differ in size; set size in its settings"
            )
        values = torch.stack(pixels).permute(0, 3, 1, 2).float() * self.scale
        mean, std = (torch.tensor(channel).view(-1, 1, 1) for channel in (self.mean, self.std))
        return (values - mean) / std

    def pixels(self, name: str) -> Pixels | None:
        """The same values for square images of the network's size; None where the size is not fixed."""
        extent = self.crop or (self.resize if isinstance(self.resize, tuple) else None)
        square = extent is not None and extent[0] == extent[1]
        return Pixels(name, extent[0], self.scale, self.mean, self.std) if extent and square else None

    def apply(self, picture: Any) -> Any:
        """A picture of Pillow, resized and cropped."""
        if self.resize is not None:
            height, width = self._extent(picture)
            picture = picture.resize((width, height), self.resample)
        if self.crop is not None:
            top, left = (picture.height - self.crop[0]) // 2, (picture.width - self.crop[1]) // 2
            picture = picture.crop((left, top, left + self.crop[1], top + self.crop[0]))  # black outside
        return picture

    def _extent(self, picture: Any) -> Extent:
        if not isinstance(self.resize, int):
            assert self.resize is not None
            return self.resize
        short, long = sorted((picture.height, picture.width))
        longer = int(self.resize * long / short)
        return (self.resize, longer) if picture.height == short else (longer, self.resize)

    @classmethod
    def of(cls, config: Mapping[str, Any], where: object) -> Preprocessing:
        """The steps that a ``preprocessor_config.json`` describes; ``where`` names it in error messages."""
        try:
            settings = config.get(
                "image_processor", config
            )  # files of a whole processor have it one level down
            resize, crop = _geometry(settings)
            normalize = settings.get("do_normalize", True)
            return cls(
                resize,
                crop,
                int(settings.get("resample", 3)),
                float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 1.0,
                _channels(settings.get("image_mean", IMAGENET_MEAN)) if normalize else (0.0, 0.0, 0.0),
                _channels(settings.get("image_std", IMAGENET_STD)) if normalize else (1.0, 1.0, 1.0),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{where}: this preprocessing is not known ({type(error).__name__}: {error}); use a model with size, "
                "crop_size, image_mean and image_std, or a function of your own"
            ) from error


def _geometry(settings: Mapping[str, Any]) -> tuple[int | Extent | None, Extent | None]:
    """What to resize to, and what to crop to."""
    crops = settings.get("do_center_crop", "crop_size" in settings)
    crop = _pair(settings["crop_size"]) if crops else None
    size = settings.get("size") if settings.get("do_resize", True) else None
    if size is None:
        return None, crop
    if isinstance(size, Mapping) and "shortest_edge" in size:
        return _shortest(int(size["shortest_edge"]), settings.get("crop_pct"), crop)
    # One number means the shorter edge where the rest is cropped, and a square elsewhere.
    return (int(size), crop) if isinstance(size, int) and crop else (_pair(size), crop)


def _shortest(edge: int, crop_pct: float | None, crop: Extent | None) -> tuple[int | Extent, Extent | None]:
    """ConvNeXt's files have the share of the picture that is kept, and only for small sizes."""
    if crop_pct is None:
        return edge, crop
    return (int(edge / crop_pct), (edge, edge)) if edge < 384 else ((edge, edge), None)


def _pair(size: Any) -> Extent:
    if isinstance(size, Mapping):
        return int(size["height"]), int(size["width"])
    if isinstance(size, Sequence):
        height, width = size
        return int(height), int(width)
    return int(size), int(size)


def _channels(values: Any) -> tuple[float, ...]:
    channels = tuple(float(value) for value in values)
    if len(channels) != 3:
        raise ValueError(f"{len(channels)} channels")
    return channels


def as_picture(image: Image) -> Any:
    """An image as Pillow's, RGB."""
    pixels = as_pixels(image.pixels)
    colour = pixels.expand(3, -1, -1) if pixels.shape[0] == 1 else pixels
    return pillow().fromarray(colour.permute(1, 2, 0).contiguous().numpy())
