"""Thumbnails as data URIs, so that the page needs no other files."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.data.pixels import as_pixels, encode_png
from pencil.errors import MissingExtraError
from pencil.imports import need

SIDE = 112
SHARP = 64
"""Images up to this side length are stored without scaling."""
QUALITY = 80


@dataclass(frozen=True)
class Thumbnail:
    """An image in a page.

    Attributes:
        uri: The image as a data URI.
        width: Width in pixels.
        height: Height in pixels.
    """

    uri: str
    width: int
    height: int

    @property
    def is_sharp(self) -> bool:
        """Whether the image is so small that a browser should show its pixels as squares."""
        return max(self.width, self.height) <= SHARP


def is_image(value: Tensor | None) -> bool:
    """Whether an input has the shape of an image: (1 or 3, H, W)."""
    return value is not None and value.dim() == 3 and value.shape[0] in (1, 3) and min(value.shape[1:]) > 1


def thumbnail(image: Tensor) -> Thumbnail:
    """Make a thumbnail of an image (1 or 3, H, W), uint8 or float: JPEG for large images with Pillow, else PNG."""
    pixels = _small(as_pixels(image))
    height, width = pixels.shape[1:]
    jpeg = None if max(height, width) <= SHARP else _jpeg(pixels)
    kind, data = ("jpeg", jpeg) if jpeg is not None else ("png", encode_png(pixels, level=9))
    return Thumbnail(f"data:image/{kind};base64,{base64.b64encode(data).decode()}", width, height)


def _small(image: Tensor) -> Tensor:
    """Scale down to at most ``SIDE`` pixels a side; smaller images are unchanged."""
    side = max(image.shape[1:])
    if side <= SIDE:
        return image
    size = [max(1, round(length * SIDE / side)) for length in image.shape[1:]]
    smooth = torch.nn.functional.interpolate(image[None].float(), size=size, mode="bilinear", antialias=True)
    return smooth[0].round().clamp(0, 255).to(torch.uint8)


def _jpeg(pixels: Tensor) -> bytes | None:
    """A JPEG file, or None without Pillow."""
    try:
        pillow = need("PIL.Image", extra="images", purpose="make thumbnails")
    except MissingExtraError:
        return None
    array = pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0)
    file = io.BytesIO()
    pillow.fromarray(array.contiguous().numpy()).save(file, "JPEG", quality=QUALITY, optimize=True)
    return file.getvalue()
