"""Images from files or bytes to tensors, all of one size.

A file may hold anything, whatever its name. Only the formats listed here are tried, none of which starts another
program, and the size is checked before a pixel is decoded.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from pencil.errors import DataError, ExampleError, PencilError
from pencil.imports import need
from pencil.reading import MB, open_plain

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are tried, by Pillow's names; of a JPEG with several pictures the first is used."""
MAX_PIXELS = 100_000_000
MAX_BYTES = 1024 * MB
"""More than 100 megapixels of four channels with 16 bits take as they are."""
IMAGE_SUFFIXES = frozenset(
    {".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
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
        """The width and height of an image as it is shown."""
        with _opened(file, name) as image:
            return (image.height, image.width) if _turn(image) in _LYING else (image.width, image.height)

    @classmethod
    def original(cls, file: Path | BinaryIO, name: object) -> Tensor:
        """An image (3, H, W) uint8 as it is stored, for people to look at."""
        plain = cls()
        return plain.decode(file, name, plain.extent(file, name), name)

    def decode(self, file: Path | BinaryIO, name: object, extent: Extent, first: object) -> Tensor:
        """An image (channels, H, W) uint8.

        Args:
            file: Where its bytes are.
            name: Its name in error messages.
            extent: The width and height of all images.
            first: The name of the image that they are taken from, where there is no size.
        """
        with _opened(file, name) as image:
            upright = _converted(_upright(image), "RGB" if self.channels == 3 else "L")
            array = torch.from_numpy(np.array(self._resized(upright, name, extent, first), dtype=np.uint8))
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


@contextlib.contextmanager
def _opened(file: Path | BinaryIO, name: object) -> Iterator[Any]:
    """An image whose header has been read; anything wrong with it, also within the block, becomes one error."""
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(_plain(file)) if isinstance(file, Path) else file
        try:
            # Pillow warns of odd files; what cannot be decoded is an error here, and the rest does not matter.
            stack.enter_context(warnings.catch_warnings(action="ignore"))
            image = stack.enter_context(pillow().open(plain, formats=FORMATS))
            if image.width * image.height > MAX_PIXELS:
                raise _refused(name, f"has {image.width:,} x {image.height:,} pixels; {_TOO_MANY}")
            yield image
        except PencilError:
            raise
        except Exception as error:  # decoders raise OSError, SyntaxError, ValueError, struct.error, ...
            raise _refused(name, _reason(error)) from error


def read_image_bytes(file: Path) -> bytes:
    """The bytes of an image file, whose size is limited."""
    with _plain(file) as opened:
        return opened.read()


def _plain(file: Path) -> BinaryIO:
    opened = open_plain(file, error=ExampleError)
    if os.fstat(opened.fileno()).st_size > MAX_BYTES:
        opened.close()
        raise _refused(file, f"is larger than {MAX_BYTES // MB:,} MB; scale the picture down")
    return opened


_TOO_MANY = f"the most is {MAX_PIXELS:,}; scale it down"


def _reason(error: Exception) -> str:
    match type(error).__name__:
        case "DecompressionBombError":
            return f"has too many pixels ({error}); {_TOO_MANY}"
        case "UnidentifiedImageError":
            return f"cannot be decoded as an image of {', '.join(FORMATS)}; save it as PNG or JPEG"
    return f"cannot be decoded as an image ({error or type(error).__name__}); replace or remove it"


def _refused(name: object, reason: str) -> ExampleError:
    return ExampleError(f"{name}: {reason}, or leave such examples out: --set data.on_error=skip")


_ORIENTATION = 0x0112
_LYING = (5, 6, 7, 8)
"""Orientations of a camera held sideways."""


def _turn(image: Any) -> int:
    """How the camera was held, from EXIF; 1 where that is damaged. Pillow itself applies the orientation of a TIFF."""
    if image.format == "TIFF":
        return 1
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:
        return 1


def _upright(image: Any) -> Any:
    """The image as its camera was held."""
    how = pillow().Transpose
    turns = {
        2: how.FLIP_LEFT_RIGHT,
        3: how.ROTATE_180,
        4: how.FLIP_TOP_BOTTOM,
        5: how.TRANSPOSE,
        6: how.ROTATE_270,
        7: how.TRANSVERSE,
        8: how.ROTATE_90,
    }
    turn = turns.get(_turn(image))
    return image if turn is None else image.transpose(turn)


def _converted(image: Any, mode: str) -> Any:
    """The image in a mode; a palette with transparency is converted through RGBA, or its colours could be lost."""
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode.startswith("I") or image.mode == "F":
        image = _eight_bits(image)
    return image if image.mode == mode else image.convert(mode)


def _eight_bits(image: Any) -> Any:
    """Grey of 16 bits by its upper eight. Pillow's own conversion cuts at 255, which turns nearly all of it white."""
    if not image.mode.startswith("I;16") and (image.mode == "F" or image.format == "TIFF"):
        raise ValueError(f"its pixels are 32-bit numbers, mode {image.mode}; save it with 8 or 16 bits")
    return pillow().fromarray((np.asarray(image) >> 8).astype(np.uint8))


def pillow() -> ModuleType:
    """PIL.Image, or how to install it."""
    return need("PIL.Image", extra="images", purpose="decode images")
