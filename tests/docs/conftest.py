"""A folder with everything that the pages speak of, small."""

import io
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from pencil.cli.main import cli
from support import files
from support.kinds import kinds_restored

KINDS = ("cat", "dog")


def _features(rng, rows=240, classes=5):
    labels = rng.integers(classes, size=rows)
    return (3 * np.eye(16)[labels] + rng.normal(size=(rows, 16))).astype(np.float32), labels


def _png(rng, size=16) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(rng.integers(255, size=(size, size, 3), dtype=np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def _photos(folder: Path, rng, count: int) -> None:
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
        for number in range(count):
            (folder / kind / f"{number}.png").write_bytes(_png(rng))


def _shard(path: Path, rng) -> None:
    samples = (
        [(f"{number}.png", _png(rng)), (f"{number}.cls", str(number % 2).encode())] for number in range(12)
    )
    files.tar(path, [file for sample in samples for file in sample])


def _idx(folder: Path, rng, split: str, rows: int) -> None:
    """Ten classes that differ in where they are bright."""
    labels = np.arange(rows, dtype=np.uint8) % 10
    images = rng.integers(60, size=(rows, 28, 28), dtype=np.uint8)
    images[np.arange(rows), 2 * labels] += 180
    for stem, array in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", labels)):
        header = struct.pack(f">2x2B{array.ndim}I", 8, array.ndim, *array.shape)
        (folder / f"{split}-{stem}").write_bytes(header + array.tobytes())


@pytest.fixture(scope="session")
def shelf(tmp_path_factory) -> Path:
    """Data under the names the pages use, and ``RUN``, a finished run on ``DATA``."""
    folder, rng = tmp_path_factory.mktemp("shelf"), np.random.default_rng(0)
    features, labels = _features(rng)
    for name in ("embeddings.npz", "cub200_2011_lite0_224_feat.npz"):
        np.savez(folder / name, X=features, y=labels, X_test=features[:60], y_test=labels[:60])
    for name, count in (("DATA", 5), ("photos", 10)):
        _photos(folder / name, rng, count)
    for name in ("train", "test"):
        _shard(folder / name / "0.tar", rng)
    (folder / "fashion-mnist").mkdir()
    _idx(folder / "fashion-mnist", rng, "train", 100)
    _idx(folder / "fashion-mnist", rng, "t10k", 20)
    _train_run(folder)
    return folder


def _train_run(folder: Path) -> None:
    words = "--set model.name=linear --set data.size=16 --set data.augment={} --set train.precision=fp32 --epochs 1,6,1"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(cli, ["train", "DATA", "--out", "RUN", "--quiet", *words.split()])
    assert result.exit_code == 0, result.output


@pytest.fixture
def workshop(shelf, tmp_path, monkeypatch):
    """A copy of the shelf, and the current folder."""
    folder = tmp_path / "workshop"
    shutil.copytree(shelf, folder)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PENCIL_CACHE", str(tmp_path / "cache"))
    with kinds_restored():
        yield folder


@pytest.fixture
def names(workshop) -> dict:
    """What the Python of the pages takes for granted."""
    arrays = np.load(workshop / "embeddings.npz")
    features, labels = torch.from_numpy(arrays["X"]), torch.from_numpy(arrays["y"])
    model = torch.nn.Linear(16, 5)
    return {
        "__name__": "page",
        "features": features,
        "new_features": features[:5],
        "noisy_labels": labels,
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.02),
        "loader": [(features[rows], rows) for rows in torch.arange(len(features)).split(60)],
    }
