"""Small files: images, arrays, tars and shards of them."""

import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image


def png(colour=(0, 0, 0), size=4) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (size, size), tuple(colour)).save(buffer, "PNG")
    return buffer.getvalue()


def npy(values) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=True)
    return buffer.getvalue()


def tar(path: Path, files) -> Path:
    """A tar of (name, content) in this order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def image_shards(folder: Path, shards=4, rows=5, classes=3, text=str) -> Path:
    """Shard s, row r: one colour (s, r, class), class (s + r) modulo their number."""
    for shard in range(shards):
        files = []
        for row in range(rows):
            label = (shard + row) % classes
            key = f"{shard:03d}-{row:03d}"
            files += [(f"{key}.png", png((shard, row, label))), (f"{key}.cls", text(label).encode())]
        tar(folder / f"{shard:04d}.tar", files)
    return folder


def points(path: Path, rows: int, *, classes: int, dims: int, spread=5, tests: int, **more) -> Path:
    """Well separated points as X, y, X_test and y_test, and further arrays of the file."""
    rng = np.random.default_rng(0)
    labels = rng.integers(classes, size=rows + tests)
    values = (spread * np.eye(dims)[labels] + rng.normal(size=(rows + tests, dims))).astype(np.float32)
    np.savez(path, X=values[:rows], y=labels[:rows], X_test=values[rows:], y_test=labels[rows:], **more)
    return path
