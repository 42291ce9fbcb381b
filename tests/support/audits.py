"""A trained run to audit, and an auditor who knows the truth."""

import csv
import shutil
from pathlib import Path

import numpy as np

from pencil.cli.main import cli
from support import files

NAMES = ["cat", "dog", "=cow"]


def trained_run(folder: Path, rows=400) -> Path:
    """A run on points with 30 % wrong labels; the true ones are in ``truth.npy`` beside it."""
    names = np.array(NAMES)
    path = files.points(folder / "points.npz", rows, classes=3, dims=5, spread=3, tests=20, names=names)
    with np.load(path) as data:
        np.save(folder / "truth.npy", data["y"])
    out = folder / "run"
    words = [
        "train",
        str(path),
        "--out",
        str(out),
        "--noise",
        "symmetric:0.3",
        "--epochs",
        "1,6,1",
        "--quiet",
    ]
    cli(words, standalone_mode=False)
    return out


def copied(run: Path, place: Path) -> Path:
    return Path(shutil.copytree(run, place))


def true_label(truth, item) -> str:
    """The answer of an auditor who is always right."""
    return NAMES[truth[int(item.id)]]


def fill_in(sheet: Path, filled: Path, answers) -> Path:
    """Write ``answers(line)`` into the answer column of a sheet; None leaves it empty."""
    with sheet.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    with filled.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows({**line, "answer": answers(line) or ""} for line in lines)
    return filled
