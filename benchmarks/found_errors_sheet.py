"""A contact sheet: images with captions in one PNG file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pencil.imports import need

SIDE = 96  # pixels of one image
WIDTH = 132  # of its caption
CAPTION = 30
GAP = 8
COLUMNS = 8


def write_sheet(path: Path, images: Sequence[Any], captions: Sequence[str], columns: int = COLUMNS) -> None:
    """Draw images (H, W) or (H, W, 3) uint8, each with its caption below."""
    pillow = need("PIL.Image", extra="images", purpose="draw a contact sheet")
    draw = need("PIL.ImageDraw", extra="images", purpose="draw a contact sheet")
    rows = -(-len(images) // columns)
    width = min(columns, len(images)) * (WIDTH + GAP) + GAP
    sheet = pillow.new("RGB", (width, rows * (SIDE + CAPTION + GAP) + GAP), "white")
    pen = draw.Draw(sheet)
    for number, (image, caption) in enumerate(zip(images, captions, strict=True)):
        left = GAP + number % columns * (WIDTH + GAP)
        top = GAP + number // columns * (SIDE + CAPTION + GAP)
        picture = pillow.fromarray(np.asarray(image)).convert("RGB")
        sheet.paste(picture.resize((SIDE, SIDE), pillow.Resampling.BICUBIC), (left, top))
        pen.multiline_text((left, top + SIDE + 2), caption, fill="black", spacing=2)
    sheet.quantize(256).save(path, optimize=True)  # a third of the size in full colour
