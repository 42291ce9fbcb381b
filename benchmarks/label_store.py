"""A label table of any size on this machine: create, update, checkpoint, reload.

    python benchmarks/label_store.py --rows 300000000 --classes 18291 --k 8 [--folder DIR] [--json]

``bytes_per_row``, ``row_updates_per_second``: rows cut to k entries, updated in random batches by PENCIL's closed form
from random predictions (the label step: gather, update, scatter). ``gather_scatter_over_bare``: the time of a bare
torch gather and scatter of the same bytes over ours, which also packs and unpacks. ``label_step_over_linear``: the
label step over forward and backward of the 2048 -> classes linear layer on the same batch; f is the loss's own.
``checkpoint_over_copy``: the time of a bare copy of files of the same bytes, synced to disk, over that of a checkpoint,
which is synced too. What is compared takes turns.
Rows are in memory where they fit (store ``auto``) and in a mapped file otherwise. ``--rows 3000000`` takes a minute.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from common import finish
from torch import Tensor, nn

from pencil.algorithm import Pencil, Phase, TopPencil, TopRows, moment_at
from pencil.engine import Checkpoints, Runtime
from pencil.engine.row_files import RowSnapshot, read_rows
from pencil.stores import RowStore, StoreChoice, TopStore, free_memory
from pencil.stores.choice import SHARE

CORRECTING = moment_at((Phase(name="correction", epochs=1, learning_rate=0.1),), 0.0)
CHUNK = 1 << 18  # rows made at once
DIMS = 2048


def main() -> None:
    """Measure all, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--classes", type=int, default=18_291)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--folder", type=Path, help="where files go; needs room for three tables")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="label-store-") as folder:
        figures = measure(arguments, Path(folder))
    finish(figures, as_json=arguments.json)


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Create the table and put it through everything."""
    rows, classes, k = arguments.rows, arguments.classes, arguments.k
    mapped = rows * StoreChoice(k).bytes_per_row(classes) > SHARE * free_memory()
    choice, method = StoreChoice(k, mapped=mapped), TopPencil(Pencil(), k)
    begun = time.perf_counter()
    store = choice.make(rows, classes, folder)
    assert isinstance(store, TopStore)
    fill(store, method, classes)
    figures: dict[str, float] = {
        "rows": rows,
        "mapped": int(mapped),
        "bytes_per_row": choice.bytes_per_row(classes),
        "create_seconds": round(time.perf_counter() - begun, 2),
    }
    say(figures)
    figures |= speeds(store, method, classes, arguments.batch, arguments.repeats)
    say(figures)
    figures |= checkpoints(store, folder)
    return figures


def fill(store: RowStore[TopRows], method: TopPencil, classes: int) -> None:
    """Eq. 8, with a label for every row that its number tells."""
    for start in range(0, store.num_rows, CHUNK):
        indices = torch.arange(start, min(start + CHUNK, store.num_rows))
        store.scatter(indices, method.start_rows(indices % classes, classes))


def speeds(
    store: RowStore[TopRows],
    method: TopPencil,
    classes: int,
    batch: int,
    repeats: int,
) -> dict[str, float]:
    """Gather and scatter beside bare ones, the label step beside the linear layer."""
    generator = torch.Generator().manual_seed(0)
    (table,) = store.state().values()
    layer, inputs = (
        nn.Linear(DIMS, classes),
        torch.randn(batch, DIMS, generator=generator, requires_grad=True),
    )
    probs = (3 * torch.randn(batch, classes, generator=generator)).softmax(dim=1)

    def batches(size: int) -> Tensor:
        indices: Tensor = torch.randint(store.num_rows, (size,), generator=generator).unique()
        return indices[torch.randperm(len(indices), generator=generator)]

    def bare(indices: Tensor) -> None:
        table.index_copy_(0, indices, table.index_select(0, indices))

    def ours(indices: Tensor) -> None:
        store.scatter(indices, store.gather(indices))

    def label_step(indices: Tensor) -> None:
        few = probs[: len(indices)]
        store.scatter(indices, method.moved_rows(few, store.gather(indices), indices % classes, CORRECTING))

    def linear(indices: Tensor) -> None:
        layer.zero_grad()
        layer(inputs[: len(indices)]).backward(probs[: len(indices)])

    many = 1 << 16
    moving = medians([bare, ours], lambda: batches(many), repeats)
    step = medians([label_step, linear], lambda: batches(batch), repeats)
    return {
        "row_updates_per_second": round(batch / step[0]),
        "gather_scatter_over_bare": round(moving[0] / moving[1], 4),
        "label_step_over_linear": round(step[0] / step[1], 4),
    }


def medians(
    works: list[Callable[[Tensor], None]], indices: Callable[[], Tensor], repeats: int
) -> list[float]:
    """Median seconds of each, taking turns on indices of their own; the first two rounds warm up."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats + 2):
        for work, taken in zip(works, times, strict=True):
            some = indices()
            begun = time.perf_counter()
            work(some)
            taken.append(time.perf_counter() - begun)
    return [statistics.median(taken[2:]) for taken in times]


def checkpoints(store: RowStore[TopRows], folder: Path) -> dict[str, float]:
    """Checkpoints beside bare copies, taking turns, and what is reloaded compared with what was saved."""
    saver = Checkpoints(folder / "checkpoints", Runtime(device=torch.device("cpu")), keep=1)
    (table,) = store.state().values()
    size = table.numel() * table.itemsize
    saves, copies = [], []
    for step in range(1 if size > 1 << 32 else 3):
        begun = time.perf_counter()
        saved = saver.save(step, {"step": torch.tensor(step)}, RowSnapshot(store.state()))
        saves.append(time.perf_counter() - begun)
        copies.append(copied(sorted(saved.glob("rows-*")), folder / "copy"))
    begun = time.perf_counter()
    assert saver.newest() == saved  # every checksum is right
    again = (
        {name: torch.zeros_like(value) for name, value in store.state().items()} if size < 1 << 32 else None
    )
    read_rows(saved, again or store.state(), range(store.num_rows))
    reload_seconds = time.perf_counter() - begun
    if again is not None:
        assert all(torch.equal(again[name], value) for name, value in store.state().items())
    return {
        "checkpoint_over_copy": round(statistics.median(copies) / statistics.median(saves), 4),
        "checkpoint_seconds": round(statistics.median(saves), 2),
        "checkpoint_gigabytes": round(size / 1e9, 3),
        "reload_seconds": round(reload_seconds, 2),
    }


def copied(files: list[Path], folder: Path) -> float:
    """Seconds that a bare copy of the files takes, synced."""
    folder.mkdir()
    begun = time.perf_counter()
    for file in files:
        shutil.copyfile(file, folder / file.name)
        with (folder / file.name).open("rb") as written:
            os.fsync(written.fileno())
    seconds = time.perf_counter() - begun
    shutil.rmtree(folder)
    return seconds


def say(figures: dict[str, float]) -> None:
    """Progress, to stderr."""
    print(figures, file=sys.stderr)


if __name__ == "__main__":
    main()
