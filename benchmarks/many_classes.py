"""The closed-form start with very many classes: how right its labels are, how long it takes, how much memory.

    python benchmarks/many_classes.py --json            # 18,291 classes, five rows of each
    python benchmarks/many_classes.py --quick --json    # 2,100 classes

Made data: a class is a random point in 64 dimensions, its rows are the point plus noise, and 40 % of the labels are
replaced by labels drawn evenly from the other classes. The probabilities are cut to the 8 largest of a row, as
``store = "top:8"`` keeps them; ``cut_*`` are the figures of the cut rows.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import torch
from common import measure_by_command
from torch import Tensor

from pencil.estimates.start import fit_start
from pencil.run.posterior import kept_rows
from pencil.stores import StoreChoice

CLASSES, QUICK_CLASSES = 18_291, 2_100
ROWS, DIMENSIONS = 5, 64  # rows of each class
SCATTER = 0.55  # of a row around its class, against 1 between classes
NOISE, KEPT, BATCH = 0.4, 8, 4096


def measure(*, quick: bool, seed: int) -> dict[str, float]:
    """Fit the start, then read the labels of all rows."""
    classes = QUICK_CLASSES if quick else CLASSES
    features, truth, given = made(classes, seed)
    began = time.perf_counter()
    start = fit_start(lambda: batches(features), given, classes)
    fitted = time.perf_counter() - began
    right = cut = 0
    choice = StoreChoice(KEPT)
    for places, some in batches(features):
        whole = start.posterior(some, given[places])
        right += int((whole.argmax(1) == truth[places]).sum())
        kept = kept_rows(whole, given[places], choice)
        cut += int((kept.max(1).indices == truth[places]).sum())
    return {
        "classes": classes,
        "rows": len(given),
        "given_right": round(100 * float((given == truth).float().mean()), 1),
        "start_right": round(100 * right / len(given), 1),
        "cut_right": round(100 * cut / len(given), 1),
        "rounds": len(start.rounds),
        "fit_seconds": round(fitted, 3),
        "all_seconds": round(time.perf_counter() - began, 3),
        "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def made(classes: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features (N, D), true classes (N,) and given ones (N,)."""
    random = torch.Generator().manual_seed(seed)
    truth = torch.arange(classes).repeat(ROWS)
    points = torch.randn(classes, DIMENSIONS, generator=random)
    features = points[truth] + SCATTER * torch.randn(len(truth), DIMENSIONS, generator=random)
    wrong = torch.rand(len(truth), generator=random) < NOISE
    moved = torch.randint(1, classes, truth.shape, generator=random)
    return features, truth, torch.where(wrong, (truth + moved) % classes, truth)


def batches(features: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """One pass over the rows."""
    for places in torch.arange(len(features)).split(BATCH):
        yield places, features[places]


if __name__ == "__main__":
    measure_by_command(measure, __doc__)
