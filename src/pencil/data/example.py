"""Small data sets with wrong labels and their truth, made on the spot, to try things on.

``people`` has features like an encoder's, and labels as people give them: hard rows have most of the errors, and a
wrong label is a class that looks alike. In the other kinds one label in five is any wrong one.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pencil.data.pixels import encode_png
from pencil.errors import DataError

ROWS = {"people": 3000, "images": 800, "texts": 1200, "table": 1200}
"""The kinds, and how many rows they usually have."""
CARELESS = 0.2
Random = np.random.Generator
_KINDS = ("birch", "elm", "fern", "ivy", "moss", "oak")
_WIDTH = 32


@dataclass(frozen=True)
class Example:
    """Features with doubtful labels, and the truth.

    Attributes:
        features: (N, D) float32.
        labels: (N,) class names, some of them wrong.
        truth: (N,) the right ones.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.str_]
    truth: NDArray[np.str_]


def example(rows: int = 3000, seed: int = 0) -> Example:
    """Make features with labels as people give them, to try things on.

    Args:
        rows: N.
        seed: Of all that is drawn.

    Returns:
        ``features`` (N, 32), ``labels`` (N,), about a fifth of them wrong, and the ``truth`` (N,).
    """
    random = np.random.default_rng(seed)
    classes = len(_KINDS)
    truth, hard = random.integers(classes, size=rows), random.lognormal(-0.3, 0.6, size=rows)
    angle = 2 * np.pi * np.arange(classes) / classes  # on a ring, where neighbours look alike
    ring = np.stack([np.cos(angle), np.sin(angle)], 1) @ random.normal(size=(2, _WIDTH))
    means = ring + 0.6 * random.normal(size=(classes, _WIDTH))
    features = means[truth] + random.normal(size=(rows, _WIDTH))
    errs = random.random(rows) < (0.25 * hard).clip(0, 0.7)
    seen = (truth + errs * random.choice((-1, 1), size=rows)) % classes
    names = np.array(_KINDS)
    return Example(features.astype(np.float32), names[seen], names[truth])


def write_example(kind: str, folder: Path, rows: int | None = None, seed: int = 0) -> Path:
    """Write a data set of a kind, and ``truth.csv`` beside it.

    Args:
        kind: One of ``ROWS``.
        folder: A new folder.
        rows: How many, if not the usual number.
        seed: Of all that is drawn.

    Returns:
        What to train on.
    """
    writers = {"people": _write_people, "images": _write_images, "texts": _write_texts, "table": _write_table}
    if folder.exists() and any(folder.iterdir()):
        raise DataError(f"{folder}: is not empty; name a new folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    return writers[kind](folder, rows or ROWS[kind], np.random.default_rng(seed))


def _write_people(folder: Path, rows: int, random: Random) -> Path:
    found = example(rows, int(random.integers(1 << 31)))
    np.savez(folder / "people.npz", X=found.features, y=found.labels)
    _write_truth(folder, range(rows), found.truth)
    return folder / "people.npz"


def _write_images(folder: Path, rows: int, random: Random) -> Path:
    names = ("circle", "cross", "ring", "square")
    truth, given = _careless(names, rows, random)
    (folder / "images").mkdir()
    paths = [f"images/{row:05d}.png" for row in range(rows)]
    for path, name in zip(paths, truth, strict=True):
        (folder / path).write_bytes(encode_png(torch.from_numpy(_drawn(name, random))))
    _write(folder / "images.csv", ("path", "label"), zip(paths, given, strict=True))
    _write_truth(folder, paths, truth)
    return folder / "images.csv"


def _drawn(name: str, random: Random) -> NDArray[np.uint8]:
    """A picture (3, 24, 24) of a shape in some place, size and colour."""
    across, down = np.meshgrid(np.arange(24), np.arange(24))
    x, y = across - random.uniform(9, 15), down - random.uniform(9, 15)
    size, far, wide = random.uniform(5, 8), np.hypot(x, y), np.maximum(abs(x), abs(y))
    inside = {
        "circle": far < size,
        "cross": (np.minimum(abs(x), abs(y)) < size / 4) & (wide < size),
        "ring": (far < size) & (far > size / 2),
        "square": wide < 0.85 * size,
    }[name]
    ink, paper = random.uniform(0, 110, size=3), random.uniform(140, 255, size=3)
    picture = np.where(inside, ink[:, None, None], paper[:, None, None]) + random.normal(0, 12, (3, 24, 24))
    return picture.clip(0, 255).astype(np.uint8)


_SENTENCES = {
    "delivery": ("the parcel came {} days late", "where is my order {}, it was due {} days ago"),
    "payment": ("i was charged {} times for order {}", "the card was refused {} times, what can i do"),
    "refund": ("please send back the money for order {}", "i returned {} items and got nothing back"),
    "account": ("i forgot the password of account {}", "my login fails after {} tries"),
}


def _write_texts(folder: Path, rows: int, random: Random) -> Path:
    names = tuple(_SENTENCES)
    truth, given = _careless(names, rows, random)
    texts = [str(random.choice(_SENTENCES[name])).format(*random.integers(2, 999, size=2)) for name in truth]
    _write(folder / "texts.csv", ("text", "label"), zip(texts, given, strict=True))
    _write_truth(folder, range(rows), truth)
    return folder / "texts.csv"


def _write_table(folder: Path, rows: int, random: Random) -> Path:
    names = ("cat", "dog", "hare")
    truth, given = _careless(names, rows, random)
    means = {"cat": (4.2, 30), "dog": (18.0, 55), "hare": (3.6, 60)}
    coats = {"cat": ("striped", "plain"), "dog": ("plain", "spotted"), "hare": ("brown", "plain")}
    cells = [
        (
            round(means[name][0] * random.lognormal(0, 0.25), 2),
            round(means[name][1] * random.lognormal(0, 0.15), 1),
            random.choice(coats[name]),
            label,
        )
        for name, label in zip(truth, given, strict=True)
    ]
    _write(folder / "table.csv", ("weight", "length", "coat", "label"), cells)
    _write_truth(folder, range(rows), truth)
    return folder / "table.csv"


def _careless(names: Sequence[str], rows: int, random: Random) -> tuple[list[str], list[str]]:
    """The truth, and labels of which ``CARELESS`` are wrong."""
    truth = random.integers(len(names), size=rows)
    other = (truth + random.integers(1, len(names), size=rows)) % len(names)
    given = np.where(random.random(rows) < CARELESS, other, truth)
    return [names[row] for row in truth], [names[row] for row in given]


def _write_truth(folder: Path, ids: Iterable[Any], truth: Iterable[str]) -> None:
    _write(folder / "truth.csv", ("id", "label"), zip(ids, truth, strict=True))


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
