"""Images for people: any tensor as pixels, and pixels as a PNG file, without an image library."""

from __future__ import annotations

import struct
import zlib

import torch
from torch import Tensor


def as_pixels(value: Tensor) -> Tensor:
    """Convert an image (channels, H, W) to uint8; other types are scaled to the whole range."""
    if value.dtype == torch.uint8:
        return value
    values = value.float().nan_to_num()
    low, high = values.min(), values.max()
    return ((values - low) / (high - low).clamp_min(1e-12) * 255).round().to(torch.uint8)


def encode_png(pixels: Tensor, *, level: int = 1) -> bytes:
    """Encode an image (1 or 3, H, W) uint8 as a PNG file, gray or RGB; ``level`` is zlib's, 9 for the smallest."""
    channels, height, width = pixels.shape
    lines = pixels.permute(1, 2, 0).reshape(height, -1)
    unfiltered = torch.nn.functional.pad(lines, (1, 0))  # each line starts with its filter type, 0
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    data = zlib.compress(unfiltered.contiguous().numpy().tobytes(), level)
    return b"\x89PNG\r\n\x1a\n" + _part(b"IHDR", header) + _part(b"IDAT", data) + _part(b"IEND", b"")


def _part(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
