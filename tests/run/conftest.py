"""Tiny data on disk, and one finished run on it."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from pencil.config import RunConfig
from pencil.presets import preset
from pencil.run import train
from support import files

ROWS = 120


@pytest.fixture(scope="session")
def points(tmp_path_factory) -> Path:
    """Well separated points: X, y, X_test, y_test, names and ids."""
    names, ids = (
        np.array(["cat", "żółć", "cow, small"]),
        np.array([f"row {number}" for number in range(ROWS)]),
    )
    path = tmp_path_factory.mktemp("points") / "points.npz"
    return files.points(path, ROWS, classes=3, dims=6, tests=30, names=names, ids=ids)


@pytest.fixture(scope="session")
def make_config(points):
    """The preset for features on the points, with ``--set``-like changes to its table."""

    def make(path=points, epochs=(1, 6, 1), **sections) -> RunConfig:
        table = preset("features", str(path)).table()
        for phase, count in zip(table["phases"], epochs, strict=True):
            phase["epochs"] = count
        for section, values in sections.items():
            table[section] = {**table[section], **values} if isinstance(values, dict) else values
        return RunConfig.of(table)

    return make


@pytest.fixture(scope="session")
def finished(make_config, tmp_path_factory):
    """A run with noise and a validation split, carried out to its end."""
    noise = {"kind": "symmetric", "rate": 0.3}
    config = make_config(epochs=(2, 12, 2), data={"noise": noise, "validation": 0.2})
    return train(config, tmp_path_factory.mktemp("runs") / "a run")


@pytest.fixture(scope="session")
def manifest(tmp_path_factory) -> Path:
    """Twelve images in two classes; half of them told by votes, the first two of each class trusted."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(1)
    with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "votes", "trusted"])
        for number in range(12):
            pixels = rng.integers(100, size=(8, 8, 3), dtype=np.uint8) + 100 * (number % 2)
            image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
            name, other = ("owl", "żubr") if number % 2 else ("żubr", "owl")
            votes = f"{name}:3 {other}:1" if number >= 6 else ""
            writer.writerow([f"{number}.png", name, votes, "yes" if number < 4 else ""])
    return folder / "table.csv"


@pytest.fixture(scope="session")
def digits(tmp_path_factory) -> Path:
    """1,000 images of 8 by 8 pixels, half of them with stripes across and half along, as MNIST's files.

    A network needs some epochs to tell them apart.
    """
    folder = tmp_path_factory.mktemp("digits")
    generator = torch.Generator().manual_seed(0)
    for name, rows in (("train", 1000), ("t10k", 20)):
        labels = torch.arange(rows) % 2
        stripes = 60.0 * ((torch.arange(8) + torch.randint(4, (rows, 1), generator=generator)) // 2 % 2)
        turned = torch.where(
            labels[:, None, None] == 0,
            stripes[:, None, :].expand(-1, 8, 8),
            stripes[:, :, None].expand(-1, 8, 8),
        )
        pixels = 180 * torch.rand(rows, 8, 8, generator=generator) + turned
        for kind, values, head in (
            ("images-idx3", pixels, (2051, rows, 8, 8)),
            ("labels-idx1", labels, (2049, rows)),
        ):
            header = b"".join(number.to_bytes(4, "big") for number in head)
            (folder / f"{name}-{kind}-ubyte").write_bytes(header + values.to(torch.uint8).numpy().tobytes())
    return folder
