"""Images from files or bytes to tensors, all of one size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from pencil.errors import DataError, need

IMAGE_SUFFIXES = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)
Extent = tuple[int, int]
"""Width and height."""


@dataclass(frozen=True)
class ImageDecoder:
    """How images become tensors.

    Attributes:
        size: Height and width to resize to (bilinear), or None if all images have one size already.
        channels: 3 for RGB, 1 for grey.
    """

    size: int | None = None
    channels: int = 3

    def __post_init__(self) -> None:
        pillow()  # a missing extra shows before training, not in its first batch
        if self.channels not in (1, 3):
            raise DataError(f"channels={self.channels}: images have 3 channels (RGB) or 1 (grey)")
        if self.size is not None and self.size < 1:
            raise DataError(
                f"size={self.size}: give the height and width in pixels, or None to keep the images' own"
            )

    def extent(self, file: Path | BinaryIO, name: object) -> Extent:
        """The width and height of an image as it is stored."""
        try:
            with pillow().open(file) as image:
                return image.width, image.height
        except Exception as error:  # as in decode
            raise _broken(name, error) from error

    @classmethod
    def original(cls, file: Path | BinaryIO, name: object) -> Tensor:
        """An image (3, H, W) uint8 as it is stored, for people to look at."""
        plain = cls()
        return plain.decode(file, name, plain.extent(file, name), name)

    def decode(self, file: Path | BinaryIO, name: object, extent: Extent, first: object) -> Tensor:
        """An image (channels, H, W) uint8.

        Args:
            file: Where its bytes are.
            name: What to call it where it cannot be decoded.
            extent: The width and height of all images.
            first: What the image is called that they are taken from, where there is no size.
        """
        try:
            with pillow().open(file) as image:
                pixels = self._resized(
                    _converted(image, "RGB" if self.channels == 3 else "L"), name, extent, first
                )
        except DataError:
            raise
        except Exception as error:  # decoders raise OSError, SyntaxError, ValueError, struct.error, ...
            raise _broken(name, error) from error
        array = torch.from_numpy(np.array(pixels, dtype=np.uint8))
        return array.permute(2, 0, 1) if self.channels == 3 else array.unsqueeze(0)

    def _resized(self, image: Any, name: object, extent: Extent, first: object) -> Any:
        if image.size == extent:
            return image
        if self.size is not None:
            return image.resize(extent, pillow().Resampling.BILINEAR)
        raise DataError(
            f"{name}: {image.width} x {image.height} pixels, but {first} has "
            f"{extent[0]} x {extent[1]}; set size to resize all images"
        )


def _converted(image: Any, mode: str) -> Any:
    """The image in a mode; a transparent palette goes by way of RGBA, or Pillow warns."""
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert(mode)


def _broken(name: object, error: Exception) -> DataError:
    return DataError(f"{name}: cannot be decoded as an image ({error}); replace or remove it")


def pillow() -> ModuleType:
    """PIL.Image, or how to install it."""
    return need("PIL.Image", extra="images", purpose="decode images")
