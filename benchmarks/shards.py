"""A data set of 1,000 shards: written, indexed and trained on by two ranks with two loader workers each.

    python benchmarks/shards.py [--shards 1000] [--rows 25] [--epochs 1,2,1] [--json]

Images of 16 × 16 pixels, each a coloured square on noise whose colour and corner are its class; 30 % of the training
labels are made wrong. Everything goes through the command line, in a temporary folder. The figures: rows, seconds to
index, images per second of training (evaluation included), rows in the labels file, test accuracy, and the share of
right labels before and after.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import finish
from numpy.typing import NDArray

from pencil.imports import need

CLASSES = 10
SIDE = 16
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")


def main() -> None:
    """Write, index, train, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shards", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=25, help="images in a shard")
    parser.add_argument("--epochs", default="1,2,1")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pencil-shards-") as folder:
        figures = measure(Path(folder), arguments.shards, arguments.rows, arguments.epochs)
    finish(figures, as_json=arguments.json)


def measure(folder: Path, shards: int, rows: int, epochs: str) -> dict[str, float]:
    """All figures, from a data set made in ``folder``."""
    write_shards(folder / "train", shards, rows, seed=0)
    write_shards(folder / "test", max(shards // 20, 1), rows, seed=1)
    index = pencil("index", folder / "train", "--test", folder / "test", "--out", folder / "index", "--json")
    begun = time.perf_counter()
    run = pencil(
        *(
            "train",
            folder / "index",
            "--out",
            folder / "run",
            "--json",
            "--epochs",
            epochs,
            "--noise",
            "symmetric:0.3",
        ),
        *("--set", "model.name=small_cnn", "--set", "data.size=16", "--set", "data.augment={pad=2}"),
        *("--set", "data.validation=0.0", "--set", "train.workers=2", "--set", "train.precision=fp32"),
        launcher=TORCHRUN,
    )
    trained = time.perf_counter() - begun
    pencil("labels", folder / "run", "--out", folder / "labels.csv", "--json")
    with (folder / "labels.csv").open(newline="") as file:
        ids = [line["id"] for line in csv.DictReader(file)]
    count = index["rows"]["train"]
    assert len(set(ids)) == len(ids) == count, f"{len(set(ids))} ids of {count} rows in the labels file"
    passes = sum(map(int, epochs.split(",")))
    return {
        "shards": index["shards"],
        "rows": count,
        "index_seconds": index["seconds"],
        "rows_indexed_per_second": round(sum(index["rows"].values()) / index["seconds"]),
        "images_per_second": round(count * passes / run["seconds"]),
        "train_command_seconds": round(trained, 1),
        "rows_in_labels_file": len(ids),
        "test_accuracy": run["last"]["test_accuracy"],
        "labels_correct": run["last"]["labels_correct"],
    }


def pencil(*words: Any, launcher: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run the command and read its one line of JSON."""
    command = [sys.executable, *launcher, "-m", "pencil", *map(str, words)]
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def write_shards(folder: Path, shards: int, rows: int, seed: int) -> None:
    """``shards`` tar files of ``rows`` images with their classes."""
    folder.mkdir()
    random = np.random.default_rng(seed)
    for number in range(shards):
        with tarfile.open(folder / f"{number:06d}.tar", "w") as tar:
            for row in range(rows):
                label = int(random.integers(CLASSES))
                add(tar, f"{number:06d}-{row:04d}.png", encoded(picture(label, random)))
                add(tar, f"{number:06d}-{row:04d}.cls", str(label).encode())


def picture(label: int, random: np.random.Generator) -> NDArray[np.uint8]:
    """Noise with a square of the class's colour (one of five) in the class's corner (one of two)."""
    pixels = random.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    colour, corner = divmod(label, 2)
    top, left = random.integers(0, 4, 2) + 5 * corner
    pixels[top : top + 6, left : left + 6] = np.array([colour & 1, colour >> 1 & 1, colour >> 2]) * 200 + 25
    return pixels


def encoded(pixels: NDArray[np.uint8]) -> bytes:
    """As PNG."""
    image = need("PIL.Image", extra="images", purpose="write images")
    buffer = io.BytesIO()
    image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    """Append a file."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    main()
